"""The engine: advances from one instant to the next, carries out the core's commands, and replies with events."""

import heapq
import itertools
import math
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rota.core.explain import explain
from rota.core.scheduler import Scheduler
from rota.errors import PolicyError, RotaError, SimulationStalled
from rota.model.allocation import Assignment, Ranking, Shares
from rota.model.cluster import Cluster, ClusterChange
from rota.model.commands import CallPolicy, Command, Kill, Launch, Renew, Resize, Resume, SetTimer, Suspend, SuspendKind
from rota.model.counted import counted
from rota.model.events import (
    Allocated,
    Exited,
    External,
    NodeDrainChanged,
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeReported,
    Outcome,
    Progressed,
    Started,
    Submitted,
    Suspended,
    TimerFired,
)
from rota.model.job import Arrival, JobSpec
from rota.model.occupancy import FREE, Occupancy
from rota.model.policy import Policy
from rota.model.units import FOREVER, MILLI
from rota.model.view import keyed_rng
from rota.sim.hope import Hope
from rota.sim.measure import MEASUREMENTS, measure
from rota.sim.physics import Physics
from rota.sim.record import FEEDBACK_STEPS, Record
from rota.sim.recorded_step import Journal, recorded_step
from rota.sim.run import WHOLE, SimulatedAttempt


class _Mark(NamedTuple):
    """Progress of a simulation at the last check."""

    turns: int
    """Number of scheduler steps so far."""
    happened: int
    """Number of job arrivals, job ends and node failures so far."""
    steps: float
    """Steps that unfinished jobs have done."""
    at_s: float


Progress = Callable[[int, int, float], None]
"""Called regularly with the number of finished jobs, the number of all jobs, and the simulated time in seconds."""

MAX_TURNS = 20_000
"""Minimum number of scheduler steps (plans, policy calls, reports) between two checks that jobs make progress."""

SLOWEST_SECONDS = 1e-2
"""Minimum simulated time per scheduler step while no job arrives or ends, in seconds. A policy that spins stays below it."""


EXIT, ANSWER, _FAIL, _REPAIR, _CHANGE = range(5)


def place_of(problem: BaseException) -> str:
    """Return where a problem was raised, like ` (mine.py:12)`."""
    frames = traceback.extract_tb(problem.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


class Engine:
    """Runs one workload with one scheduler, one policy and one physics. Deterministic for a seed."""

    def __init__(
        self,
        scheduler: Scheduler,
        policy: Policy,
        physics: Physics,
        arrivals: Sequence[Arrival],
        *,
        seed: int = 0,
        report_seconds: float = FOREVER,
        measure_seconds: float = FOREVER,
        progress: Progress | None = None,
        journal: Journal | None = None,
        cluster: Cluster | None = None,
        changes: Sequence[ClusterChange] = (),
    ) -> None:
        self.scheduler, self.policy, self.physics = scheduler, policy, physics
        self.arrivals = arrivals
        self.cluster = cluster if cluster is not None else scheduler.state.nodes.cluster
        """All nodes that ever exist. The scheduler learns of later nodes when they join."""
        self._changes = changes
        self._gone: set[int] = set()
        packs = scheduler.settings.colocation or scheduler.settings.tactics.colocating is not None
        self.record = Record.empty(arrivals, self.cluster, colocation=packs)
        self.now_s = arrivals[0].submitted_s if arrivals else 0.0
        self._seed = seed
        self._report_seconds = report_seconds
        self._next_report_s = report_seconds
        self._measure_seconds = self._next_measure_s = measure_seconds
        self._to_measure: dict[int, int] = {}
        """Number of measurements left for each running job since its conditions last changed."""
        self._progress = progress
        self._journal = journal
        self._heap: list[tuple[float, int, int, Any]] = []
        self._tiebreak = itertools.count()
        self._wake_s = FOREVER
        self._runs: dict[int, SimulatedAttempt] = {}
        self._sharing = packs
        """Whether partners may slow each other down, so that the engine must track which jobs hold which GPUs."""
        self._held = Occupancy(np.full(self.cluster.gpus, FREE, dtype=np.int64))
        self._next_arrival = 0
        self._storage: dict[int, float] = {}
        self._down: set[int] = set()
        self._failures = np.zeros(len(self.cluster.nodes), dtype=np.int64)
        self._hope = Hope(len(self.cluster.nodes))
        self._turns, self._look_after = 0, MAX_TURNS
        self._mark = _Mark(0, 0, 0.0, self.now_s)
        self._rounds = 0
        self._rates: dict[tuple[str | None, int, int, int], float] = {}
        self._carry_out: dict[type, Callable[[Any, list[External]], None]] = {
            Launch: self._launch,
            Suspend: self._suspend,
            Resume: self._resume,
            Resize: self._resize,
            Kill: self._kill,
            CallPolicy: self._call_policy,
            SetTimer: self._wake_at,
            Renew: self._renew,
        }

    def run(self) -> Record:
        """Run until the last job has ended, and return the record."""
        start_s = self.now_s
        for change in self._changes:
            self._push(start_s + change.at_s, _CHANGE, change)
        if self.physics.fails:
            for node in range(len(self.scheduler.state.nodes.cluster.nodes)):
                self._schedule_failure(node)
        total, instants = len(self.arrivals), 0
        record, carry_out, clock = self.record, self._carry_out, time.perf_counter
        cycle, whole_steps = self.scheduler.state.cycle, self.physics.whole_steps_seconds
        step = self._stepper()
        while record.ended < total:
            events = self._next_events()
            while events:
                began = clock()
                commands = step(self.now_s, events)
                if cycle.policy_fault:
                    raise self._broken()
                record.decision_seconds += clock() - began
                events = []
                for command in commands:
                    carry_out[type(command)](command, events)
                self._turns += 1
                if self._turns >= self._look_after:
                    self._check_progress()
                if whole_steps and cycle.plans != self._rounds:
                    self._rounds = cycle.plans
                    self._begin_round()
            instants += 1
            if self._progress is not None and instants % 512 == 0:
                self._progress(self.record.ended, total, self.now_s)
        if self._progress is not None:
            self._progress(total, total, self.now_s)
        self.record.outages = [(node, from_s, min(to_s, self.now_s)) for node, from_s, to_s in self.record.outages]
        self.record.decisions = self.scheduler.state.cycle.decision
        self.record.instants = instants
        return self.record

    def _stepper(self) -> Callable[[float, list[External]], list[Command]]:
        """Return the function that takes a step of the scheduler."""
        return self.scheduler.step if self._journal is None else partial(recorded_step, self.scheduler, self._journal)

    # Time --------------------------------------------------------------------------------------------------------

    def _next_events(self) -> list[External]:
        """Return all events of the next instant: ends and replies, then arrivals, then the timer."""
        arrivals, heap = self.arrivals, self._heap
        submit_s = arrivals[self._next_arrival].submitted_s if self._next_arrival < len(arrivals) else FOREVER
        now = submit_s if submit_s < self._wake_s else self._wake_s
        if heap and heap[0][0] < now:
            now = heap[0][0]
        if self._to_measure:
            now = min(now, self._next_measure_s)
        if self._report_seconds < FOREVER and self._runs:
            now = min(now, self._next_report_s)
        if now == FOREVER:
            raise self._stalled()
        if now > self.now_s:
            self.now_s = now
        events: list[External] = []
        while heap and heap[0][0] <= now:
            _, what, _, item = heapq.heappop(heap)
            self._due(what, item, events)
        if now >= self._next_measure_s:
            self._measure(events)
        if now >= self._next_report_s or (self.physics.whole_steps_seconds and self._wake_s <= now):
            self._report(events)
        while submit_s <= now:
            job = self._next_arrival
            events.append(Submitted(job, arrivals[job].spec, submit_s))
            self._next_arrival = job + 1
            submit_s = arrivals[job + 1].submitted_s if job + 1 < len(arrivals) else FOREVER
        if self._wake_s <= now or not events:
            self._wake_s = FOREVER
            events.append(TimerFired(self.now_s))
        return events

    def _due(self, what: int, item: Any, events: list[External]) -> None:
        if what == EXIT:
            job, attempt, version = item
            run = self._runs.get(job)
            if run is None or run.attempt != attempt or run.version != version:
                return  # the attempt was stopped before its end, or its rate changed
            self._stop(job, run)
            self._storage.pop(job, None)
            self.record.finish(job, self.now_s)
            events.append(Exited(job, attempt, self.now_s, Outcome.FINISHED, run.total))
        elif what == ANSWER:
            job, attempt, act = item
            run = self._runs.get(job)
            if run is not None and run.attempt == attempt:
                act(events)
        elif what == _CHANGE:
            self._change(item, events)
        elif item in self._gone:
            return
        elif what == _FAIL:
            self._fail(item, events)
        else:
            self._down.discard(item)
            events.append(NodeReported(item, int(self._failures[item]), self.now_s))
            self._schedule_failure(item)

    def _push(self, at_s: float, what: int, item: Any) -> None:
        heapq.heappush(self._heap, (at_s, what, next(self._tiebreak), item))

    def _report(self, events: list[External]) -> None:
        """Report the steps of all running jobs in one event."""
        now = self.now_s
        while self._next_report_s <= now:
            self._next_report_s += self._report_seconds
        live = [(job, run) for job, run in sorted(self._runs.items()) if run.since_s < FOREVER]
        if live:
            events.append(
                Progressed(
                    np.array([job for job, _ in live], dtype=np.int64),
                    np.array([run.attempt for _, run in live], dtype=np.int64),
                    np.array([run.steps(now) for _, run in live]),
                    np.array([self._saved(job, run, now) for job, run in live]),
                    now,
                )
            )

    def _measure(self, events: list[External]) -> None:
        """Measure the jobs whose conditions changed recently: how fast and how busy they are."""
        now, left = self.now_s, self._to_measure
        while self._next_measure_s <= now:
            self._next_measure_s += self._measure_seconds
        seen = [(job, run) for job in sorted(left) if (run := self._runs.get(job)) is not None and run.since_s < now]
        if seen:
            events.append(measure(seen, self.arrivals, self.cluster, self.physics, self._seed, now))
        begun = {job: times for job, times in left.items() if job in self._runs and now <= self._runs[job].since_s < FOREVER}
        self._to_measure = {job: left[job] - 1 for job, _ in seen if left[job] > 1} | begun

    def _broken(self) -> RotaError:
        fault = self.scheduler.state.cycle.policy_fault
        hint = "positions count the jobs of the view, options the rows of view.options"
        return PolicyError(f"{type(self.policy).__name__}.allocate: {fault}.", hint=hint)

    def _stalled(self) -> RotaError:
        state, waiting = self.scheduler.state, len(self.arrivals) - self.record.ended
        why = next((explain(state, job) for job in state.jobs.row), [])
        sentence = f" Job {next(iter(state.jobs.row))}: {why[0].sentence}" if why else ""
        return SimulationStalled(
            f"Nothing more can happen at {self.now_s:.0f} s, and {counted(waiting, 'job')} did not finish.{sentence}",
            hint="let some nodes stay, or others join: see `events` in the cluster file"
            if self._gone
            else "check that the policy ranks every job and that every job fits the cluster",
        )

    def _check_progress(self) -> None:
        """Raise SimulationStalled if decisions help no job: the policy lets no job run, or wants to be called again at once."""
        state, before = self.scheduler.state, self._mark
        self._look_after = self._turns + max(MAX_TURNS, 10 * len(state.jobs.row))
        done = sum(self._storage.get(job, 0.0) for job in state.jobs.row if job not in self._runs)
        done += sum(run.steps(self.now_s) for run in self._runs.values())
        happened = self._next_arrival + self.record.ended + int(self._failures.sum())
        self._mark = _Mark(self._turns, happened, done, self.now_s)
        if happened > before.happened:
            return
        seconds = self.now_s - before.at_s
        if done > before.steps and seconds > MAX_TURNS * SLOWEST_SECONDS:
            return
        raise SimulationStalled(
            f"{self._turns - before.turns:,} scheduler steps under {type(self.policy).__name__} in {seconds:g} s, up to "
            f"{self.now_s:.0f} s, gave the jobs {'no' if done <= before.steps else 'hardly any'} progress: "
            f"{len(state.jobs.row)} are unfinished. "
            f"The last plan lets {len(state.jobs.desired)} of them run and holds until {state.cycle.until_s:g} s.",
            hint="let the policy rank every job, and answer with an until_s or timers that are further away",
        )

    # Commands ----------------------------------------------------------------------------------------------------

    def _launch(self, command: Launch, events: list[External]) -> None:
        job, spec = command.job, self.arrivals[command.job].spec
        levels = self.cluster.levels_of(command.nodes)
        rate = self._alone_rate(spec, command.gpus, levels, command.batch_size)
        saved = self._storage.get(job, 0.0)
        run = SimulatedAttempt(
            command.attempt,
            command.gpus,
            command.nodes,
            rate,
            rate,
            saved,
            FOREVER,
            FOREVER if spec.steps is None else spec.steps,
            FOREVER,
            MILLI if spec.gpus >= 1 else spec.milli_per_gpu,
        )
        self._runs[job] = run
        self._occupy(job, run)
        self.record.launch(job, command)
        self._after(self.physics.costs.start_of(spec, saved > 0), job, run, partial(self._up, command, run), events)

    def _alone_rate(self, spec: JobSpec, gpus: Any, levels: int, batch_size: int | None) -> float:
        """Return the true rate on exclusive GPUs. It is looked up once if all GPUs of a pool are alike."""
        if not self.physics.by_profile or spec.gpu_counts or spec.batch_sizes:
            return self.physics.rate(spec, self.cluster, gpus, levels, batch_size)
        key = (spec.profile, self.cluster.gpu_pool.item(gpus.item(0)), len(gpus), levels)
        rate = self._rates.get(key)
        if rate is None:
            rate = self._rates[key] = self.physics.rate(spec, self.cluster, gpus, levels)
        return rate

    def _resume(self, command: Resume, events: list[External]) -> None:
        run = self._runs[command.job]
        self._occupy(command.job, run)
        cost = self.physics.costs.resume_of(self.arrivals[command.job].spec)
        self._after(cost, command.job, run, partial(self._up, command, run), events)

    def _resize(self, command: Resize, events: list[External]) -> None:
        """Resize a running job. It pauses meanwhile, and holds its old and its new GPUs."""
        job, run = command.job, self._runs[command.job]
        self._saved(job, run, self.now_s)
        self._rest(job, run)
        self._hold_instead(job, run, max(run.gpus, command.gpus, key=len))

        def resized(later: list[External]) -> None:
            self._hold_instead(job, run, command.gpus)
            spec, levels = self.arrivals[job].spec, self.cluster.levels_of(command.nodes)
            run.exclusive_rate = self._alone_rate(spec, run.gpus, levels, command.batch_size)
            self.record.resize(job, command)
            self._up(command, run, later)

        self._after(self.physics.resize_seconds, job, run, resized, events)

    def _up(self, command: Launch | Resume | Resize, run: SimulatedAttempt, events: list[External]) -> None:
        job = command.job
        run.since_s = run.saves_s = self.now_s
        self.record.start(job, self.now_s)
        events.append(Started(job, command.attempt, command.sequence, self.now_s, from_step=run.from_step))
        other = self._running_partner(job, run)
        self._go_on(job, run, other)
        if other is not None:
            partner_run = self._runs[other]
            self._go_on(other, partner_run, job, new_round=partner_run.round_s == self.now_s)

    def _begin_round(self) -> None:
        """Let every running job continue for the whole steps of another round."""
        for job, run in self._runs.items():
            if run.since_s < FOREVER:
                self._go_on(job, run, self._running_partner(job, run))

    def _go_on(self, job: int, run: SimulatedAttempt, other: int | None, new_round: bool = True) -> None:
        """Continue a job at its rate with this partner, and schedule the end that follows from it. Where rounds have whole steps,
        a new round gives the job as many as fit into it."""
        now = self.now_s
        if self.physics.checkpoint_every_seconds < FOREVER:
            self._saved(job, run, now)
        steps = run.steps(now)
        if run.from_step < FEEDBACK_STEPS <= steps:
            self.record.progress(job, run.since_s, run.from_step, steps, run.rate)
        run.from_step, run.since_s, run.leaves_s = steps, now, FOREVER
        if self._measure_seconds < FOREVER:
            self._to_measure[job] = MEASUREMENTS
        run.version += 1
        run.rate = run.exclusive_rate
        if other is not None:
            spec, beside = self.arrivals[job].spec, self.arrivals[other].spec
            run.rate = self.physics.colocated_rate(spec, beside, self.cluster, run.gpus, self.cluster.levels_of(run.nodes))
        if self.physics.whole_steps_seconds and new_round:
            run.limit = run.from_step + max(math.floor(run.rate * self.physics.whole_steps_seconds), 1)
            run.round_s = now
        if run.total < FOREVER and run.limit >= run.total and run.rate > 0:
            at_s = now + max(run.total - run.from_step, 0.0) / run.rate
            if self.physics.completion_poll_seconds:
                poll_seconds = self.physics.completion_poll_seconds
                at_s = max(math.ceil(at_s / poll_seconds - WHOLE) * poll_seconds, now)
            run.leaves_s = at_s
            self._push(at_s + self.physics.costs.leave_of(self.arrivals[job].spec), EXIT, (job, run.attempt, run.version))

    def _suspend(self, command: Suspend, events: list[External]) -> None:
        job, run = command.job, self._runs[command.job]
        if run.leaves_s < self.now_s:
            return  # the job has made its last step, so its end acknowledges the command
        spec, costs, saves = self.arrivals[job].spec, self.physics.costs, bool(self.arrivals[job].spec.saves)
        steps = self._rest(job, run)
        if command.kind is SuspendKind.CHECKPOINT:
            cost, steps = costs.save_of(spec), steps if saves else 0.0
        else:
            cost = costs.park_of(spec, first=not run.parked_before)
            run.parked_before = True

        def stopped(later: list[External]) -> None:
            if command.kind is SuspendKind.CHECKPOINT:
                self._storage[job] = steps
                self._stop(job, run)
            else:
                self._release(job, run)
            self.record.suspensions[job] += 1
            later.append(Suspended(job, run.attempt, command.sequence, self.now_s, command.kind, steps, saved=saves))

        self._after(cost, job, run, stopped, events)

    def _kill(self, command: Kill, events: list[External]) -> None:
        run = self._runs.get(command.job)
        if run is None or run.attempt != command.attempt:
            events.append(Exited(command.job, command.attempt, self.now_s, Outcome.LOST, 0.0))
            return
        saved = self._lose(command.job, run)
        events.append(Exited(command.job, command.attempt, self.now_s, Outcome.LOST, saved))

    def _call_policy(self, command: CallPolicy, events: list[External]) -> None:
        began = time.perf_counter()
        name = type(self.policy).__name__
        try:
            answer = self.policy.allocate(command.view)
        except RotaError:
            raise
        except Exception as problem:
            raise PolicyError(
                f"{name}.allocate raised {type(problem).__name__}: {problem}{place_of(problem)}.",
                hint="rota policy check, with the policy as you named it here",
            ) from problem
        self.record.decision_seconds += time.perf_counter() - began
        if not isinstance(answer, (Ranking, Shares, Assignment)):
            raise PolicyError(
                f"{name}.allocate answered with {type(answer).__name__}.",
                hint="return a rota.Ranking, rota.Shares or rota.Assignment",
            )
        events.append(Allocated(command.ticket, answer, self.now_s, self.scheduler.settings.policy))

    def _wake_at(self, command: SetTimer, events: list[External]) -> None:
        self._wake_s = command.at_s

    def _renew(self, command: Renew, events: list[External]) -> None:
        """Ignore renewals: simulated machines never lose one."""

    # Consequences ------------------------------------------------------------------------------------------------

    def _after(
        self, seconds: float, job: int, run: SimulatedAttempt, act: Callable[[list[External]], None], events: list[External]
    ) -> None:
        if seconds > 0:
            self._push(self.now_s + seconds, ANSWER, (job, run.attempt, act))
        else:
            act(events)

    def _stop(self, job: int, run: SimulatedAttempt) -> None:
        self._rest(job, run)
        del self._runs[job]
        if run.held_s < FOREVER:
            self._release(job, run)

    def _rest(self, job: int, run: SimulatedAttempt) -> float:
        """Pause a job, and return its steps. A partner has the GPUs to itself from now on. With rounds of whole steps the
        partner's rate changes only in the next round: the number and rate of steps are fixed when a round begins, as in Gavel."""
        steps = run.steps(self.now_s)
        if run.since_s < FOREVER:
            if run.from_step < FEEDBACK_STEPS <= steps:
                self.record.progress(job, run.since_s, run.from_step, steps, run.rate)
            run.from_step, run.since_s, run.leaves_s = steps, FOREVER, FOREVER
            run.version += 1
            other = self._running_partner(job, run)
            if other is not None and not self.physics.whole_steps_seconds:
                self._go_on(other, self._runs[other], None)
        return steps

    def _running_partner(self, job: int, run: SimulatedAttempt) -> int | None:
        """Return the partner that is running on the same GPUs, if any. Partners have all GPUs in common, so one is enough."""
        if self._held.gpu_fractions and run.milli_per_gpu == MILLI:
            for other in self._held.holders(run.gpus[:1]):
                if other != job and self._runs[other].since_s < FOREVER:
                    return other
        return None

    def _occupy(self, job: int, run: SimulatedAttempt) -> None:
        run.held_s, run.shared_seconds = self.now_s, 0.0
        if self._sharing and run.milli_per_gpu == MILLI:
            self._held.join(job, run.gpus)

    def _hold_instead(self, job: int, run: SimulatedAttempt, gpus: Any) -> None:
        """Replace the GPUs that a job holds if their number changes."""
        if len(gpus) != len(run.gpus):
            self._release(job, run)
            run.gpus = gpus
            self._occupy(job, run)

    def _release(self, job: int, run: SimulatedAttempt) -> None:
        """Free the GPUs of a job, or leave them to its partner."""
        if self._sharing and run.milli_per_gpu == MILLI:
            for other in self._held.leave(job, run.gpus):
                partner_run = self._runs[other]
                since_s = max(run.held_s, partner_run.held_s)
                run.shared_seconds += self.now_s - since_s
                partner_run.shared_seconds += self.now_s - since_s
                self.record.gpu_intervals.share(job, other, run.gpus, since_s, self.now_s)
        self.record.release(job, run.gpus, run.held_s, self.now_s, run.shared_seconds)
        run.held_s = FOREVER

    def _saved(self, job: int, run: SimulatedAttempt, now_s: float) -> float:
        """Return the steps on storage: the last checkpoint, or the last periodic save since the attempt started."""
        every = self.physics.checkpoint_every_seconds
        saved = self._storage.get(job, 0.0)
        if every < FOREVER and run.since_s < now_s and self.arrivals[job].spec.saves:
            seconds = every * ((now_s - run.saves_s) // every) - (run.since_s - run.saves_s)
            if seconds >= 0:  # otherwise nothing was saved since the rate changed
                saved = max(saved, min(run.from_step + run.rate * seconds, run.total, run.limit))
                self._storage[job] = saved
        return saved

    def _lose(self, job: int, run: SimulatedAttempt) -> float:
        """End an attempt whose processes are gone. Work that was not saved is lost. Return the saved steps."""
        saved = self._saved(job, run, self.now_s)
        if run.exclusive_rate > 0:
            gpus = len(run.gpus) * run.milli_per_gpu / MILLI
            self.record.lost_gpu_seconds[job] += gpus * (run.steps(self.now_s) - saved) / run.exclusive_rate
        self._stop(job, run)
        return saved

    def _schedule_failure(self, node: int) -> None:
        mean = self.physics.mtbf_seconds(node)
        if mean < FOREVER:
            rng = keyed_rng(self._seed, node * 1_000_000 + int(self._failures[node]), 3)
            self._push(self.now_s + float(rng.exponential(mean)), _FAIL, node)

    def _fail(self, node: int, events: list[External]) -> None:
        """Fail a node, and lose every gang with processes on it. The driver vouches that those processes are gone."""
        self._failures[node] += 1
        self._down.add(node)
        self._lose_gangs(node, events)
        events.append(NodeLost(node, int(self._failures[node]) - 1, self.now_s))
        back_s = self.now_s + self.physics.repair_seconds(node)
        self.record.outages.append((node, self.now_s, back_s))
        self._push(back_s, _REPAIR, node)
        self._hope.check(int(self._failures.sum()), self.record.ended, self._storage)

    def _change(self, change: ClusterChange, events: list[External]) -> None:
        """Apply a change of the cluster: a node joins, is drained or undrained, or leaves."""
        node = change.node
        if change.what == "join":
            events.append(NodeJoined(self.cluster.nodes[node], self.now_s))
            self.record.outages.append((node, self.arrivals[0].submitted_s, self.now_s))
            if self.physics.fails:
                self._schedule_failure(node)
        elif change.what == "leave":
            self._gone.add(node)
            self._lose_gangs(node, events)
            events.append(NodeLeft(node, self.now_s))
            self.record.outages.append((node, self.now_s, FOREVER))
        else:
            events.append(NodeDrainChanged(node, self.now_s, change.what == "drain"))

    def _lose_gangs(self, node: int, events: list[External]) -> None:
        """Lose every gang that has processes on a node."""
        for job, run in sorted(self._runs.items()):
            if node in run.nodes:
                saved = self._lose(job, run)
                others = [n for n in run.nodes if n != node]
                events.extend(Exited(job, run.attempt, self.now_s, Outcome.LOST, saved, n) for n in others)
