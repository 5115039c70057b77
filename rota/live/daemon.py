"""The daemon: one thread that turns events into commands. It writes both to the journal before it carries the commands out.

    requests, answers of the policy, events of the driver, the timer
        -> fold -> decide -> journal (durable) -> commands

A turn takes everything that has come in since the last turn, so one flush to disk serves all of it. Clients read under a lock
and never wait for the disk. While the disk is full, no job is accepted or started (`reserve.py`). If the journal cannot be
written for another reason, the daemon stops. Supervisors keep their jobs running under their leases, and the next start recovers
everything that was written.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from rota.core.fold.configured import Configured, CoreEvent
from rota.errors import BusyError, ConflictError, OptionError, RotaError, TacticError
from rota.live.clock import Clock
from rota.live.cluster_changes import ClusterChanges, device_of, named_nodes, never_run
from rota.live.driver_protocol import DriverCommand, DriverContext, DriverProtocol
from rota.live.find_record import find_record, unknown_job
from rota.live.history import JobHistory
from rota.live.home_id import home_id
from rota.live.home_setup import HomeSetup, known_devices
from rota.live.job_record import JobRecord
from rota.live.journal import AskedAbout, Journal
from rota.live.journal_place import find_journal, open_journal
from rota.live.journal_store import JournalFull, JournalUnavailable, LeadershipLost
from rota.live.listing import by_number, page_of
from rota.live.log_chunks import log_chunk
from rota.live.node_log import NodeLog
from rota.live.node_rows import node_rows
from rota.live.old_jobs import OldJobs
from rota.live.policy_change import try_policy
from rota.live.policy_client import PolicyClient
from rota.live.possible import check_memory, check_options
from rota.live.queued_requests import Cancel, Item, KnownJobAgain, NewJob, SetPolicy, Together, one_by_one, set_results
from rota.live.read_past import event_rows, open_past, usage_report
from rota.live.ready_row import journal_problem, ready_row
from rota.live.recovery import Make, lost_with_their_files, recover
from rota.live.requests import shown_spec, to_job_spec
from rota.live.reserve import DiskReserve, full_disk
from rota.live.status_row import status_row
from rota.live.takeover_leases import renewals_after_takeover
from rota.live.trial_rows import trials_of
from rota.live.upkeep import JournalUpkeep
from rota.model.codec import Codec
from rota.model.commands import CallPolicy, Command, Launch, SetTimer
from rota.model.events import CancelRequested, Decided, GpusTaken, PolicyTimedOut, Submitted, TimerFired
from rota.model.options import Kind
from rota.model.reasons import Reason
from rota.model.units import FOREVER
from rota.park.park_method import STAY, can_sleep, park_or_stay
from rota.wire.actor import Actor
from rota.wire.job_filter import UNFINISHED, JobFilter
from rota.wire.rows import (
    CancelRow,
    EventRow,
    JobRow,
    LogChunk,
    NodeRow,
    PageRow,
    ReadyRow,
    StatusRow,
    TakenRow,
    UsageReportRow,
    WhyRow,
)
from rota.wire.submission import Submission, naming

LOOK_EVERY_SECONDS = 1.0
"""Longest time between two turns while processes run, in seconds, since a message may be lost."""
ANSWER_WITHIN_SECONDS = 30.0
"""Longest wait of a client for the turn that takes its request, in seconds."""
STARTING = Reason.STARTING.name


def _no_change(named: str, placer: str) -> HomeSetup:
    raise OptionError("cannot be changed here.", field="policy", value=named, hint="rota up --policy NAME")


class Daemon:
    """A live scheduler."""

    def __init__(
        self,
        home: Path,
        make: Make,
        codec: Codec,
        driver: DriverProtocol,
        *,
        worker: Callable[[str], Sequence[str]],
        setup: HomeSetup,
        with_policy: Callable[[str, str], HomeSetup] = _no_change,
        on_failure: Callable[[BaseException], None] = lambda problem: None,
        tell: Callable[[str], None] = lambda line: None,
        journal: Journal | None = None,
        keep_seconds: float = FOREVER,
    ) -> None:
        """`worker`: the command that starts the process of a policy; `setup`: the wanted setup, without the names of GPUs;
        `with_policy`: the same with another policy and placer; `tell`: takes lines for the operator; `journal`: by default that
        of this home; `keep_seconds`: how long ended jobs are kept."""
        self.home, self._words, self.driver = home, codec, driver
        self._worker, self._with_policy = worker, with_policy
        self._on_failure, self._tell = on_failure, tell
        self.history = JobHistory()
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._changes = threading.Condition()
        self._number = 0
        self._stopping = False
        self._reserve = DiskReserve(home)
        self._writing_s: float | None = None
        """Monotonic time at which the open write to the journal began; None if none is open."""
        self._away = ""
        """Why the server of the journal cannot be reached; empty if it can."""
        self.journal = journal if journal is not None else open_journal(find_journal(home), codec)
        before = self.journal.setup()
        there = named_nodes(driver.discover_cluster(), driver.devices())
        self.setup = setup.with_devices(known_devices(before if self.journal.last else None, there))
        """The wanted setup. While it differs from that of the scheduler, the next turn folds it."""
        self._upkeep = JournalUpkeep(self.journal, lambda: self.scheduler.snapshot(self._words))
        # While nothing has happened, the setup of an earlier start does not count.
        self.scheduler = scheduler = recover(self.journal, codec, make) if self.journal.last else make(self.setup)
        self._keeps_next_setup = not self.journal.last or before != scheduler.setup
        """Whether the journal is to keep the setup for its next entry, or already keeps one there."""
        for job, submitted, record in self.journal.jobs():
            self.history.restore(JobRecord.of(job, submitted, record))
        self.history.adopt(scheduler.state)
        self._old_jobs = OldJobs(home, self.journal, self.history, self._lock, keep_seconds)
        devices = dict(enumerate(self.setup.devices))
        self._machines = driver.discover_cluster()
        self._cluster = ClusterChanges(scheduler.state, devices, there, nodes_can_leave=driver.nodes_can_leave)
        self._settled = False
        self._node_log = NodeLog(scheduler.state)
        # Leases are counted by this clock, so it keeps running as before while jobs have any. Otherwise the wall clock sets it.
        origin = self.journal.clock_origin() if scheduler.state.jobs.attempts else None
        self.clock = Clock(scheduler.state.now_s, origin, nodes_can_leave=driver.nodes_can_leave)
        self._on_another_machine = origin is not None and origin.boot != self.clock.origin.boot
        driver.open(self._context())
        self._policy_before = before.policy if before is not None else self.setup.policy
        self._policy_client = self._client(self.setup.policy)
        self._wake_s = scheduler.state.cycle.timer_s
        self.begun = threading.Event()
        """Set when the first turn is over, or has failed."""
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)

    # Start and stop ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the scheduler. Jobs keep running under their leases."""
        self._stopping = True
        self._items.put(None)
        if self._thread.is_alive():
            self._thread.join()
        self._policy_client.close()
        self.driver.close()
        self.journal.close()

    def _client(self, policy: str) -> PolicyClient:
        return PolicyClient(self._worker(policy), self._items.put, self.clock, policy=policy)

    def _context(self) -> DriverContext:
        return DriverContext(
            wake=lambda: self._items.put(None),
            submitted=self.history.submitted,
            clock=self.clock,
            cluster=lambda: self.scheduler.state.nodes.cluster,
            device=lambda gpu: device_of(self.scheduler.state, self._cluster.devices, gpu),
            epoch=self.journal.epoch,
            tell=self._tell,
        )

    # The loop ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self._reserve.full:
                self._tell(self.disk_problem)
            self._durably(lambda: self.journal.keep_clock(self.clock.origin))
            if self._keeps_next_setup:
                self._durably(lambda: self.journal.configure(self._words.encode(self.setup)["value"]))
            self._tell_policy(self._policy_before)
            if self._cluster.text:
                self._tell(f"the cluster has changed: {self._cluster.text}")
            self._turn(self._first_news())
            if self._on_another_machine and self.driver.nodes_can_leave:
                self._carry_out(renewals_after_takeover(self.scheduler.state))
            state = self.scheduler.state
            self.driver.kill_unknown_attempts(
                lambda job, attempt: job in state.jobs.attempts and state.jobs.attempts[job].number == attempt
            )
            self.begun.set()
            self._upkeep.at_start()
            while not self._stopping:
                self._check_disk()
                self._turn(self._wait())
                self._old_jobs.remove(self.clock())
        except (LeadershipLost, JournalUnavailable) as problem:  # expected, so no traceback
            self._on_failure(problem)
        except BaseException as problem:
            self._on_failure(problem)
            if self.begun.is_set():  # the cause of a failed start is in its error
                raise
        finally:
            self.begun.set()

    def _first_news(self) -> list[Item]:
        """Return the events of a start. The worker of an open policy call is gone, and everything that the driver has is new."""
        taken = {self.scheduler.state.nodes.cluster.gpu_node.item(gpu) for gpu in self.scheduler.state.nodes.taken}
        events: list[Item] = [GpusTaken(node, (), (), self.clock()) for node in sorted(taken)]  # the driver looks again
        events += self.driver.events()
        if not self.driver.nodes_can_leave:
            there = {(status.job, status.attempt) for status in self.driver.inventory()}
            events += lost_with_their_files(self.scheduler.state, there, home_id(self.home), self.clock())
        if self.scheduler.state.cycle.call_jobs is not None:
            events.append(PolicyTimedOut(self.scheduler.state.cycle.decision, self.clock()))
        return events

    def _wait(self) -> list[Item]:
        """Wait for the next turn, and return everything that has come in. It is empty if the timer ended the wait."""
        until = self._wake_s - self.clock()
        watched = self.driver.running() or self.scheduler.state.jobs.attempts
        until = min(until, LOOK_EVERY_SECONDS if watched or self._reserve.full else self.driver.look_every_seconds)
        items: list[Item] = []
        with contextlib.suppress(queue.Empty):
            items.append(self._items.get(timeout=None if until == FOREVER else max(until, 0.0)))
            while True:
                items.append(self._items.get_nowait())
        return items

    def _turn(self, items: Sequence[Item]) -> None:
        now = self.clock()
        answered: list[tuple[Future[int], int]] = []
        events = self._gather(items, now, answered)
        if not events:
            set_results(answered)
            return
        state = self.scheduler.state
        with self._lock:
            before, cancelling = set(state.jobs.row), set(state.jobs.cancelling)
            lives = {job: life.number for job, life in state.jobs.attempts.items()}
            statuses = {status.job: status for status in self.driver.inventory()}
            cycle = state.cycle
            asked = None if cycle.call_jobs is None else AskedAbout(cycle.decision, cycle.call_jobs)
            self.scheduler.fold(now, events)
            decided = self._decide()
            self.history.note(events, before, cancelling, lives, state, statuses, decided)
        noted = self.history.take_noted()
        self._durably(lambda: self.journal.append(now, events, decided, noted, asked))
        with self._lock:
            commands = self.scheduler.commit(decided)
        set_results(answered)
        self.driver.acknowledge()
        self._do(commands)
        self._announce()
        self._advance_cluster_change()
        for line in self._node_log.lines(state) if self.driver.nodes_can_leave else ():
            self._tell(line)
        self._upkeep.after_turn(len(events))

    def _decide(self) -> Decided | None:
        """Decide what to do next. If a tactic raises, nothing is decided, and the next turn folds a setup without the tactic."""
        try:
            return self.scheduler.decide()
        except TacticError as problem:
            settings = self.scheduler.settings
            if not any(each is problem.tactic for each in settings.tactics):
                raise
            self.setup = replace(self.setup, settings=replace(settings, tactics=settings.tactics.without(problem.tactic)))
            self._tell(f"{problem.message} The tactic is switched off until the scheduler starts again.")
            self._items.put(None)
            return None

    def _durably(self, write: Callable[[], None]) -> None:
        """Write to the journal. On a full disk, free the reserve first; then wait until there is room. If the server of the
        journal cannot be reached, wait until it can."""
        self._writing_s = time.monotonic()
        while True:
            try:
                write()
                self._writing_s = None
                if self._away:
                    self._away = ""
                    self._tell("the journal can be written again")
                return
            except JournalUnavailable as problem:
                if self._stopping:
                    raise
                if not self._away:
                    self._tell(
                        f"{problem} No job is accepted or started until it can be. Running jobs continue under their leases."
                    )
                self._away = problem.message
                time.sleep(LOOK_EVERY_SECONDS)
            except JournalFull:
                known = self._reserve.full
                if not self._reserve.release() and self._stopping:
                    raise
                if not known:
                    self._tell(self.disk_problem)
                if known:
                    time.sleep(LOOK_EVERY_SECONDS)

    @property
    def disk_problem(self) -> str:
        """Problem of a full disk, or of a journal that cannot be reached, for the operator; empty if there is none."""
        return self._away or (full_disk(self.home) if self._reserve.full else "")

    def _check_disk(self) -> None:
        if self._reserve.look():
            self._tell(self.disk_problem or f"the disk of {self.home} has room again")

    def _gather(self, items: Sequence[Item], now: float, answered: "list[tuple[Future[int], int]]") -> list[CoreEvent]:
        """Return the events of requests, policies, the driver and the clock, and of a new setup."""
        events: list[CoreEvent] = []
        last = self.scheduler.state.jobs.last_job
        for item in one_by_one(items):
            if isinstance(item, NewJob):
                if self._submitted_before(item, answered):
                    continue
                last = max(last, 0) + 1
                events.append(Submitted(last, item.wanted, now))
                record = JobRecord(last, item.sent, now, last_change="submitted")
                record.park_method, record.park_reason = item.park_method, item.park_reason
                self.history.add(record)
                answered.append((item.done, last))
            elif isinstance(item, KnownJobAgain):
                answered.append((item.done, item.job))  # a turn before this one has written it
            elif isinstance(item, Cancel):
                events.append(CancelRequested(item.job, now, item.by))
                answered.append((item.done, item.job))
            elif isinstance(item, SetPolicy):
                self._change_policy(item)
                answered.append((item.done, 0))
            elif item is not None:
                events.append(item)
        events.extend(self.driver.events())
        self._look_at_machines()
        events.extend(self._cluster.events(self.scheduler.state, now))
        if now >= self._wake_s:
            self._wake_s = FOREVER
            events.append(TimerFired(now))
        if len(self._cluster.devices) != len(self.setup.devices):  # nodes keep their GPUs and numbers
            self.setup = self.setup.with_devices(tuple(self._cluster.devices.values()))
        if self.setup != self.scheduler.setup or (events and not self.journal.last):
            events.append(Configured(self.setup, now))
        return events

    def _look_at_machines(self) -> None:
        """Follow the nodes of the cluster, which come and go."""
        if self.driver.discover_cluster() is self._machines:
            return
        self._machines = self.driver.discover_cluster()
        there = named_nodes(self._machines, self.driver.devices())
        self._cluster = ClusterChanges(self.scheduler.state, self._cluster.devices, there, nodes_can_leave=True)
        self._settled = False
        if self._cluster.text:
            self._tell(self._cluster.text)

    def _submitted_before(self, item: NewJob, answered: "list[tuple[Future[int], int]]") -> bool:
        """Answer a submission whose key already has a job. Two submissions with one key may come in the same turn."""
        try:
            before = self.history.keys.find(item.sent)
        except ConflictError as problem:
            item.done.set_exception(problem)
            return True
        if before is not None:
            answered.append((item.done, before))
        return before is not None

    def _change_policy(self, item: SetPolicy) -> None:
        """Call another policy from now on. It also answers the open call."""
        before = self.setup.policy
        with self._lock:
            old, self._policy_client, self.setup = self._policy_client, item.client, item.setup
        item.client.answer = self._items.put
        item.client.take_over(old.abandon())
        self._tell_policy(before)

    def _tell_policy(self, before: str) -> None:
        if before != self.setup.policy:
            self._tell(f"policy {self.setup.policy} takes over from {before}")

    def _advance_cluster_change(self) -> None:
        """Continue a change of the cluster after a turn, and report its end to the operator."""
        state = self.scheduler.state
        if self._cluster.due(state):
            self._items.put(None)
        if self._cluster.done and not self._settled:
            self._settled = True
            for job, why in never_run(state):
                self._tell(f"job {job} cannot run now: {why} It is kept, and runs when there are such GPUs.")

    def _do(self, commands: Sequence[Command]) -> None:
        """Carry out commands. The daemon calls policies and sets timers itself; all other commands go to the driver together."""
        for command in commands:
            if isinstance(command, SetTimer):
                self._wake_s = command.at_s
            elif isinstance(command, CallPolicy):
                with self._lock:
                    self._policy_client.ask(command)
        for_driver = [command for command in commands if not isinstance(command, CallPolicy | SetTimer)]
        if self._reserve.full:  # a launch that is not answered is sent again
            for_driver = [command for command in for_driver if not isinstance(command, Launch)]
        if for_driver and self.journal.epoch:  # the process may have been paused since it wrote them, and another may lead now
            self._durably(self.journal.confirm)
        self._carry_out(for_driver)

    def _carry_out(self, commands: Sequence[DriverCommand]) -> None:
        for event in self.driver.carry_out(commands):
            self._items.put(event)

    def _announce(self) -> None:
        with self._changes:
            self._number += 1
            self._changes.notify_all()

    # Requests ----------------------------------------------------------------------------------------------------

    def submit(self, sent: Submission) -> JobRow:
        """Submit a job, which is durable when this returns. Raise if it can never run here. A submission that is repeated with
        the same key is one job."""
        item = self._request(sent)
        self._items.put(item)
        return self.job(str(self._answer(item.done)))

    def submit_many(self, submissions: Sequence[Submission]) -> list[TakenRow]:
        """Submit all of these jobs or none. They are durable, in one transaction, when this returns. An error names the first job
        that is refused. A job whose key is known is not submitted again."""
        items, possible = [], set[Kind]()
        for index, each in enumerate(submissions):
            with naming(index):
                items.append(self._request(each, possible))
        self._items.put(Together(items))
        taken = [self._answer(item.done) for item in items]
        return [TakenRow(id=job, name=self.history.records[job].name) for job in taken]

    def _request(self, sent: Submission, possible: set[Kind] | None = None) -> NewJob | KnownJobAgain:
        """Return the request for a submission. `possible`: kinds of jobs that can run here, which are not checked again."""
        before = self.history.keys.find(sent)
        if before is not None:  # even if no new job can be accepted now
            return KnownJobAgain(before, Future())
        self._check_room()
        return self._prepared(sent, possible)

    def _check_room(self) -> None:
        if self._reserve.full or self._reserve.short():
            raise RotaError(f"Not taken: {full_disk(self.home)}.", hint="free some space on it, then the same command again")
        if self._away:
            raise RotaError(f"Not taken: {self._away}", hint="the same command again, when it answers")

    def _prepared(self, sent: Submission, possible: set[Kind] | None) -> NewJob:
        way, why = self.driver.park_method(sent)
        if sent.spec.preemptible is False:
            way, why = STAY, "its spec says preemptible: false"
        elif sent.spec.checkpoint.saves is False and not sent.spec.preemptible:
            way, why = park_or_stay(way, why)
        wanted = to_job_spec(sent, self.clock(), can_park=can_sleep(way))
        kind = Kind.of(wanted)
        if possible is None or kind not in possible:
            check_options(wanted, self.driver.discover_cluster(), self.scheduler.state.beliefs.rates)
        if possible is not None:
            possible.add(kind)
        check_memory(wanted, self.driver.discover_cluster(), self.driver.readings, pretend=self.setup.pretend)
        return NewJob(sent, wanted, way, why, Future())

    def _answer(self, done: "Future[int]") -> int:
        try:
            return done.result(timeout=ANSWER_WITHIN_SECONDS)
        except TimeoutError:
            raise BusyError(
                "The scheduler is busy and has not accepted it yet.", hint="rota jobs, to see whether it has by now"
            ) from None

    def set_policy(self, named: str) -> StatusRow:
        """Decide by another policy from now on. Raise if it does not exist, or if its first answer fails."""
        setup = self._with_policy(named, self.setup.placer_name).with_devices(self.setup.devices)
        client = self._client(setup.policy)
        try:
            with self._lock:
                twin = self.scheduler.fork()
            twin.fold(twin.state.now_s, [Configured(setup, twin.state.now_s)])
            try_policy(twin, client, named)
            done: Future[int] = Future()
            self._items.put(SetPolicy(setup, client, done))
        except BaseException:
            client.close()
            raise
        self._answer(done)
        return self.status()

    def cancel(self, job: int, by: Actor | None = None) -> JobRow:
        if job not in self.history.records:
            raise unknown_job(self.history.records, str(job))
        return self._cancel([job], by)[0].job

    def cancel_many(self, keys: Sequence[str], by: Actor | None = None) -> list[CancelRow]:
        """Cancel all of these jobs in one transaction. If a key matches no job, or several, or a job that the actor may not
        change, raise before any is cancelled."""
        with self._lock:
            jobs = [find_record(self.history.records, key, unique=True).id for key in keys]
        return self._cancel(list(dict.fromkeys(jobs)), by)

    def _cancel(self, jobs: Sequence[int], by: Actor | None) -> list[CancelRow]:
        """Cancel jobs. `by`: who requests it; None for the program itself, which may cancel all."""
        records = [self.history.records[job] for job in jobs]
        if by is not None:
            for record in records:
                by.check_owns(record.submitted.user, f"Job {record.id}")
        with self._lock:
            before = self.history.phases(records, self.scheduler.state)
        name = None if by is None else by.name
        items = [Cancel(record.id, name, Future()) for record in records if not record.ended]
        self._items.put(Together(items))
        for item in items:
            self._answer(item.done)
        with self._lock:
            after = self.history.rows(records, self.scheduler.state, self.driver.running(), self.clock())
        return [CancelRow(was=was, job=row) for was, row in zip(before, after, strict=True)]

    def jobs(self, wanted: JobFilter = UNFINISHED) -> list[JobRow]:
        with self._lock:
            return by_number(self.history, self.scheduler.state, self.driver.running(), self.clock(), wanted)

    def page(self, wanted: JobFilter = UNFINISHED) -> PageRow:
        with self._lock:
            return page_of(self.history, self.scheduler.state, self.driver.running(), self.clock(), wanted)

    def job(self, key: str, unique: bool = False, user: str | None = None) -> JobRow:
        """Return a job. `user`: the user among whose jobs the key is looked up; None for all users."""
        with self._lock:
            records = self.history.records
            if user is not None:
                records = {job: record for job, record in records.items() if record.submitted.user == user}
            record = find_record(records, key, unique=unique)
            row = self.history.rows([record], self.scheduler.state, self.driver.running(), self.clock())[0]
            trials = trials_of(self.scheduler.state, record.id, self.history.records)
            return replace(row, spec=shown_spec(record.submitted, record.name), trials=trials)

    def why(self, job: int) -> WhyRow:
        late = self.driver.late_starts().get(job, "")
        with self._lock:
            found = self.history.why(self.history.records[job], self.scheduler.state, self.driver.running(), self.clock())
        named = [replace(each, sentence=f"{each.sentence} {late}") if each.code == STARTING else each for each in found.reasons]
        return replace(found, reasons=named) if late else found

    def events(self, job: int) -> list[EventRow]:
        """Return the events of a job, the oldest first."""
        with open_past(self.home, self._words) as journal:
            return event_rows(journal, self.history.records[job])

    def report(self, by: str, days: int) -> UsageReportRow:
        """Return the usage of the last days in UTC, today included, by user, tenant, type or day."""
        with open_past(self.home, self._words) as journal:
            return usage_report(journal, by, days, self.clock())

    def logs(self, job: int, offset: int, limit: int, tail: int | None = None) -> LogChunk:
        """Return a piece of a job's output: from an offset, or with `tail` its last lines."""
        with self._lock:
            ended = self.history.records[job].ended
        return log_chunk(self.driver, job, offset, limit, tail, ended)

    def status(self) -> StatusRow:
        with self._lock:
            return status_row(
                self.scheduler.state,
                self.setup,
                self.clock(),
                worker_pid=self._policy_client.pid,
                disk_problem=self.disk_problem or None,
            )

    def ready(self) -> ReadyRow:
        """Return whether jobs can be accepted and run. This waits for the lock, so call it with a time limit."""
        since_s = self._writing_s
        writing = 0.0 if since_s is None else time.monotonic() - since_s
        journal = journal_problem(away=bool(self._away), full=self._reserve.full, writing_seconds=writing)
        with self._lock:
            return ready_row(self.scheduler.state, alive=self._thread.is_alive(), journal=journal)

    def nodes(self) -> list[NodeRow]:
        readings = self.driver.readings()  # this may take a second, so it is not done under the lock
        with self._lock:
            return node_rows(self.scheduler.state, self._cluster.devices, readings, pretend=self.setup.pretend)

    def wait_for_change(self, seen: int, timeout: float) -> int:
        with self._changes:
            self._changes.wait_for(lambda: self._number > seen or self._stopping, timeout)
            return self._number
