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
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from rota.core.fold.configured import Configured, CoreEvent
from rota.core.state.state import State
from rota.errors import BusyError, OptionError, RotaError, TacticError
from rota.live.accepting import accepted
from rota.live.clock import Clock
from rota.live.cluster_changes import ClusterChanges, device_of, named_nodes, never_run
from rota.live.dependencies import KnownJobs, find_awaited
from rota.live.driver_protocol import DriverCommand, DriverContext, DriverProtocol
from rota.live.durable_writer import DurableWriter
from rota.live.history import JobHistory, Statuses
from rota.live.home_id import home_id
from rota.live.home_setup import HomeSetup, known_devices
from rota.live.job_records import LockedReads
from rota.live.job_requests import JobRequests, events_of
from rota.live.journal import AskedAbout, Journal
from rota.live.journal_place import find_journal, open_journal
from rota.live.journal_store import JournalUnavailable, LeadershipLost
from rota.live.listing import by_number, page_of
from rota.live.log_chunks import log_chunk
from rota.live.machine_requests import MachineRequests
from rota.live.membership import admitted, by_membership
from rota.live.new_array import new_array
from rota.live.new_jobs import NewJobs
from rota.live.node_health import NodeHealth, health_check_of
from rota.live.node_log import NodeLog
from rota.live.node_rows import node_rows
from rota.live.notifier import Notifier
from rota.live.old_jobs import OldJobs
from rota.live.parking_ahead import ParkingAhead
from rota.live.policy_change import try_policy
from rota.live.policy_client import PolicyClient
from rota.live.queued_requests import (
    AboutJobs,
    ChangeJob,
    ChangeMachines,
    Item,
    KnownJobAgain,
    NewItem,
    NewJob,
    SetPolicy,
    Together,
    set_results,
)
from rota.live.read_past import event_rows, open_past, records_reader, usage_report
from rota.live.ready_row import ready_row
from rota.live.recovery import Make, lost_with_their_files, recover
from rota.live.request_rows import request_rows
from rota.live.requests import check_priority
from rota.live.status_row import status_row
from rota.live.takeover_leases import renewals_after_takeover
from rota.live.tenant_rows import tenant_rows
from rota.live.upkeep import JournalUpkeep
from rota.live.whole_job import whole_job
from rota.model.codec import Codec
from rota.model.commands import CallPolicy, Command, Launch, SetTimer
from rota.model.events import Decided, GpusTaken, PolicyTimedOut, TimerFired
from rota.model.options import Kind
from rota.model.reasons import Reason
from rota.model.units import FOREVER
from rota.wire.actor import Actor
from rota.wire.job_filter import UNFINISHED, JobFilter
from rota.wire.job_request import JobRequest, Verb
from rota.wire.notify import Notify
from rota.wire.rows import (
    EventRow,
    JobRow,
    LogChunk,
    NodeRow,
    PageRow,
    ReadyRow,
    RequestRow,
    StatusRow,
    TakenRow,
    TenantRow,
    UsageReportRow,
    WhyRow,
)
from rota.wire.spec import Spec
from rota.wire.submission import Submission, naming
from rota.wire.task_array import is_array, tasks_of

LOOK_EVERY_SECONDS = 1.0
"""Longest time between two turns while processes run, in seconds, since a message may be lost."""
ANSWER_WITHIN_SECONDS = 30.0
"""Longest wait of a client for the turn that takes its request, in seconds."""
STARTING = Reason.STARTING.name
T = TypeVar("T")


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
        notify: Notify | None = None,
    ) -> None:
        """`worker`: the command that starts the process of a policy; `setup`: the wanted setup, without the names of GPUs;
        `with_policy`: the same with another policy and placer; `tell`: takes lines for the operator; `journal`: by default that
        of this home; `keep_seconds`: how long ended jobs are kept; `notify`: where events of all jobs are sent."""
        self.home, self._words, self.driver = home, codec, driver
        self._worker, self._with_policy = worker, with_policy
        self._on_failure, self._tell = on_failure, tell
        self.history = JobHistory(records_reader(home, codec))
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._reads = LockedReads(self._lock, self.history.records)
        self._changes = threading.Condition()
        self._number = 0
        self._stopping = False
        self._journal_writer = DurableWriter(home, tell)
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
        self.history.restore(self.journal.jobs(), tell)
        self.history.adopt(scheduler.state)
        self._notifier = Notifier(home, notify, tell)
        self._old_jobs = OldJobs(home, self.journal, self.history, self._lock, keep_seconds)
        self._about_jobs = JobRequests(self.history, driver.running, lambda: self.clock())
        devices = dict(enumerate(self.setup.devices))
        self._machines = driver.discover_cluster()
        self._cluster = ClusterChanges(scheduler.state, devices, there, nodes_can_leave=driver.nodes_can_leave)
        self._settled = False
        self._removed = frozenset(scheduler.state.nodes.removed)
        self.machines = MachineRequests(lambda: self.scheduler.state, self._lock, self._items.put, self._answer)
        """Requests of operators about nodes."""
        self._node_log = NodeLog(scheduler.state, nodes_can_leave=driver.nodes_can_leave)
        # Leases are counted by this clock, so it keeps running as before while jobs have any. Otherwise the wall clock sets it.
        origin = self.journal.clock_origin() if scheduler.state.jobs.attempts else None
        self.clock = Clock(scheduler.state.now_s, origin, nodes_can_leave=driver.nodes_can_leave)
        self._on_another_machine = origin is not None and origin.boot != self.clock.origin.boot
        driver.open(self._context())
        self._policy_before = before.policy if before is not None else self.setup.policy
        self._policy_client = self._client(self.setup)
        self._wake_s = scheduler.state.cycle.timer_s
        self._parking_ahead = ParkingAhead()
        self.begun = threading.Event()
        """Set when the first turn is over, or has failed."""
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)

    # Start and stop ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._notifier.start(self.history.records, self.journal.events_of)
        self._thread.start()

    def stop(self) -> None:
        """Stop the scheduler. Jobs keep running under their leases."""
        self._stopping = self._journal_writer.stopping = True
        self._items.put(None)
        if self._thread.is_alive():
            self._thread.join()
        self._notifier.stop()
        self._policy_client.close()
        self.driver.close()
        self.journal.close()

    def _client(self, setup: HomeSetup) -> PolicyClient:
        command = self._worker(setup.policy)
        return PolicyClient(command, self._items.put, self.clock, policy=setup.policy, tenants=setup.tenants)

    def _context(self) -> DriverContext:
        check = health_check_of(self.setup.flags)
        return DriverContext(
            wake=lambda: self._items.put(None),
            submitted=self._submitted,
            clock=self.clock,
            cluster=lambda: self.scheduler.state.nodes.cluster,
            device=lambda gpu: device_of(self.scheduler.state, self._cluster.devices, gpu),
            epoch=self.journal.epoch,
            tell=self._tell,
            health=NodeHealth(check, lambda: self.scheduler.state, self.machines.next_drain, lambda: self._items.put(None)),
        )

    def _submitted(self, job: int) -> Submission:
        """Return the submission of a job. A late report may be about a job that has ended, whose record is in the journal."""
        found: list[Submission] = []
        if job not in self.history.records.open:
            self._journal_writer.write(lambda: found.append(self.history.submitted(job)))
        return found[0] if found else self.history.submitted(job)

    # The loop ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self._journal_writer.full:
                self._tell(self._journal_writer.problem)
            self._journal_writer.write(lambda: self.journal.keep_clock(self.clock.origin))
            if self._keeps_next_setup:
                self._journal_writer.write(lambda: self.journal.configure(self._words.encode(self.setup)["value"]))
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
                self._journal_writer.look()
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
        until = min(until, LOOK_EVERY_SECONDS if watched or self._journal_writer.full else self.driver.look_every_seconds)
        items: list[Item] = []
        with contextlib.suppress(queue.Empty):
            items.append(self._items.get(timeout=None if until == FOREVER else max(until, 0.0)))
            while True:
                items.append(self._items.get_nowait())
        return items

    def _turn(self, items: Sequence[Item]) -> None:
        now = self.clock()
        answered: list[tuple[Future[Any], Any]] = []
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
        self._journal_writer.write(lambda: self.journal.append(now, events, decided, noted, asked))
        self._notifier.take(noted.events, self.history.records)
        with self._lock:
            self.history.settle()
            commands = self.scheduler.commit(decided)
        set_results(answered)
        self.driver.acknowledge()
        self._do(commands)
        self._announce()
        self._advance_cluster_change()
        for line in self._node_log.lines(state):
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

    def _gather(self, items: Sequence[Item], now: float, answered: "list[tuple[Future[Any], Any]]") -> list[CoreEvent]:
        """Return the events of requests, policies, the driver and the clock, and of a new setup."""
        events: list[CoreEvent] = []
        state, changed = self.scheduler.state, list[CoreEvent]()
        new = NewJobs(self.history, max(state.jobs.last_job, 0), now, self._lock, state.tenants.tenants)
        for item in items:
            if isinstance(item, Together | NewItem):
                new.take(item, answered)
            elif isinstance(item, AboutJobs | ChangeJob):
                self._gather_request(item, new, events, answered)
            elif isinstance(item, SetPolicy):
                self._change_policy(item)
                answered.append((item.done, 0))
            elif isinstance(item, ChangeMachines) and changed:
                self._items.put(item)  # it is checked in the next turn, when the change before it is made
            elif isinstance(item, ChangeMachines):
                events += (changed := list(item.to_events(state, now, answered)))
            elif item is not None:
                events.append(item)
        events.extend(self.driver.events())
        self._look_at_machines()
        events.extend(self._cluster.events(state, now))
        if now >= self._wake_s:
            self._wake_s = FOREVER
            events.append(TimerFired(now))
        if len(self._cluster.devices) != len(self.setup.devices):  # nodes keep their GPUs and numbers
            self.setup = self.setup.with_devices(tuple(self._cluster.devices.values()))
        events = [*new.events, *events]  # new jobs come first, while the jobs that they wait for are known
        if self.setup != self.scheduler.setup or (events and not self.journal.last):
            events.append(Configured(self.setup, now))
        return events

    def _gather_request(
        self, item: AboutJobs | ChangeJob, new: NewJobs, events: list[CoreEvent], answered: "list[tuple[Future[Any], Any]]"
    ) -> None:
        """Add the events of a request about jobs, or answer it with its fault."""
        try:
            if isinstance(item, ChangeJob):
                events.append(self._about_jobs.change(item, self.scheduler.state, new.now_s))
                answered.append((item.done, item.job))
                return
            found = self._about_jobs.resolve(item.wanted, item.by, self.scheduler.state, item.again.keys())
            new.check_limits([item.again[each.job] for each in found if each.job in item.again])
        except RotaError as problem:
            item.done.set_exception(problem)
            return
        with self._lock:
            found = [each._replace(result=new.add(item.again[each.job])) if each.job in item.again else each for each in found]
        events.extend(events_of(item.wanted, item.by, found, new.now_s))
        answered.append((item.done, found))

    def _look_at_machines(self) -> None:
        """Follow the nodes of the cluster, which come and go, and may join again after an operator removed them."""
        known, self._removed = self._removed, frozenset(self.scheduler.state.nodes.removed)
        if self.driver.discover_cluster() is self._machines and known <= self._removed:
            return
        self._machines = self.driver.discover_cluster()
        there = named_nodes(self._machines, self.driver.devices())
        can_leave = self.driver.nodes_can_leave
        self._cluster = ClusterChanges(self.scheduler.state, self._cluster.devices, there, nodes_can_leave=can_leave)
        self._settled = False
        if self._cluster.text:
            self._tell(self._cluster.text)

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
        if self._journal_writer.full:  # a launch that is not answered is sent again
            for_driver = [command for command in for_driver if not isinstance(command, Launch)]
        if for_driver and self.journal.epoch:  # the process may have been paused since it wrote them, and another may lead now
            self._journal_writer.write(self.journal.confirm)
        ahead = self._parking_ahead.due(self.scheduler.state, self.driver.running(), self.clock())
        self._carry_out([*for_driver, *ahead])

    def _carry_out(self, commands: Sequence[DriverCommand]) -> None:
        for event in self.driver.carry_out(commands):
            self._items.put(event)

    def _announce(self) -> None:
        with self._changes:
            self._number += 1
            self._changes.notify_all()

    def _now(self) -> tuple[State, Statuses, float]:
        return self.scheduler.state, self.driver.running(), self.clock()

    # Requests ----------------------------------------------------------------------------------------------------

    def submit(self, sent: Submission, by: Actor | None = None) -> JobRow:
        """Submit a job or an array, which is durable when this returns. Raise if it can never run here. A submission that is
        repeated with the same key is one job."""
        self._items.put(item := self._request(sent, by, KnownJobs(self.history, None if by is None else by.names_of)))
        return self.job(str(self._answer(item.done)))

    def submit_many(self, submissions: Sequence[Submission], by: Actor | None = None) -> list[TakenRow]:
        """Submit all of these jobs or none. They are durable, in one transaction, when this returns. An error names the first job
        that is refused. A job whose key is known is not submitted again."""
        items, possible = [], set[Kind]()
        known = KnownJobs(self.history, None if by is None else by.names_of)
        self._reads(lambda: self.history.keys.fetch(submissions), known.read)
        for index, each in enumerate(submissions):
            with naming(index):
                items.append(self._request(each, by, known, possible))
                known.add(each.spec.name, items[-1])
        self._items.put(Together(items))
        taken = [self._answer(item.done) for item in items]
        with self._lock:
            return [TakenRow(id=job, name=self.history.name_of(job)) for job in taken]

    def _request(self, sent: Submission, by: Actor | None, known: KnownJobs, possible: set[Kind] | None = None) -> NewItem:
        """Return the request for a submission. `known`: jobs for which it may wait; `possible`: kinds of jobs that can run here,
        which are not checked again."""
        sent = by_membership(sent, self.scheduler.state.tenants.tenants)
        tasks = tasks_of(sent) if is_array(sent) else [sent]
        before = self._reads(lambda: self.history.known_number(tasks[0]), known.read)
        if before is not None:  # even if no new job can be accepted now
            return KnownJobAgain(before, Future())
        self._journal_writer.check_room()
        first = self._prepared(tasks[0], by, known, possible)
        return new_array(first, tasks) if is_array(sent) else first

    def _prepared(self, sent: Submission, by: Actor | None, known: KnownJobs, possible: set[Kind] | None = None) -> NewJob:
        state, now = self.scheduler.state, self.clock()
        sent = admitted(sent, state.tenants.tenants, by)
        wanted, way, why = accepted(sent, self.driver, state, now, pretend=self.setup.pretend, possible=possible)
        with self._lock:
            after = find_awaited(sent.spec, known)
        return NewJob(sent, wanted, way, why, Future(), after)

    def _answer(self, done: "Future[T]") -> T:
        try:
            return done.result(timeout=ANSWER_WITHIN_SECONDS)
        except TimeoutError:
            hint = "rota jobs, to see whether it has by now"
            raise BusyError("The scheduler is busy and has not accepted it yet.", hint=hint) from None

    def set_policy(self, named: str) -> StatusRow:
        """Decide by another policy from now on. Raise if it does not exist, or if its first answer fails."""
        setup = self._with_policy(named, self.setup.placer_name).with_devices(self.setup.devices)
        client = self._client(setup)
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

    def cancel(self, job: int) -> JobRow:
        return self.request(JobRequest(verb=Verb.CANCEL, jobs=(str(job),)))[0].job

    def request(self, wanted: JobRequest, by: Actor | None = None) -> list[RequestRow]:
        """Carry out a request about jobs in one transaction, for all of them or for none. Raise if a name matches no job, or
        several, or if the request cannot be carried out for one of its jobs. `by`: who sent it; None for the program itself,
        which may change all jobs."""
        ended = self._reads(lambda: self._about_jobs.ended(wanted, by))
        with self._lock:
            found = self._about_jobs.resolve(wanted, by, self.scheduler.state) if wanted.dry_run else None
        if found is None:
            if ended:
                self._journal_writer.check_room()
            known = KnownJobs(self.history, None if by is None else by.names_of)
            again = {record.id: self._prepared(self._about_jobs.again(record, wanted, by), by, known) for record in ended}
            self._items.put(item := AboutJobs(wanted, by, again, Future()))
            found = self._answer(item.done)
        return self._reads(lambda: request_rows(self.history, found, self._about_jobs.arrays(wanted, by), *self._now()))

    def change_job(self, job: int, spec: Spec, changed: Collection[str], by: Actor | None = None) -> JobRow:
        """Give a job other values of these fields. Raise if it has ended, or if it cannot have them."""
        check_priority(spec.priority, operator=by is None or by.is_operator)
        if by is not None:
            by.check_owns(self._reads(lambda: self.history.outline(job)).user, f"Job {job}")
        self._items.put(item := ChangeJob(job, spec, frozenset(changed), None if by is None else by.name, Future()))
        return self.job(str(self._answer(item.done)))

    def jobs(self, wanted: JobFilter = UNFINISHED) -> list[JobRow]:
        return self._reads(lambda: by_number(self.history, *self._now(), wanted))

    def page(self, wanted: JobFilter = UNFINISHED) -> PageRow:
        return self._reads(lambda: page_of(self.history, *self._now(), wanted))

    def job(self, key: str, unique: bool = False, user: str | None = None) -> JobRow:
        """Return a job. `user`: the user among whose jobs a name is looked up; None for all users."""
        return self._reads(lambda: whole_job(self.history, *self._now(), key, unique=unique, user=user))

    def why(self, job: int) -> WhyRow:
        late = self.driver.late_starts().get(job, "")
        found = self._reads(lambda: self.history.why(self.history.one(job), *self._now()))
        named = [replace(each, sentence=f"{each.sentence} {late}") if each.code == STARTING else each for each in found.reasons]
        return replace(found, reasons=named) if late else found

    def events(self, job: int, user: str | None = None) -> list[EventRow]:
        """Return the events of a job, the oldest first. `user`: the user whose jobs are named; None for all users."""
        with open_past(self.home, self._words) as journal:
            return event_rows(journal, self._reads(lambda: self.history.one(job)), user)

    def report(self, by: str, days: int) -> UsageReportRow:
        """Return the usage of the last days in UTC, today included, by user, tenant, type or day."""
        with open_past(self.home, self._words) as journal:
            return usage_report(journal, by, days, self.clock())

    def logs(self, job: int, offset: int, limit: int, tail: int | None = None) -> LogChunk:
        """Return a piece of a job's output: from an offset, or with `tail` its last lines."""
        ended = self._reads(lambda: self.history.outline(job)).ended
        return log_chunk(self.driver, job, offset, limit, tail, ended)

    def status(self) -> StatusRow:
        with self._lock:
            return status_row(
                self.scheduler.state,
                self.setup,
                self.clock(),
                worker_pid=self._policy_client.pid,
                disk_problem=self._journal_writer.problem or None,
            )

    def ready(self) -> ReadyRow:
        """Return whether jobs can be accepted and run. This waits for the lock, so call it with a time limit."""
        journal = self._journal_writer.journal_problem()
        with self._lock:
            return ready_row(self.scheduler.state, alive=self._thread.is_alive(), journal=journal)

    def nodes(self) -> list[NodeRow]:
        readings = self.driver.readings()  # this may take a second, so it is not done under the lock
        with self._lock:
            return node_rows(self.scheduler.state, self._cluster.devices, readings, pretend=self.setup.pretend)

    def tenants(self) -> list[TenantRow]:
        with self._lock:
            return tenant_rows(self.scheduler.state)

    def wait_for_change(self, seen: int, timeout: float) -> int:
        with self._changes:
            self._changes.wait_for(lambda: self._number > seen or self._stopping, timeout)
            return self._number
