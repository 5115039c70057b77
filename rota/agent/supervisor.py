"""One detached process per attempt, `python -m rota.agent.supervisor FOLDER`: starts the job, keeps its lease, reports its end.

The supervisor outlives the daemon and follows only its order and datagrams. It ignores SIGTERM, and if it is killed with SIGKILL
the job dies with it. It works in its folder and touches no other file. Another process writes the log (`log_writer.py`), and also
ends the job at its lease if the supervisor stands still. If both stand still, the agent ends the job (`overdue.py`).
"""

import contextlib
import json
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.agent import cgroups, child, datagrams, rules
from rota.agent.attempt_files import (
    LaunchOrder,
    launch_command,
    read_order,
    resized_order,
    starting,
    steps,
    unix_s,
    write_order,
    write_status,
)
from rota.agent.command_datagrams import read_command
from rota.agent.constants import (
    ATTEMPT_ID,
    DRIVER,
    ENDED,
    FAILED,
    KILL,
    LEASE,
    LOST,
    PARK,
    PARK_METHOD,
    PARKED,
    PREPARE,
    RENEW,
    REPORT,
    RESIZE,
    RESUME,
    RUNNING,
    SESSION,
    SUSPEND,
    YIELDED,
)
from rota.agent.disk import (
    CONTROL,
    JOB_LOCK,
    NOTIFY,
    SIZE,
    STATUS,
    SUPERVISOR_LOCK,
    TOMBSTONE,
    lock_soon,
    try_lock,
)
from rota.agent.job_folder import JobFolder
from rota.agent.outcome import (
    EXIT_YIELDED,
    end_of,
    end_text,
    exit_code_of,
    is_done,
    parked_text,
    requested_text,
    signal_number,
    start_text,
)
from rota.agent.output import LAST_PUMPS, Output
from rota.agent.pace import Pace
from rota.agent.parking import ASLEEP, AWAKE, Parking
from rota.agent.processes import ProcessIdentity, boot_id, boot_s, end_all, kill, members, other_user
from rota.agent.reports import read_message, with_report, with_steps
from rota.folders import enter_folder

HERE = Path()
LOOK_EVERY_SECONDS = 0.5
TELL_EVERY_SECONDS = 1.0
KILL_REMAINING_SECONDS = 30.0
OPEN_SECONDS = 15.0
"""How long a disk may take to open the log before the job is not started."""
HUNG_SECONDS = 5.0
"""How long the log may take nothing at the end of the job before the end is reported without it."""
UNWRITTEN_SECONDS = 3600.0
"""How long to keep retrying when a full disk prevents writing the final status, in seconds. After that, the agent declares the
attempt lost."""
MAX_SLEEP_SECONDS = 10.0
"""Longest wait, in seconds. A wait does not count the time in which the machine was suspended, and a lease does."""
DATAGRAMS_AT_ONCE = 64


class Supervisor:
    """Instants are on the clock that counts from boot, those of the status apart."""

    def __init__(self, order: LaunchOrder, known: rules.KnownJob, boot: str) -> None:
        self.order, self.boot = order, boot
        self.status = starting(order.job, order.attempt, order)._replace(state=RUNNING)
        self.stop_signal = signal_number(order.signal)
        lease_grace_seconds = min(order.grace_seconds, order.lease_grace_seconds)
        self.grace_seconds = {SUSPEND: order.grace_seconds, KILL: 0.0, LEASE: lease_grace_seconds}
        """Grace period, by reason for stopping."""
        self.known = known
        self.by_driver = order.env.get(PARK_METHOD) == DRIVER
        self.folder = JobFolder(HERE)
        self.parking = self._new_parking()
        self.then: str | None = None
        """What follows when parking is done: the job counts as parked (park), continues (resume) or has to exit (suspend)."""
        self.kill_at_s: float | None = None
        self.written_s = 0.0
        self.killed = self.has_unsent_status = self.signalled = self.stood_still = False
        self.main = 0
        self.exit_code: int | None = None
        self.adopted_codes: set[int] = set()
        """Exit codes of orphans since the job was asked to stop."""
        self.next_order: LaunchOrder | None = None
        """Order with which the job is started again once it has saved and exited; None if it is not to be."""
        self.restart_sequence: int | None = None
        """Sequence of the resize that started the job again, until the job makes a step; None otherwise."""
        self.signs = ProcessIdentity(order.env.get(ATTEMPT_ID, ""), boot_s(), os.getpid(), uid=other_user(order.uid))
        self.job_lock: int | None = None
        self.output: Output | None = None
        self.box: socket.socket
        self.job_box: socket.socket
        """Socket for reports of the job."""
        self.bell = -1

    def _now_s(self) -> float:
        """Return the time on the daemon's clock."""
        return unix_s(self.order, self.boot)

    # The loop.

    def run(self) -> None:
        self.job_lock = job_lock = lock_soon(HERE / ".." / JOB_LOCK)
        if job_lock is None:
            return self._end(LOST, None, f"a process of an earlier attempt of job {self.order.job} is still running")
        decision = rules.receive(self.known, launch_command(self.order), now_s=boot_s(), boot=self.boot)
        if decision.refusal:
            return self._end(LOST, None, decision.refusal)
        self.known = decision.known
        self.output = output = Output(self.order, self.signs)
        if not output.log.wait_until_open(OPEN_SECONDS):
            why = output.log.problem or f"the disk does not answer within {OPEN_SECONDS:.0f} s"
            return self._end(LOST, None, f"its log {self.order.log} cannot be written: {why}")
        if rules.is_over(self.until_s, boot_s()):
            return self._end(LOST, None, rules.LEASE_OVER)
        output.log.mark(start_text(self.order.gpus_text, self.order.attempt, self.order.from_step))
        self.box = datagrams.listen(HERE, CONTROL)
        self.bell = child.heed_signals()
        child.adopt_orphans()
        try:
            self.folder, self.job_box = child.open_folder(self.order, HERE)
            self.parking = self._new_parking()
            self._start(output, job_lock)
            problem = output.progress.problem if output.progress else ""
            self.status = self.status._replace(started_s=self._now_s(), problem=problem or None)
            self._begin_if_silent()
            self._send_status()
            while not self._over() or self._restart(output, job_lock):
                self._wait(output)
        except child.NotStarted as error:
            return self._end(FAILED, error.exit_code, error.problem)
        self._clear()

    def _new_parking(self) -> Parking:
        return Parking(self.folder, self._living, self.order.grace_seconds, by_driver=self.by_driver)

    def _start(self, output: Output, job_lock: int) -> None:
        self._guard()  # the start may hang too
        with cgroups.limited(self.order.env) as problem:
            self.main = child.start(self.order, self.folder, log=output.descriptor, job_lock=job_lock)
        output.job_has_it()
        self.exit_code = None
        self.signs = self.signs._replace(session=self.main, seen_s=boot_s())
        self._guard()
        self.status = self.status._replace(pid=self.main, session=self.main, limits_problem=problem or self.folder.limits_problem)

    def _guard(self) -> None:
        """Send the log writer the time at which the job has to be gone. That process is not the job's."""
        assert self.output is not None
        log = self.output.log
        self.signs = self.signs._replace(ours=frozenset({log.pid}))
        log.guard(self.until_s + self.grace_seconds[LEASE], self.main, self.signs.seen_s)
        self.status = self.status._replace(lease_s=self.until_s)

    def _wait(self, output: Output) -> None:
        """Wait for a datagram, a signal or the next instant, then handle all of them."""
        log = output.log
        heard = [self.box.fileno(), self.job_box.fileno(), self.bell, *output.heard, *([log.control.fileno()] if log.pid else [])]
        ready, _, _ = select.select(heard, [log.data] if log.waits else [], [], max(0.0, self._next_s() - boot_s()))
        log.flush()
        if output.read_end in ready:
            output.grows = output.pump(self._now_s())
            if output.grows and self.status.began_s is None:
                output.look_soon()
        if self.bell in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self.bell, 4096)
        self._reap()  # a process that ended before the request to stop ended by itself
        self._listen_to_log(output)
        commands = datagrams.receive(self.box, DATAGRAMS_AT_ONCE)
        self._listen_to_job()  # what it reported before a command was sent counts when that command is obeyed
        for datagram in commands:
            self._obey(datagram)
        self._advance_parking()
        if self.exit_code is None:
            # Until it is reaped, no other process can get its number and so its session.
            self.signs = self.signs._replace(seen_s=boot_s())
        self._reap()
        now = boot_s()
        self._carry_out(rules.expire_lease(self.known, now))
        if now >= self._kill_s():
            for process in members(self.signs):
                kill(process)
            self.killed, self.kill_at_s = True, now + TELL_EVERY_SECONDS
        if now >= output.look_s:
            self._look()
        if self.has_unsent_status and now >= self.written_s + TELL_EVERY_SECONDS:
            self._send_status()

    @property
    def until_s(self) -> float:
        """End of the lease."""
        held = self.known.held
        return held.lease_s if held is not None else 0.0

    def _next_s(self) -> float:
        instants = [boot_s() + MAX_SLEEP_SECONDS, self._kill_s(), self.parking.next_s]
        if self.status.stop_reason is None:
            instants.append(self.until_s)
        if self.output is not None:
            instants.append(self.output.look_s)
        if self.has_unsent_status:
            instants.append(self.written_s + TELL_EVERY_SECONDS)
        if self.exit_code is not None or (self.output is not None and not self.output.log.pid):
            instants.append(boot_s() + LOOK_EVERY_SECONDS)
        return min(instants)

    def _kill_s(self) -> float:
        """Return when the grace period ends. A lease that ends before shortens it."""
        if self.kill_at_s is None:
            return float("inf")
        return self.kill_at_s if self.killed else min(self.kill_at_s, self.until_s + self.grace_seconds[LEASE])

    def _over(self) -> bool:
        """Return whether the job has ended. A shell dies of the signal to its group while its command still saves."""
        if self.exit_code is None:
            return False
        was_asked = self.status.stop_reason in {SUSPEND, LEASE} or self.next_order is not None
        saving = self.exit_code == -self.stop_signal and was_asked and not self.killed
        return not (saving and members(self.signs))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (exited := os.waitpid(-1, os.WNOHANG))[0]:
                code = os.waitstatus_to_exitcode(exited[1])
                if self.output is not None and exited[0] == self.output.log.pid:
                    self.output.log.pid = 0
                elif exited[0] == self.main:
                    self.exit_code = code
                    self.parking.close()
                elif (self.status.stop_reason or self.next_order) and not self.parking.is_helper(exited[0]):
                    self.adopted_codes.add(code)

    # Requests and reports.

    def _listen_to_log(self, output: Output) -> None:
        """Take in news of the log writer: it may have ended the job at its lease, or it was killed itself."""
        log = output.log
        if not log.pid:
            log.start_again()
            self._guard()
        log.listen()
        if log.killed and self.exit_code is not None and self.status.stop_reason is None:
            self._carry_out(rules.expire_lease(self.known, math.inf))
            self.killed = self.stood_still = True

    def _listen_to_job(self) -> bool:
        """Take in the reports of the job and of its hook for parking. Return False if there were none."""
        came = self.folder.receive(self.job_box, DATAGRAMS_AT_ONCE)
        for datagram in came:
            message = read_message(datagram)
            if message.get("op") == REPORT:
                self._report(message)
            else:
                self.parking.hear(message)
        if self.parking.damaged_mib is not None and self.status.damaged_mib is None:
            self.status = self.status._replace(damaged_mib=self.parking.damaged_mib)
            self._kill_remaining()  # no process of the job may go on with it, nor save it
        return bool(came)

    def _report(self, message: dict[str, Any]) -> None:
        done, total, saved = (steps(message.get(name)) for name in ("steps_done", "steps_total", "steps_saved"))
        before, self.status = self.status, with_report(self.status, message)
        self.has_unsent_status = self.has_unsent_status or self.status != before
        self._take(done, total, saved, self._now_s())

    def _obey(self, datagram: bytes) -> None:
        message = read_message(datagram)
        command = read_command(message, self.order.attempt, boot_s())
        if message.get("op") == REPORT:
            self._report(message)
        elif message.get("op") == PREPARE:
            self.parking.prepare()
        elif command is not None and command.parks:
            self._park(command)
        elif command is not None and command.op == RESIZE:
            self._resize(command) if command.env is None else self._resize_by_restart(command, command.env)
        elif command is not None:
            self._carry_out(self._decide(command))

    def _resize(self, command: rules.AgentCommand) -> None:
        """Write the new size to the job's folder. The job takes it at the next step that it reports. If the write fails, the
        command is not answered, and is sent again."""
        decision = self._decide(command)
        if decision.action == RESIZE:
            try:
                self.folder.write(SIZE, json.dumps({"batch_size": command.batch_size}).encode())
            except OSError:
                return
            self.status = self.status._replace(start_sequence=command.sequence, pace=Pace())
        self._carry_out(decision)

    def _resize_by_restart(self, command: rules.AgentCommand, env: Mapping[str, str | None]) -> None:
        """Ask the job to save and exit, in order to start the same command again on other GPUs."""
        decision = self._decide(command)
        if decision.action == RESIZE and self.exit_code is None:
            self.next_order, self.restart_sequence = resized_order(self.order, env, command.gpus_text), command.sequence
            self.kill_at_s = boot_s() + self.grace_seconds[SUSPEND]
            self._leave()
        self._carry_out(decision)

    def _restart(self, output: Output, job_lock: int) -> bool:
        """Start the job again if it has exited for a resize. Return False if it did not save, or has to stop, so that it ends."""
        order, code = self.next_order, self._code()
        if order is None or self.status.stop_reason is not None or self._kill_remaining():
            return False
        self._last_words()
        # A launcher of several processes may fail by the signal, though they have saved.
        saved = code in (0, EXIT_YIELDED) or self.status.steps_saved >= self.status.steps_done
        if not saved or is_done(self.status) or self.status.damaged_mib is not None:
            return False
        try:
            write_order(HERE, order)
            self.folder.remove(SIZE)
        except OSError:
            return False
        self.order, self.next_order, self.kill_at_s, self.signalled, self.killed = order, None, None, False, False
        self.adopted_codes.clear()
        self.parking = self._new_parking()
        self.status = self.status._replace(steps_saved=self.status.steps_done, pace=Pace(), gpus_text=order.gpus_text)
        output.log.mark(f"started again on {order.gpus_text} from step {self.status.steps_done:,.0f}")
        output.open_again()
        self._start(output, job_lock)
        self._send_status()
        return True

    def _decide(self, command: rules.AgentCommand) -> rules.Decision:
        return rules.receive(self.known, command, now_s=boot_s(), boot=self.boot)

    def _carry_out(self, decision: rules.Decision) -> None:
        """Carry out a decision of the rules. A grace period that has begun is only ever shortened."""
        before, self.known = self.status.stop_reason, decision.known
        held = self.known.held
        if held is not None:
            self.status = self.status._replace(sequence=held.sequence, stop_reason=held.stop_reason)
        if decision.action in self.grace_seconds:
            at_s = boot_s() + self.grace_seconds[decision.action]
            self.kill_at_s = at_s if self.kill_at_s is None else min(at_s, self.kill_at_s)
            if before is None and decision.action != KILL and self.exit_code is None:
                self._leave()
        elif decision.action == RESUME:
            self.then = RESUME
            self.parking.wake()
            self._advance_parking()
        if decision.action in (RENEW, RESUME):
            self._guard()
            self._send_status() if self.has_unsent_status else self._write_status()
        if decision.answers:
            self._send_status()

    def _leave(self) -> None:
        """Ask the job to save and exit. A parked job is resumed first, because its signal handler needs the memory of its GPU."""
        if self.parking.phase != AWAKE:
            self.parking.wake()
        if self.parking.phase != AWAKE:
            self.then = SUSPEND
            return
        self.then = None
        self._reap()  # a job that has ended by now ended by itself
        self.signalled = self.exit_code is None
        assert self.output is not None
        self.output.drain(self._now_s())
        self.output.log.announce(requested_text(self.stop_signal))
        # A stopped process gets the signal when it continues.
        for number in (self.stop_signal, signal.SIGCONT):
            with contextlib.suppress(OSError):
                os.killpg(self.main, number)

    # Parking.

    def _living(self) -> set[int]:
        """Return the numbers of the job's processes."""
        return {process.pid for process in members(self.signs)}

    def _park(self, command: rules.AgentCommand) -> None:
        """Begin to park the job, if it runs."""
        decision = self._decide(command)
        runs = self.status.state == RUNNING and self.status.stop_reason is None and self.exit_code is None
        if decision.action != SUSPEND or not runs:
            return self._carry_out(decision)
        self.known, self.then = decision.known, PARK
        self.status = self.status._replace(sequence=command.sequence, stop_reason=SUSPEND)
        self.parking.begin()
        self._advance_parking()
        self._send_status()

    def _advance_parking(self) -> None:
        """Continue after parking or resuming, if it is done."""
        self.parking.look()
        phase, then = self.parking.phase, self.then
        if then == PARK and phase == ASLEEP:
            self.then = None
            self._parked()
        elif then == PARK and phase == AWAKE:  # it can't be parked
            self.status = self.status._replace(parking_problem=self.parking.problem or None)
            if self._stays():
                return self._keep_running()
            self.kill_at_s = boot_s() + self.grace_seconds[SUSPEND]
            self._leave()
            self._send_status()
        elif then == RESUME and phase == AWAKE:
            self.then = None
            self._resumed()
        elif then == SUSPEND and phase == AWAKE:
            self._leave()

    def _stays(self) -> bool:
        """Return whether a request to exit would probably lose all that the job has done."""
        return self.order.stays and not self.status.saves and self.status.steps_saved <= self.order.from_step

    def _keep_running(self) -> None:
        """Keep the job running, because it could not be parked."""
        assert self.output is not None and self.known.held is not None
        self.then, held = None, rules.kept_running(self.known.held)
        self.known = self.known._replace(held=held)
        self.output.log.note(f"kept running: it can't be parked ({self.parking.problem}), and is not known to save its state")
        self.status = self.status._replace(stop_reason=None, start_sequence=held.start_sequence)
        self._send_status()

    def _parked(self) -> None:
        """Report the job as parked, with all that it reported before."""
        assert self.output is not None and self.known.held is not None
        self.output.drain(self._now_s())
        self._look()
        self.known = self.known._replace(held=rules.parked(self.known.held))
        self.output.log.note(parked_text(self.status.steps_done, self.parking.gib))
        self.status = self.status._replace(
            state=PARKED, stop_reason=None, parked_s=self._now_s(), parked_gib=self.parking.gib, parking_problem=None
        )
        self._send_status()

    def _resumed(self) -> None:
        assert self.output is not None and self.known.held is not None
        now_s, parked_s = self._now_s(), self.status.parked_s
        self.output.log.note(f"resumed at step {self.status.steps_done:,.0f}, in the same process")
        self.status = self.status._replace(
            state=RUNNING,
            start_sequence=self.known.held.start_sequence,
            parked_s=None,
            resumed_s=now_s,
            parked_seconds=self.status.parked_seconds + (max(now_s - parked_s, 0.0) if parked_s is not None else 0.0),
            pace=Pace(),
        )
        self._send_status()

    # Its status.

    def _look(self, *, final: bool = False) -> None:
        """Look for steps in new output. They count from when the output arrived, however much later this looks."""
        if self.output is None or (progress := self.output.progress) is None:
            return
        if self.output.look(final=final):
            self._take(progress.step, progress.total, None, self.output.came_s)
        if (progress.problem or None) != self.status.problem:
            self.status = self.status._replace(problem=progress.problem or None)
            self._begin_if_silent()
            self.has_unsent_status = True

    def _begin_if_silent(self) -> None:
        """A job that reports no steps counts as started when its process starts."""
        reports_steps = self.order.progress == SESSION or (self.output is not None and self.output.is_looked_at)
        if self.status.began_s is None and not reports_steps:
            self.status = self.status._replace(began_s=self.status.started_s)

    def _take(self, done: float | None, total: float | None, saved: float | None, at_s: float) -> None:
        """Take in the steps that the job made at this instant."""
        old, self.status = self.status, with_steps(self.status, done, total, saved, at_s)
        if old.began_s is None and done is not None and done != self.order.from_step:
            # Not `>`: it may resume from an earlier checkpoint than we know of. The daemon waits for this, so report it at once.
            self.status, self.written_s = self.status._replace(began_s=at_s), 0.0
        if self.restart_sequence is not None and self.next_order is None and done is not None and done > self.status.steps_saved:
            sequence, self.restart_sequence = self.restart_sequence, None
            self.status, self.written_s = self.status._replace(start_sequence=sequence), 0.0
        self.has_unsent_status = self.has_unsent_status or self.status != old

    def _send_status(self) -> bool:
        if written := self._write_status():
            datagrams.send(HERE / ".." / "..", NOTIFY, f"{self.order.job}.{self.order.attempt}".encode())
        return written

    def _write_status(self) -> bool:
        """Write the status without ringing. If that fails, for example on a full disk, it is tried again."""
        self.written_s = boot_s()
        self.status = self.status._replace(written_boot_s=self.written_s)
        try:
            write_status(HERE, self.status)
        except OSError:
            self.has_unsent_status = True
            return False
        self.has_unsent_status = False
        return True

    # Its end.

    def _clear(self) -> None:
        """End all that is left of the job after its main process, and report the end."""
        left = self._kill_remaining()
        self._last_words()
        status, code = self.status, self._code()
        resizing, signalled = self.next_order is not None, self.signalled
        outcome, problem = end_of(status, code, left, signalled=signalled, resizing=resizing, stood_still=self.stood_still)
        if outcome == YIELDED and code in (0, EXIT_YIELDED):
            self.status = status._replace(steps_saved=status.steps_done)
        self._end(outcome, code, problem)

    def _kill_remaining(self) -> str:
        return end_all(self.signs, seconds=KILL_REMAINING_SECONDS, between=self._reap)

    def _code(self) -> int:
        return exit_code_of(self.exit_code, self.stop_signal, self.adopted_codes, killed=self.killed)

    def _last_words(self) -> None:
        self._reap()
        if self.output is not None:
            self.output.drain(self._now_s())
        self._look(final=True)
        for _ in range(LAST_PUMPS):
            if not self._listen_to_job():
                break

    def _end(self, outcome: str, exit_code: int | None, problem: str | None) -> None:
        if self.job_lock is not None:
            # The next attempt may start as soon as this end is reported. A process that is left keeps it out with its own copy.
            os.close(self.job_lock)
        end = self.status._replace(state=ENDED, outcome=outcome, exit_code=exit_code, problem=problem, ended_s=self._now_s())
        if self.output is not None:
            self.output.log.mark(end_text(end))
            if not self.output.log.finish(HUNG_SECONDS if self.output.log.opened else 0.0) and not problem:
                end = end._replace(problem="the end of its log could not be written: the disk does not answer")
        self.status = end
        deadline = boot_s() + UNWRITTEN_SECONDS
        while not self._send_status() and boot_s() < deadline:
            time.sleep(TELL_EVERY_SECONDS)


def main(folder: str) -> int:
    """The lock before the tombstone: an agent that declares this attempt lost writes the tombstone while holding the lock."""
    try:
        enter_folder(Path(folder))
        lock = try_lock(HERE / SUPERVISOR_LOCK, create=False)
    except FileNotFoundError:
        return 1
    if lock is None or (order := read_order(HERE)) is None:
        return 1
    # What has a tombstone was declared lost, and what has a status was started: a launch of it is not new.
    seen = (HERE / TOMBSTONE).exists() or (HERE / STATUS).exists()
    known, boot = rules.KnownJob((order.attempt, order.sequence)) if seen else rules.KnownJob(), boot_id()
    decision = rules.receive(known, launch_command(order), now_s=boot_s(), boot=boot)
    if decision.refusal in {rules.NOT_NEW, rules.OTHER_BOOT}:
        return 1
    Supervisor(order, known, boot).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
