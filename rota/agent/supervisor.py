"""One detached process per incarnation, `python -m rota.agent.supervisor FOLDER`: starts the job, keeps its lease, tells its end.

It outlives the daemon and goes by its order and by datagrams alone; a SIGTERM to itself changes nothing, and if it is killed with
SIGKILL the job dies with it. Everything is relative to its folder, which is where it works.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from rota.agent import child, datagrams, rules
from rota.agent.constants import (
    BY_DRIVER,
    ENDED,
    FAILED,
    KILL,
    LEASE,
    LIFE,
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
    SIZE,
    STATUS,
    SUPERVISOR_LOCK,
    TELL,
    TOMBSTONE,
    try_lock,
    write_whole,
)
from rota.agent.log import Log
from rota.agent.outcome import SAVED_AND_LEFT, end_text, exit_code_of, is_done, outcome_of, parked_text, signal_number, start_text
from rota.agent.parking import ASLEEP, AWAKE, Parking
from rota.agent.processes import Signs, boot_id, boot_s, end_all, kill, members
from rota.agent.progress import Progress
from rota.agent.records import (
    Status,
    WrittenOrder,
    anew_order,
    is_count,
    launch_instruction,
    read_order,
    seconds,
    steps,
    unix_s,
    write_order,
    write_status,
)
from rota.agent.reports import read_message, with_report, with_steps

HERE = Path()
LOOK_EVERY_SECONDS = 0.5
FIRST_STEP_LOOK_SECONDS, FIRST_STEP_LOOK_TIMES = 0.02, 20
"""Until its first step all output is looked at as it comes, after a pause of this at least, and of so many times what the last
look took: a job that floods its log and makes no step must not keep its supervisor busy."""
TELL_EVERY_SECONDS = 1.0
LEFTOVERS_SECONDS = 30.0
LAST_PUMPS = 16
"""So often, at most, output is carried after the end: a pipe holds less, and whoever still writes is not of the job."""
UNWRITTEN_SECONDS = 3600.0
"""For so long a full disk may keep the end from being written; after that the agent finds it lost."""
LONGEST_SLEEP_SECONDS = 10.0
"""A sleep does not count the time that the machine itself slept, and a lease does."""
LOCK_TRIES, LOCK_PAUSE_SECONDS = 6, 0.05
"""An agent holds the lock for an instant when it looks whether it is free."""
DATAGRAMS_AT_ONCE = 64
HEEDED = ("SIGCHLD", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


class Supervisor:
    """Instants are on the clock that counts from boot, those of the status apart."""

    def __init__(self, order: WrittenOrder, known: rules.KnownJob, boot: str) -> None:
        self.order, self.boot = order, boot
        self.status = Status(
            job=order.job,
            incarnation=order.incarnation,
            sequence=order.sequence,
            state=RUNNING,
            steps_done=order.from_step,
            steps_total=order.steps_total,
            steps_saved=order.from_step,
            boot_id=order.boot_id,
        )
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
        self.look_at_s = self.may_look_s = self.told_s = 0.0
        self.killed = self.untold = self.signalled = False
        self.main = 0
        self.piped = True
        """Its output may still grow."""
        self.output_s = 0.0
        """When output last came, in Unix time."""
        self.exit_code: int | None = None
        self.adopted_codes: set[int] = set()
        """Exits of orphans since it was asked to stop."""
        self.anew: WrittenOrder | None = None
        """It was told to save and leave, and is started again with another size."""
        self.anew_sequence: int | None = None
        """It was started again so, and has not made a step since: that of the command to."""
        self.signs = Signs(order.env.get(LIFE, ""), boot_s(), os.getpid())
        self.job_lock: int | None = None
        self.log: Log | None = None
        self.progress: Progress | None = None
        self.box: socket.socket
        self.job_box: socket.socket
        """Where the job tells of itself."""
        self.bell = -1

    def _now_s(self) -> float:
        """As the daemon has it."""
        return unix_s(self.order, self.boot)

    # Its life.

    def run(self) -> None:
        self.job_lock = job_lock = self._lock_job()
        if job_lock is None:
            return self._end(LOST, None, f"a process of an earlier incarnation of job {self.order.job} still lives")
        decision = rules.receive(self.known, launch_instruction(self.order), now_s=boot_s(), boot=self.boot)
        if decision.refusal:
            return self._end(LOST, None, decision.refusal)
        self.known = decision.known
        try:
            self.log = Log(Path(self.order.log), self.order.log_bytes)
            self.log.mark(start_text(self.order.gpus_text, self.order.incarnation, self.order.from_step))
            if self.order.progress not in ("", SESSION):
                self.progress = Progress(self.log.path, self.log.size(), self.order.progress)
                self.log.rotated = self._rotated
        except OSError as error:
            return self._end(LOST, None, f"its log {self.order.log} cannot be written: {error.strerror}")
        self.box = datagrams.listen(HERE, CONTROL)
        (HERE / JOB_FOLDER).mkdir(mode=0o700, exist_ok=True)
        self.job_box = datagrams.listen(HERE / JOB_FOLDER, TELL)
        self._heed_signals()
        child.adopt_orphans()
        try:
            self._start(self.log, job_lock)
            problem = self.progress.problem if self.progress else ""
            self.status = self.status._replace(started_s=self._now_s(), problem=problem)
            self._begin_if_silent()
            self._tell()
            while not self._over() or self._start_anew(self.log, job_lock):
                self._wait()
        except child.NotStarted as error:
            return self._end(FAILED, error.exit_code, error.problem)
        self._clear()

    def _start(self, log: Log, job_lock: int) -> None:
        folder = str((HERE / JOB_FOLDER).absolute())
        process = child.start(self.order, log=log.descriptor, job_lock=job_lock, folder=folder)
        process.returncode = 0  # it is reaped here, so the object has nothing to wait for
        log.job_has_it()
        self.main, self.exit_code, self.piped = process.pid, None, True
        self.signs = self.signs._replace(session=self.main, seen_s=boot_s())
        self.status = self.status._replace(pid=self.main, session=self.main)

    def _lock_job(self) -> int | None:
        for _ in range(LOCK_TRIES):
            if (job_lock := try_lock(HERE / ".." / JOB_LOCK)) is not None:
                return job_lock
            time.sleep(LOCK_PAUSE_SECONDS)
        return None

    def _heed_signals(self) -> None:
        """Handlers that do nothing, and no SIG_IGN: that would be inherited by the job."""
        self.bell, ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        for name in HEEDED:
            signal.signal(signal.Signals[name], lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _wait(self) -> None:
        """Sleep until a datagram, a signal or the next instant, then see to everything."""
        assert self.log is not None
        heard = [self.box.fileno(), self.job_box.fileno(), self.bell, *([self.log.read_end] if self.piped else [])]
        ready, _, _ = select.select(heard, [], [], max(0.0, self._next_s() - boot_s()))
        if self.log.read_end in ready:
            self.piped = self._pump(self.log)
            if self.piped and self.status.began_s is None:
                self.look_at_s = min(self.look_at_s, self.may_look_s)
        if self.bell in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self.bell, 4096)
        self._reap()  # what ended before it was told to stop, ended of itself
        for datagram in datagrams.receive(self.box, DATAGRAMS_AT_ONCE):
            self._obey(datagram)
        self._listen_to_job()
        self._see_to_parking()
        if self.exit_code is None:
            # Until it is reaped, no other process can get its number and so its session.
            self.signs = self.signs._replace(seen_s=boot_s())
        self._reap()
        now = boot_s()
        self._carry_out(rules.look_at_clock(self.known, now))
        if now >= self._kill_s():
            for process in members(self.signs):
                kill(process)
            self.killed, self.kill_at_s = True, now + TELL_EVERY_SECONDS
        if self.progress and self.progress.wanted and now >= self.look_at_s:
            self.look_at_s = now + LOOK_EVERY_SECONDS
            self._look()
            self.may_look_s = boot_s() + max(FIRST_STEP_LOOK_SECONDS, FIRST_STEP_LOOK_TIMES * (boot_s() - now))
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
        if self.progress and self.progress.wanted:
            instants.append(self.look_at_s)
        if self.untold:
            instants.append(self.told_s + TELL_EVERY_SECONDS)
        if self.exit_code is not None:
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
                if exited[0] == self.main:
                    self.exit_code = code
                    self.parking.close()
                elif (self.status.asked or self.anew) and not self.parking.is_helper(exited[0]):
                    self.adopted_codes.add(code)

    # What it is told.

    def _listen_to_job(self) -> None:
        """What the job tells of itself: steps, and what its hook for parking has to say."""
        for datagram in datagrams.receive(self.job_box, DATAGRAMS_AT_ONCE):
            message = read_message(datagram)
            if message.get("op") == REPORT:
                self._report(message)
            else:
                self.parking.hear(message)

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
            self._receive(rules.Instruction(RENEW, self.order.incarnation, lease_s=sent_s + length, sent_s=sent_s))
        elif op == RESUME and length is not None and is_count(sequence):
            self._receive(rules.Instruction(RESUME, self.order.incarnation, sequence, lease_s=sent_s + length, sent_s=sent_s))
        elif op == PARK and is_count(sequence):
            self._park(sequence)
        elif op == REPORT:
            self._report(message)
        elif op == RESIZE and is_count(sequence) and is_count(message.get("batch_size")):
            anew = anew_order(self.order, message)
            self._resize(sequence, message["batch_size"]) if anew is None else self._resize_anew(sequence, anew)
        elif op in (SUSPEND, KILL) and is_count(sequence):
            self._receive(rules.Instruction(op, self.order.incarnation, sequence))

    def _resize(self, sequence: int, batch_size: int) -> None:
        """The job finds its new size in its folder, and takes it at the next step that it tells of. What could not be written was
        not done: it is not answered, and comes again."""
        decision = rules.receive(
            self.known, rules.Instruction(RESIZE, self.order.incarnation, sequence), now_s=boot_s(), boot=self.boot
        )
        if decision.action == RESIZE:
            try:
                write_whole(HERE / JOB_FOLDER, SIZE, json.dumps({"batch_size": batch_size}).encode(), durable=False)
            except OSError:
                return
            self.status = self.status._replace(start_sequence=sequence)
        self._carry_out(decision)

    def _resize_anew(self, sequence: int, anew: WrittenOrder) -> None:
        """Other GPUs are for other processes: it saves and leaves, and the same command is started again with these."""
        instruction = rules.Instruction(RESIZE, self.order.incarnation, sequence)
        decision = rules.receive(self.known, instruction, now_s=boot_s(), boot=self.boot)
        if decision.action == RESIZE and self.exit_code is None:
            self.anew, self.anew_sequence = anew, sequence
            self.kill_at_s = boot_s() + self.grace_seconds[SUSPEND]
            self._leave()
        self._carry_out(decision)

    def _start_anew(self, log: Log, job_lock: int) -> bool:
        """Start it again, if it has left for that. If it did not save, or has to stop meanwhile, its end is told instead."""
        anew, code = self.anew, self._code()
        if anew is None or self.status.asked is not None or end_all(self.signs, seconds=LEFTOVERS_SECONDS, between=self._reap):
            return False
        self._last_words()
        # A launcher of several processes may fail by the signal, though they have saved.
        saved = code in (0, SAVED_AND_LEFT) or self.status.steps_saved >= self.status.steps_done
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
        self.status = self.status._replace(steps_saved=self.status.steps_done)
        log.mark(f"started again on {anew.gpus_text} from step {self.status.steps_done:,.0f}")
        log.open_again()
        self._start(log, job_lock)
        self._tell()
        return True

    def _receive(self, instruction: rules.Instruction) -> None:
        self._carry_out(rules.receive(self.known, instruction, now_s=boot_s(), boot=self.boot))

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
            self._see_to_parking()
        if decision.answers:
            self._tell()

    def _leave(self) -> None:
        """Tell it to save and leave. What sleeps is woken first: its handler for the signal needs the memory of its GPU."""
        if self.parking.phase != AWAKE:
            self.parking.wake()
        if self.parking.phase != AWAKE:
            self.then = SUSPEND
            return
        self.then, self.signalled = None, True
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
        decision = rules.receive(
            self.known, rules.Instruction(SUSPEND, self.order.incarnation, sequence), now_s=boot_s(), boot=self.boot
        )
        runs = self.status.state == RUNNING and self.status.asked is None and self.exit_code is None
        if decision.action != SUSPEND or not runs:
            return self._carry_out(decision)
        self.known = decision.known
        self.status = self.status._replace(sequence=sequence, asked=SUSPEND)
        self.then = PARK
        self.parking.begin()
        self._see_to_parking()
        self._tell()

    def _see_to_parking(self) -> None:
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
        assert self.log is not None and self.known.held is not None
        self.then, held = None, rules.kept_running(self.known.held)
        self.known = self.known._replace(held=held)
        self.log.note(f"kept running: it can't be parked ({self.parking.problem}), and is not known to save its state")
        self.status = self.status._replace(asked=None, start_sequence=held.start_sequence)
        self._tell()

    def _parked(self) -> None:
        """All it has told before it fell asleep counts."""
        assert self.log is not None and self.known.held is not None
        for _ in range(LAST_PUMPS):
            if not self._pump(self.log):
                break
        self._look()
        self.known = self.known._replace(held=rules.parked(self.known.held))
        self.log.note(parked_text(self.status.steps_done, self.parking.gib))
        self.status = self.status._replace(
            state=PARKED, asked=None, parked_s=self._now_s(), parked_gib=self.parking.gib, parking_problem=""
        )
        self._tell()

    def _resumed(self) -> None:
        assert self.log is not None and self.known.held is not None
        now_s, parked_s = self._now_s(), self.status.parked_s
        self.log.note(f"woken at step {self.status.steps_done:,.0f}")
        self.status = self.status._replace(
            state=RUNNING,
            start_sequence=self.known.held.start_sequence,
            parked_s=None,
            resumed_s=now_s,
            parked_seconds=self.status.parked_seconds + (max(now_s - parked_s, 0.0) if parked_s is not None else 0.0),
        )
        self._tell()

    # What it tells.

    def _pump(self, log: Log) -> bool:
        """Carry output to the log. What it says was so when it came, however much later it is looked at."""
        before, self.output_s = self.output_s, self._now_s()
        came = log.pump()
        if not came:
            self.output_s = before
        return came

    def _look(self, *, final: bool = False) -> None:
        if self.progress is None:
            return
        with contextlib.suppress(OSError):
            if self.progress.look(final=final):
                self._take(self.progress.step, self.progress.total, None, self.output_s)
        if self.progress.problem != self.status.problem:
            self.status = self.status._replace(problem=self.progress.problem)
            self._begin_if_silent()
            self.untold = True

    def _begin_if_silent(self) -> None:
        """One whose steps are not read, and who is not said to tell them, began with its process."""
        told = self.order.progress == SESSION or (self.progress and self.progress.wanted)
        if self.status.began_s is None and not told:
            self.status = self.status._replace(began_s=self.status.started_s)

    def _rotated(self, done: bool) -> None:
        """Another file of the log begins: what is in this one is read before, and the rest from there."""
        if self.progress is not None and done:
            self.progress.follow()
        elif not done:
            self._look()

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
        self.told_s = boot_s()
        self.status = self.status._replace(written_boot_s=self.told_s)
        try:
            write_status(HERE, self.status)
        except OSError:  # A full disk, say: the job goes on, and this is tried again.
            self.untold = True
            return False
        self.untold = False
        datagrams.send(HERE / ".." / "..", NOTIFY, f"{self.order.job}.{self.order.incarnation}".encode())
        return True

    # Its end.

    def _clear(self) -> None:
        """After the main process: nothing of the job may live when it is said to have ended."""
        left = end_all(self.signs, seconds=LEFTOVERS_SECONDS, between=self._reap)
        self._last_words()
        status, code = self.status, self._code()
        outcome = outcome_of(code, status.asked, signalled=self.signalled, done=is_done(status))
        if outcome == FAILED and self.anew is not None:
            outcome, left = LOST, left or f"it was to save and be started again, and left with exit code {code}"
        elif outcome == FAILED and status.state == PARKED:  # asleep, or while it was woken: that is no failure of its own
            outcome, left = LOST, left or f"it died while it was parked ({code})"
        if outcome == YIELDED and code in (0, SAVED_AND_LEFT):
            self.status = status._replace(steps_saved=status.steps_done)
        self._end(outcome, code, left or status.problem)

    def _code(self) -> int:
        return exit_code_of(self.exit_code, self.stop_signal, self.adopted_codes, killed=self.killed)

    def _last_words(self) -> None:
        self._reap()
        if self.log is not None:
            for _ in range(LAST_PUMPS):
                if not self._pump(self.log):
                    break
        self._look(final=True)
        self._listen_to_job()

    def _end(self, outcome: str, exit_code: int | None, problem: str) -> None:
        if self.job_lock is not None:
            # The next incarnation may be started as soon as this end is told. Who lives on keeps it out by its own copy.
            os.close(self.job_lock)
        end = self.status._replace(state=ENDED, outcome=outcome, exit_code=exit_code, problem=problem, ended_s=self._now_s())
        self.status = end
        if self.log is not None:
            self.log.mark(end_text(end))
        deadline = boot_s() + UNWRITTEN_SECONDS
        while not self._tell() and boot_s() < deadline:
            time.sleep(TELL_EVERY_SECONDS)


def main(folder: str) -> int:
    """The lock before the tombstone: an agent that declares this incarnation lost writes the tombstone while holding the lock."""
    try:
        os.chdir(folder)
        lock = try_lock(HERE / SUPERVISOR_LOCK, create=False)
    except FileNotFoundError:
        return 1
    order = read_order(HERE)
    if lock is None or order is None:
        return 1
    # What has a tombstone was declared lost, and what has a status was started: a launch of it is not new.
    seen = (HERE / TOMBSTONE).exists() or (HERE / STATUS).exists()
    known, boot = rules.KnownJob((order.incarnation, order.sequence)) if seen else rules.KnownJob(), boot_id()
    decision = rules.receive(known, launch_instruction(order), now_s=boot_s(), boot=boot)
    if decision.refusal in {rules.NOT_NEW, rules.OTHER_BOOT}:
        return 1
    Supervisor(order, known, boot).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
