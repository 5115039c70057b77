"""One detached process per attempt, `python -m rota.agent.supervisor FOLDER`: starts the job, keeps its lease, tells its end.

It outlives the daemon and goes by its order and by datagrams alone; a SIGTERM to itself changes nothing, and if it is killed with
SIGKILL the job dies with it. It works in its folder and touches no other file: the log is written by a process of its own
(`log_writer.py`), which also ends the job at its lease if this process stands still. If both do, the agent does (`overdue.py`).
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
from pathlib import Path
from typing import Any

from rota.agent import child, datagrams, rules
from rota.agent.attempt_files import (
    LaunchOrder,
    anew_order,
    is_count,
    launch_instruction,
    read_order,
    seconds,
    starting,
    steps,
    unix_s,
    write_order,
    write_status,
)
from rota.agent.constants import (
    ATTEMPT_ID,
    BY_DRIVER,
    ENDED,
    FAILED,
    KILL,
    LEASE,
    LOST,
    PARK,
    PARK_WAY,
    PARKED,
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
    JOB_FOLDER,
    JOB_LOCK,
    NOTIFY,
    REPORT_SOCKET,
    SIZE,
    STATUS,
    SUPERVISOR_LOCK,
    TOMBSTONE,
    lock_soon,
    try_lock,
    write_atomic,
)
from rota.agent.outcome import (
    EXIT_YIELDED,
    asked_text,
    end_of,
    end_text,
    exit_code_of,
    is_done,
    parked_text,
    signal_number,
    start_text,
)
from rota.agent.output import LAST_PUMPS, Output
from rota.agent.pace import Pace
from rota.agent.parking import ASLEEP, AWAKE, Parking
from rota.agent.processes import ProcessIdentity, boot_id, boot_s, end_all, kill, members
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
"""For so long a full disk may keep the end from being written; after that the agent finds it lost."""
LONGEST_SLEEP_SECONDS = 10.0
"""A sleep does not count the time that the machine itself slept, and a lease does."""
DATAGRAMS_AT_ONCE = 64


class Supervisor:
    """Instants are on the clock that counts from boot, those of the status apart."""

    def __init__(self, order: LaunchOrder, known: rules.KnownJob, boot: str) -> None:
        self.order, self.boot = order, boot
        self.status = starting(order.job, order.attempt, order)._replace(state=RUNNING)
        self.stop_signal = signal_number(order.signal)
        lease_grace_seconds = min(order.grace_seconds, order.lease_grace_seconds)
        self.grace_seconds = {SUSPEND: order.grace_seconds, KILL: 0.0, LEASE: lease_grace_seconds}
        """By what it is asked to stop by."""
        self.known = known
        self.by_driver = order.env.get(PARK_WAY) == BY_DRIVER
        self.parking = Parking(HERE / JOB_FOLDER, self._living, order.grace_seconds, by_driver=self.by_driver)
        self.then: str | None = None
        """What is done when parking has come to rest: it counts as parked (park), goes on (resume) or has to leave (suspend)."""
        self.kill_at_s: float | None = None
        self.told_s = 0.0
        self.killed = self.untold = self.signalled = self.stood_still = False
        self.main = 0
        self.exit_code: int | None = None
        self.adopted_codes: set[int] = set()
        """Exits of orphans since it was asked to stop."""
        self.anew: LaunchOrder | None = None
        """It was told to save and leave, and is started again with another size."""
        self.anew_sequence: int | None = None
        """It was started again so, and has not made a step since: that of the command to."""
        self.signs = ProcessIdentity(order.env.get(ATTEMPT_ID, ""), boot_s(), os.getpid())
        self.job_lock: int | None = None
        self.output: Output | None = None
        self.box: socket.socket
        self.job_box: socket.socket
        """Where the job tells of itself."""
        self.bell = -1

    def _now_s(self) -> float:
        """As the daemon has it."""
        return unix_s(self.order, self.boot)

    # Its life.

    def run(self) -> None:
        self.job_lock = job_lock = lock_soon(HERE / ".." / JOB_LOCK)
        if job_lock is None:
            return self._end(LOST, None, f"a process of an earlier attempt of job {self.order.job} still lives")
        decision = rules.receive(self.known, launch_instruction(self.order), now_s=boot_s(), boot=self.boot)
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
        (HERE / JOB_FOLDER).mkdir(mode=0o700, exist_ok=True)
        self.job_box = datagrams.listen(HERE / JOB_FOLDER, REPORT_SOCKET)
        self.bell = child.heed_signals()
        child.adopt_orphans()
        try:
            self._start(output, job_lock)
            problem = output.progress.problem if output.progress else ""
            self.status = self.status._replace(started_s=self._now_s(), problem=problem)
            self._begin_if_silent()
            self._tell()
            while not self._over() or self._start_anew(output, job_lock):
                self._wait(output)
        except child.NotStarted as error:
            return self._end(FAILED, error.exit_code, error.problem)
        self._clear()

    def _start(self, output: Output, job_lock: int) -> None:
        folder = str((HERE / JOB_FOLDER).absolute())
        self._guard()  # starting it may hang as well
        process = child.start(self.order, log=output.descriptor, job_lock=job_lock, folder=folder)
        process.returncode = 0  # it is reaped here, so the object has nothing to wait for
        output.job_has_it()
        self.main, self.exit_code = process.pid, None
        self.signs = self.signs._replace(session=self.main, seen_s=boot_s())
        self._guard()
        self.status = self.status._replace(pid=self.main, session=self.main)

    def _guard(self) -> None:
        """Say to the process beside this one when the job has to be gone. That process is not the job's."""
        assert self.output is not None
        log = self.output.log
        self.signs = self.signs._replace(ours=frozenset({log.pid}))
        log.guard(self.until_s + self.grace_seconds[LEASE], self.main, self.signs.seen_s)
        self.status = self.status._replace(lease_s=self.until_s)

    def _wait(self, output: Output) -> None:
        """Sleep until a datagram, a signal or the next instant, then see to everything."""
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
        self._reap()  # what ended before it was told to stop, ended of itself
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
        if self.untold and now >= self.told_s + TELL_EVERY_SECONDS:
            self._tell()

    @property
    def until_s(self) -> float:
        """When its lease ends."""
        held = self.known.held
        return held.lease_s if held is not None else 0.0

    def _next_s(self) -> float:
        instants = [boot_s() + LONGEST_SLEEP_SECONDS, self._kill_s(), self.parking.next_s]
        if self.status.asked is None:
            instants.append(self.until_s)
        if self.output is not None:
            instants.append(self.output.look_s)
        if self.untold:
            instants.append(self.told_s + TELL_EVERY_SECONDS)
        if self.exit_code is not None or (self.output is not None and not self.output.log.pid):
            instants.append(boot_s() + LOOK_EVERY_SECONDS)
        return min(instants)

    def _kill_s(self) -> float:
        """When grace is over. A lease that ends during a long grace shortens it."""
        if self.kill_at_s is None:
            return float("inf")
        return self.kill_at_s if self.killed else min(self.kill_at_s, self.until_s + self.grace_seconds[LEASE])

    def _over(self) -> bool:
        """Whether it ended. A shell dies of the signal to its group while what it runs still saves: grace is for that too."""
        if self.exit_code is None:
            return False
        told = self.status.asked in {SUSPEND, LEASE} or self.anew is not None
        saving = self.exit_code == -self.stop_signal and told and not self.killed
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
                elif (self.status.asked or self.anew) and not self.parking.is_helper(exited[0]):
                    self.adopted_codes.add(code)

    # What it is told.

    def _listen_to_log(self, output: Output) -> None:
        """The process beside this one may have ended the job, which counts as its lease; or it was killed itself."""
        log = output.log
        if not log.pid:
            log.start_again()
            self._guard()
        log.listen()
        if log.killed and self.exit_code is not None and self.status.asked is None:
            self._carry_out(rules.expire_lease(self.known, math.inf))
            self.killed = self.stood_still = True

    def _listen_to_job(self) -> bool:
        """What the job tells of itself: steps, and what its hook for parking has to say. False: nothing had come."""
        came = datagrams.receive(self.job_box, DATAGRAMS_AT_ONCE)
        for datagram in came:
            message = read_message(datagram)
            if message.get("op") == REPORT:
                self._report(message)
            else:
                self.parking.hear(message)
        return bool(came)

    def _report(self, message: dict[str, Any]) -> None:
        done, total, saved = (steps(message.get(name)) for name in ("steps_done", "steps_total", "steps_saved"))
        before, self.status = self.status, with_report(self.status, message)
        self.untold = self.untold or self.status != before
        self._take(done, total, saved, self._now_s())

    def _obey(self, datagram: bytes) -> None:
        message = read_message(datagram)
        op, sequence = message.get("op"), message.get("sequence")
        length = seconds(message.get("seconds"))
        # The datagram may have lain here while we were stopped: a lease runs from when it was written.
        written_s, now = seconds(message.get("sent_boot_s")), boot_s()
        sent_s = now if written_s is None else min(written_s, now)
        if op == RENEW and length is not None:
            self._receive(rules.AgentCommand(RENEW, self.order.attempt, lease_s=sent_s + length, sent_s=sent_s))
        elif op == RESUME and length is not None and is_count(sequence):
            self._receive(rules.AgentCommand(RESUME, self.order.attempt, sequence, lease_s=sent_s + length, sent_s=sent_s))
        elif op == PARK and is_count(sequence):
            self._park(sequence)
        elif op == REPORT:
            self._report(message)
        elif op == RESIZE and is_count(sequence) and is_count(message.get("batch_size")):
            anew = anew_order(self.order, message)
            self._resize(sequence, message["batch_size"]) if anew is None else self._resize_anew(sequence, anew)
        elif op in (SUSPEND, KILL) and is_count(sequence):
            self._carry_out(self._decide(op, sequence))

    def _resize(self, sequence: int, batch_size: int) -> None:
        """The job finds its new size in its folder, and takes it at the next step that it tells of. What could not be written was
        not done: it is not answered, and comes again."""
        decision = self._decide(RESIZE, sequence)
        if decision.action == RESIZE:
            try:
                write_atomic(HERE / JOB_FOLDER, SIZE, json.dumps({"batch_size": batch_size}).encode(), durable=False)
            except OSError:
                return
            self.status = self.status._replace(start_sequence=sequence, pace=Pace())
        self._carry_out(decision)

    def _resize_anew(self, sequence: int, anew: LaunchOrder) -> None:
        """Other GPUs are for other processes: it saves and leaves, and the same command is started again with these."""
        decision = self._decide(RESIZE, sequence)
        if decision.action == RESIZE and self.exit_code is None:
            self.anew, self.anew_sequence = anew, sequence
            self.kill_at_s = boot_s() + self.grace_seconds[SUSPEND]
            self._leave()
        self._carry_out(decision)

    def _start_anew(self, output: Output, job_lock: int) -> bool:
        """Start it again, if it has left for that. If it did not save, or has to stop meanwhile, its end is told instead."""
        anew, code = self.anew, self._code()
        if anew is None or self.status.asked is not None or self._kill_remaining():
            return False
        self._last_words()
        # A launcher of several processes may fail by the signal, though they have saved.
        saved = code in (0, EXIT_YIELDED) or self.status.steps_saved >= self.status.steps_done
        if not saved or is_done(self.status):
            return False
        try:
            write_order(HERE, anew)
            (HERE / JOB_FOLDER / SIZE).unlink(missing_ok=True)
        except OSError:
            return False
        self.order, self.anew, self.kill_at_s, self.signalled, self.killed = anew, None, None, False, False
        self.adopted_codes.clear()
        self.parking = Parking(HERE / JOB_FOLDER, self._living, anew.grace_seconds, by_driver=self.by_driver)
        self.status = self.status._replace(steps_saved=self.status.steps_done, pace=Pace())
        output.log.mark(f"started again on {anew.gpus_text} from step {self.status.steps_done:,.0f}")
        output.open_again()
        self._start(output, job_lock)
        self._tell()
        return True

    def _receive(self, instruction: rules.AgentCommand) -> None:
        self._carry_out(rules.receive(self.known, instruction, now_s=boot_s(), boot=self.boot))

    def _decide(self, action: str, sequence: int) -> rules.Decision:
        return rules.receive(self.known, rules.AgentCommand(action, self.order.attempt, sequence), now_s=boot_s(), boot=self.boot)

    def _carry_out(self, decision: rules.Decision) -> None:
        """End it after its grace if that is what the rules say. The time it was given before is only ever shortened."""
        before, self.known = self.status.asked, decision.known
        held = self.known.held
        if held is not None:
            self.status = self.status._replace(sequence=held.sequence, asked=held.asked)
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
            self._tell() if self.untold else self._write_status()
        if decision.answers:
            self._tell()

    def _leave(self) -> None:
        """Tell it to save and leave. What sleeps is woken first: its handler for the signal needs the memory of its GPU."""
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
        self.output.log.announce(asked_text(self.stop_signal))
        # What is stopped can't hear until it goes on.
        for number in (self.stop_signal, signal.SIGCONT):
            with contextlib.suppress(OSError):
                os.killpg(self.main, number)

    # Parking.

    def _living(self) -> set[int]:
        """The numbers of its processes."""
        return {process.pid for process in members(self.signs)}

    def _park(self, sequence: int) -> None:
        """Put it to sleep, if it runs."""
        decision = self._decide(SUSPEND, sequence)
        runs = self.status.state == RUNNING and self.status.asked is None and self.exit_code is None
        if decision.action != SUSPEND or not runs:
            return self._carry_out(decision)
        self.known, self.then = decision.known, PARK
        self.status = self.status._replace(sequence=sequence, asked=SUSPEND)
        self.parking.begin()
        self._advance_parking()
        self._tell()

    def _advance_parking(self) -> None:
        """Parking, or waking, may have come to a rest."""
        self.parking.look()
        phase, then = self.parking.phase, self.then
        if then == PARK and phase == ASLEEP:
            self.then = None
            self._parked()
        elif then == PARK and phase == AWAKE:  # it can't be parked
            self.status = self.status._replace(parking_problem=self.parking.problem)
            if self._stays():
                return self._keep_running()
            self.kill_at_s = boot_s() + self.grace_seconds[SUSPEND]
            self._leave()
            self._tell()
        elif then == RESUME and phase == AWAKE:
            self.then = None
            self._resumed()
        elif then == SUSPEND and phase == AWAKE:
            self._leave()

    def _stays(self) -> bool:
        """To tell it to leave would throw away all it has done, as far as is known."""
        return self.order.stays and not self.status.saves and self.status.steps_saved <= self.order.from_step

    def _keep_running(self) -> None:
        """It could not be parked, and is not told to leave either."""
        assert self.output is not None and self.known.held is not None
        self.then, held = None, rules.kept_running(self.known.held)
        self.known = self.known._replace(held=held)
        self.output.log.note(f"kept running: it can't be parked ({self.parking.problem}), and is not known to save its state")
        self.status = self.status._replace(asked=None, start_sequence=held.start_sequence)
        self._tell()

    def _parked(self) -> None:
        """All it has told before it fell asleep counts."""
        assert self.output is not None and self.known.held is not None
        self.output.drain(self._now_s())
        self._look()
        self.known = self.known._replace(held=rules.parked(self.known.held))
        self.output.log.note(parked_text(self.status.steps_done, self.parking.gib))
        self.status = self.status._replace(
            state=PARKED, asked=None, parked_s=self._now_s(), parked_gib=self.parking.gib, parking_problem=""
        )
        self._tell()

    def _resumed(self) -> None:
        assert self.output is not None and self.known.held is not None
        now_s, parked_s = self._now_s(), self.status.parked_s
        self.output.log.note(f"woken at step {self.status.steps_done:,.0f}")
        self.status = self.status._replace(
            state=RUNNING,
            start_sequence=self.known.held.start_sequence,
            parked_s=None,
            resumed_s=now_s,
            parked_seconds=self.status.parked_seconds + (max(now_s - parked_s, 0.0) if parked_s is not None else 0.0),
            pace=Pace(),
        )
        self._tell()

    # What it tells.

    def _look(self, *, final: bool = False) -> None:
        """Look for steps in what has come. They were made when it came, however much later it is looked at."""
        if self.output is None or (progress := self.output.progress) is None:
            return
        if self.output.look(final=final):
            self._take(progress.step, progress.total, None, self.output.came_s)
        if progress.problem != self.status.problem:
            self.status = self.status._replace(problem=progress.problem)
            self._begin_if_silent()
            self.untold = True

    def _begin_if_silent(self) -> None:
        """One whose steps are not read, and who is not said to tell them, began with its process."""
        told = self.order.progress == SESSION or (self.output is not None and self.output.is_looked_at)
        if self.status.began_s is None and not told:
            self.status = self.status._replace(began_s=self.status.started_s)

    def _take(self, done: float | None, total: float | None, saved: float | None, at_s: float) -> None:
        """What it told at this moment."""
        old, self.status = self.status, with_steps(self.status, done, total, saved, at_s)
        if old.began_s is None and done is not None and done != self.order.from_step:
            # Not `>`: it may go on from an earlier checkpoint than we know of. The daemon waits for this, so it is told at once.
            self.status, self.told_s = self.status._replace(began_s=at_s), 0.0
        if self.anew_sequence is not None and self.anew is None and done is not None and done > self.status.steps_saved:
            sequence, self.anew_sequence = self.anew_sequence, None
            self.status, self.told_s = self.status._replace(start_sequence=sequence), 0.0
        self.untold = self.untold or self.status != old

    def _tell(self) -> bool:
        if written := self._write_status():
            datagrams.send(HERE / ".." / "..", NOTIFY, f"{self.order.job}.{self.order.attempt}".encode())
        return written

    def _write_status(self) -> bool:
        """Write the status without ringing. A full disk, say, does not end the job: this is tried again."""
        self.told_s = boot_s()
        self.status = self.status._replace(written_boot_s=self.told_s)
        try:
            write_status(HERE, self.status)
        except OSError:
            self.untold = True
            return False
        self.untold = False
        return True

    # Its end.

    def _clear(self) -> None:
        """After the main process: nothing of the job may live when it is said to have ended."""
        left = self._kill_remaining()
        self._last_words()
        status, code = self.status, self._code()
        resizing, signalled = self.anew is not None, self.signalled
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

    def _end(self, outcome: str, exit_code: int | None, problem: str) -> None:
        if self.job_lock is not None:
            # The next attempt may be started as soon as this end is told. Who lives on keeps it out by its own copy.
            os.close(self.job_lock)
        end = self.status._replace(state=ENDED, outcome=outcome, exit_code=exit_code, problem=problem, ended_s=self._now_s())
        if self.output is not None:
            self.output.log.mark(end_text(end))
            if not self.output.log.finish(HUNG_SECONDS if self.output.log.opened else 0.0) and not problem:
                end = end._replace(problem="the end of its log could not be written: the disk does not answer")
        self.status = end
        deadline = boot_s() + UNWRITTEN_SECONDS
        while not self._tell() and boot_s() < deadline:
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
    decision = rules.receive(known, launch_instruction(order), now_s=boot_s(), boot=boot)
    if decision.refusal in {rules.NOT_NEW, rules.OTHER_BOOT}:
        return 1
    Supervisor(order, known, boot).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
