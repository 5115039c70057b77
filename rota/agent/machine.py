"""What a driver holds of its machine: starts attempts, speaks to their supervisors, tells what became of them.

Killed with SIGKILL at any line, this loses nothing, because every step leaves a state on disk that has one meaning:

1. No folder, or a folder without launch.json: nothing was started, since the order is on disk before the supervisor is. The
   folder is removed; the core, which had no answer, sends the launch again.
2. launch.json, no status.json, supervisor.lock free: a supervisor was never started, or died, or has not come to its lock yet.
   These can't be told apart, so it is declared lost: the tombstone is written *while holding supervisor.lock*, and a supervisor
   looks for the tombstone only once it has that lock. Either it was first, and then the lock is not free, or it finds the
   tombstone and leaves. So what was said to be lost never starts; a second launch under the same number does nothing.
3. supervisor.lock held: it is supervised. The kernel drops that lock with the supervisor, however it dies.
4. status.json not ended, supervisor.lock free: the supervisor was killed, and the main process with it (PR_SET_PDEATHSIG). The
   rest is sought out and killed until job.lock is free too; only then is the end written and told (`lost`). If that is cut
   short it is done again.
5. status.json ended: final. It is written after the last process was gone, and forgetting removes launch.json first, so a
   half-removed folder is case 1.

Two attempts of a job never overlap: a supervisor needs job.lock, which the processes of the earlier one hold open.
One daemon per home is the daemon's business to see to.
"""

import contextlib
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from rota.agent import rules
from rota.agent.attempt_files import AttemptStatus, LaunchOrder, launch_command
from rota.agent.attempt_files import seconds as length
from rota.agent.attempt_handle import AttemptHandle, reap
from rota.agent.constants import ATTEMPT_ID
from rota.agent.disk import LAUNCH, LOGS, RUN, attempt_folder, remove_attempt, remove_job_if_empty
from rota.agent.listener import Listener
from rota.agent.overdue import LeaseCheck
from rota.agent.processes import boot_id, boot_s
from rota.folders import make_folder

__all__ = ["AttemptManager", "AttemptStatus", "LaunchOrder"]


def on_disk(order: LaunchOrder) -> LaunchOrder:
    """Return an order as launch.json has it. Its lease starts now.

    The attempt's id is drawn here and replaces one that came along. A daemon that runs inside a job has that job's id in its
    environment, and another home on this machine may have jobs with the same numbers.
    """
    return order._replace(
        argv=list(order.argv),
        env={**order.env, ATTEMPT_ID: f"{order.job}.{order.attempt}.{secrets.token_hex(8)}"},
        workdir=str(Path(order.workdir).absolute()),
        log=str(Path(order.log).absolute()),
        from_step=float(order.from_step),
        boot_id=boot_id(),
        written_boot_s=boot_s(),
        lease_seconds=length(order.lease_seconds) or 0.0,
        grace_seconds=length(order.grace_seconds) or 0.0,
        lease_grace_seconds=length(order.lease_grace_seconds) or 0.0,
        steps_total=None if order.steps_total is None else float(order.steps_total),
    )


class AttemptManager:
    """For one thread; only `wake` is called from others, whenever a supervisor has something to tell or was ended because it
    stood still: `poll` soon then."""

    def __init__(self, home: Path, wake: Callable[[], None], *, detached: bool = False) -> None:
        """`detached`: supervisors are nobody's children, so that they live on however this process ends."""
        self._detached = detached
        self.home = Path(home).absolute()
        for folder in (self.home, self.home / RUN, self.home / LOGS):
            make_folder(folder)
        self._handles: dict[tuple[int, int], AttemptHandle] = {}
        self._highest: dict[int, tuple[int, int]] = {}
        """The newest (attempt, sequence) of each job, also of attempts that have been forgotten."""
        self._told: dict[tuple[int, int], AttemptStatus] = {}
        self._forgotten: list[Path] = []
        self._find()
        self._listener = Listener(self.home / RUN, wake)
        # After listening began, so that what changes from here on rings.
        self._look()
        self._leases = LeaseCheck(lambda: list(self._handles.values()), wake)

    def launch(self, order: LaunchOrder) -> None:
        """Start an attempt, if the rules allow it. Never raises for what the machine does: what can't be started has ended as
        lost, with a problem that says why."""
        job, attempt, wanted = order.job, order.attempt, on_disk(order)
        decision = self._decide(job, launch_command(wanted))
        if decision.refusal == rules.NOT_NEW:
            return
        handle = AttemptHandle(attempt_folder(self.home, job, attempt), job, attempt, detached=self._detached)
        self._handles[job, attempt] = handle
        if decision.refusal:
            handle.refuse(wanted, decision.refusal)
        else:
            handle.launch(wanted)

    def carry_out(self, job: int, command: rules.AgentCommand) -> bool:
        """Send a command to the supervisor of an attempt. Return False if it does not live here."""
        self._decide(job, command)
        handle = self._handles.get((job, command.attempt))
        return handle is not None and handle.send(command)

    def answer(self, job: int, attempt: int) -> rules.Reply | None:
        """What to say of an attempt that a command was for. None: `poll` tells it, or nothing has been heard of it yet."""
        if (job, attempt) in self._handles or attempt > self._highest.get(job, (0, 0))[0]:
            return None
        return rules.describe(None, attempt)

    def poll(self) -> list[AttemptStatus]:
        """What changed since the last poll; at the first one, everything."""
        reap()
        self._sweep()
        self._look()
        changed: list[AttemptStatus] = []
        for key, handle in sorted(self._handles.items()):
            if (part := handle.to_status()) != self._told.get(key):
                self._told[key] = part
                changed.append(part)
        return changed

    def inventory(self) -> list[AttemptStatus]:
        """Everything known, as of the last look."""
        return [handle.to_status() for _, handle in sorted(self._handles.items())]

    def has_dead(self) -> bool:
        """Whether a supervisor that was up is gone, and its end was not told."""
        return any(not handle.ended and handle.status is not None and handle.is_deserted() for handle in self._handles.values())

    def variables(self, job: int, attempt: int) -> Mapping[str, str]:
        """The environment that an attempt was started with; empty if it does not live here."""
        handle = self._handles.get((job, attempt))
        return handle.order.env if handle is not None and handle.order is not None else {}

    def forget(self, job: int, attempt: int) -> None:
        """Remove what is left of an attempt that has ended; nothing happens to one that has not."""
        handle = self._handles.get((job, attempt))
        if handle is None or not handle.ended:
            return
        del self._handles[job, attempt]
        self._told.pop((job, attempt), None)
        self._forgotten.append(handle.folder)
        self._sweep()

    def close(self) -> None:
        """Stop listening and looking at leases. Supervisors live on."""
        self._leases.close()
        self._listener.close()
        reap()

    def _find(self) -> None:
        """Everything on disk. A folder without an order was never started, or is half removed, unless a supervisor is in it."""
        for job_folder in _numbered(self.home / RUN):
            for folder in _numbered(job_folder):
                job, attempt = int(job_folder.name), int(folder.name)
                if not (folder / LAUNCH).exists() and remove_attempt(folder):
                    continue
                self._handles[job, attempt] = AttemptHandle(folder, job, attempt)
                self._highest[job] = max((attempt, 0), self._highest.get(job, (0, 0)))
            with contextlib.suppress(OSError):
                remove_job_if_empty(job_folder)

    def _look(self) -> None:
        unended = [handle for handle in self._handles.values() if not handle.ended]
        for handle in unended:
            handle.look()
        supervised = {handle.job for handle in unended if handle.supervised and not handle.ended}
        for handle in unended:
            if not handle.ended and not handle.supervised:
                handle.declare_lost(job_lives_on=handle.job in supervised)

    def _decide(self, job: int, command: rules.AgentCommand) -> rules.Decision:
        """By the rules, as far as the inventory knows. Its supervisor knows sequence and lease better, and decides again."""
        handle = self._handles.get((job, command.attempt))
        known = rules.KnownJob(self._highest.get(job, (0, 0)), handle.to_status().tracked if handle is not None else None)
        decision = rules.receive(known, command, now_s=boot_s(), boot=boot_id())
        self._highest[job] = decision.known.highest
        return decision

    def _sweep(self) -> None:
        """A supervisor that has told its end may still be on its way out, and is waited for."""
        self._forgotten = [folder for folder in self._forgotten if not _removed(folder)]


def _numbered(folder: Path) -> list[Path]:
    entries = [entry for entry in folder.iterdir() if entry.name.isdecimal() and entry.is_dir()]
    return sorted(entry for entry in entries if str(int(entry.name)) == entry.name)


def _removed(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return remove_attempt(folder)
    return False
