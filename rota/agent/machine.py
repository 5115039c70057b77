"""The attempts of a machine: starts them, sends commands to their supervisors, and reports their status.

Killed with SIGKILL at any line, this loses nothing, because every step leaves a state on disk that has one meaning:

1. No folder, or a folder without launch.json: nothing was started, since the order is written before the supervisor starts. The
   folder is removed. The core had no reply, so it sends the launch again.
2. launch.json, no status.json, supervisor.lock free: a supervisor was never started, or died, or has not come to its lock yet.
   These can't be told apart, so it is declared lost: the tombstone is written *while holding supervisor.lock*, and a supervisor
   looks for the tombstone only once it has that lock. Either it was first, and then the lock is not free, or it finds the
   tombstone and leaves. So what was said to be lost never starts; a second launch under the same number does nothing.
3. supervisor.lock held: it is supervised. The kernel drops that lock with the supervisor, however it dies.
4. status.json not ended, supervisor.lock free: the supervisor was killed, and the main process with it (PR_SET_PDEATHSIG). The
   other processes are found and killed until job.lock is free too. Only then is the end written and reported (`lost`). If this
   is interrupted, it is done again.
5. status.json ended: final. It is written after the last process was gone, and forgetting removes launch.json first, so a
   half-removed folder is case 1.

Two attempts of a job never overlap: a supervisor needs job.lock, which the processes of the earlier one hold open.
The daemon makes sure that a home has only one daemon.
"""

import contextlib
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from rota.agent import rules
from rota.agent.attempt_files import AttemptStatus, LaunchOrder, launch_command
from rota.agent.attempt_files import seconds as length
from rota.agent.attempt_handle import AttemptHandle, reap, take_care_of
from rota.agent.constants import ATTEMPT_ID, PARK_PAGES
from rota.agent.disk import LAUNCH, LOGS, RUN, attempt_folder, remove_attempt, remove_job_if_empty
from rota.agent.listener import Listener
from rota.agent.others_job_folder import clear_gone, discard
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
    """For one thread. Only `wake` is called from others: a supervisor has news, or was ended because it stood still, so `poll`
    soon."""

    def __init__(self, home: Path, wake: Callable[[], None], *, detached: bool = False) -> None:
        """`detached`: whether supervisors have no parent, so that they keep running however this process ends."""
        self._detached = detached
        self.home = Path(home).absolute()
        for folder in (self.home, self.home / RUN, self.home / LOGS):
            make_folder(folder)
        self._handles: dict[tuple[int, int], AttemptHandle] = {}
        self._highest: dict[int, tuple[int, int]] = {}
        """Newest (attempt, sequence) of each job, also of attempts that have been forgotten."""
        self._told: dict[tuple[int, int], AttemptStatus] = {}
        self._forgotten: list[Path] = []
        clear_gone(take_care_of)
        self._find()
        self._listener = Listener(self.home / RUN, wake)
        # After listening began, so that what changes from here on rings.
        self._look()
        self._leases = LeaseCheck(lambda: list(self._handles.values()), wake)

    def launch(self, order: LaunchOrder) -> None:
        """Start an attempt, if the rules allow it. If the machine cannot start it, it ends as lost with a problem."""
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
        """Send a command to the supervisor of an attempt. Return False if the attempt is not running here."""
        self._decide(job, command)
        handle = self._handles.get((job, command.attempt))
        return handle is not None and handle.send(command)

    def prepare(self, job: int, attempt: int) -> None:
        """Get host memory ready for parking an attempt, if it is here and parks with our library."""
        handle = self._handles.get((job, attempt))
        if handle is not None and not handle.ended and PARK_PAGES in self.variables(job, attempt):
            handle.prepare()

    def answer(self, job: int, attempt: int) -> rules.Reply | None:
        """Return the reply to a command for an attempt; None if `poll` reports it, or its launch may still arrive."""
        if (job, attempt) in self._handles or attempt > self._highest.get(job, (0, 0))[0]:
            return None
        return rules.describe(None, attempt)

    def poll(self) -> list[AttemptStatus]:
        """Return the statuses that have changed since the last poll; at the first one, all."""
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
        """Return all statuses, as of the last look."""
        return [handle.to_status() for _, handle in sorted(self._handles.items())]

    def has_dead(self) -> bool:
        """Return whether a supervisor is gone whose attempt has not been reported as ended."""
        return any(not handle.ended and handle.status is not None and handle.is_deserted() for handle in self._handles.values())

    def variables(self, job: int, attempt: int) -> Mapping[str, str]:
        """Return the environment that an attempt was started with; empty if it is not here."""
        handle = self._handles.get((job, attempt))
        return handle.order.env if handle is not None and handle.order is not None else {}

    def forget(self, job: int, attempt: int) -> None:
        """Remove the files of an attempt that has ended. An attempt that has not ended stays."""
        handle = self._handles.get((job, attempt))
        if handle is None or not handle.ended:
            return
        del self._handles[job, attempt]
        self._told.pop((job, attempt), None)
        self._forgotten.append(handle.folder)
        self._sweep()

    def close(self) -> None:
        """Stop listening and watching leases. Supervisors keep running."""
        self._leases.close()
        self._listener.close()
        reap()

    def _find(self) -> None:
        """Find all attempts on disk. A folder without an order and without a supervisor was never started, or is half removed."""
        for job_folder in _numbered(self.home / RUN):
            for folder in _numbered(job_folder):
                job, attempt = int(job_folder.name), int(folder.name)
                if not (folder / LAUNCH).exists() and _removed(folder):
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
        """Decide by the rules and the inventory. The supervisor knows sequence and lease better, and decides again."""
        handle = self._handles.get((job, command.attempt))
        known = rules.KnownJob(self._highest.get(job, (0, 0)), handle.to_status().tracked if handle is not None else None)
        decision = rules.receive(known, command, now_s=boot_s(), boot=boot_id())
        self._highest[job] = decision.known.highest
        return decision

    def _sweep(self) -> None:
        """Remove forgotten folders. A supervisor that has reported its end may still be exiting, so this is tried again."""
        self._forgotten = [folder for folder in self._forgotten if not _removed(folder)]


def _numbered(folder: Path) -> list[Path]:
    entries = [entry for entry in folder.iterdir() if entry.name.isdecimal() and entry.is_dir()]
    return sorted(entry for entry in entries if str(int(entry.name)) == entry.name)


def _removed(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        discard(folder, take_care_of)
        return remove_attempt(folder)
    return False
