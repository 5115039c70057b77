"""Physics of jobs that really ran, with the rates and the times of starts, suspensions and ends that were observed."""

import heapq
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rota.beliefs.move_costs import MoveCosts
from rota.core.scheduler import Scheduler
from rota.model.cluster import Cluster
from rota.model.commands import CallPolicy, Launch, Resize, Resume, Suspend, SuspendKind
from rota.model.events import Allocated, Exited, External, Progressed, Started
from rota.model.job import Arrival, JobSpec
from rota.model.policy import Policy
from rota.model.units import FOREVER, Ints
from rota.sim.engine import EXIT, Engine
from rota.sim.physics import Physics
from rota.sim.record import Record
from rota.sim.recorded_step import Journal
from rota.sim.run import WHOLE, SimulatedAttempt

MIN_STEPS = 1e-6
"""Steps assumed to be left for a job that has done all its steps when it counts as started."""
_ALLOCATED, _NOTICED = 9, 10
"""Entries of the engine's queue: the policy has answered; the scheduler learns of an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAttempt:
    """Observations of one attempt of a job. A value that was not observed is None, and the job's usual value is used."""

    start_seconds: float | None = None
    """Time from the command to the first step, in seconds."""
    start_notice_seconds: float | None = None
    """Time from the first step until the scheduler knew of it, in seconds."""
    relative_rate: float | None = None
    """Rate of the attempt divided by the rate of the whole job."""
    suspend_seconds: float | None = None
    """Time from the command until the job had saved and its GPUs were free, in seconds."""
    end_notice_seconds: float | None = None
    """Time from the end of the attempt until the scheduler knew of it, in seconds."""


UNSEEN = SeenAttempt()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """Observations of one job."""

    work_seconds: float
    """Time that all the job's steps take, in seconds, without starts and stops."""
    launch_seconds: float
    """Time from the command to the first step, in seconds."""
    relaunch_seconds: float
    """Time from the command to the first step when the job continues from its checkpoint, in seconds."""
    suspend_seconds: float
    """Time from the command until the job has saved and its GPUs are free, in seconds."""
    park_seconds: float
    resume_seconds: float
    leave_seconds: float
    """Time from the last step until the GPUs are free, in seconds."""
    notice_seconds: float = 0.0
    """Time from a start or an end until the scheduler knows of it, in seconds."""
    first_steps: float = 0.0
    """Steps that the job has done when it counts as started; 0 if it reports no steps."""
    reports_steps: bool = False
    """Whether the job reports steps. Such a job completes its current step before it stops, and finishes if that is the last
    one."""
    attempts: tuple[SeenAttempt, ...] = ()
    """Observed attempts, in order. Further attempts in a simulation have the job's usual values."""

    def attempt(self, number: int) -> SeenAttempt:
        """Return the observations of this attempt; the first attempt is 1."""
        return self.attempts[number - 1] if 0 < number <= len(self.attempts) else UNSEEN


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCosts(MoveCosts):
    """Observed costs of moving each job, by the job's name."""

    jobs: Mapping[str, ObservedJob]
    launches: Mapping[str, int]

    def start_of(self, spec: JobSpec, again: bool) -> float:
        job, number = self.jobs[spec.name], self.launches.get(spec.name, 0)
        seen = job.attempt(number).start_seconds
        return seen if seen is not None else job.relaunch_seconds if again or number > 1 else job.launch_seconds

    def leave_of(self, spec: JobSpec) -> float:
        return self.jobs[spec.name].leave_seconds

    def save_of(self, spec: JobSpec) -> float:
        job = self.jobs[spec.name]
        seen = job.attempt(self.launches.get(spec.name, 0)).suspend_seconds
        return seen if seen is not None else job.suspend_seconds

    def park_of(self, spec: JobSpec, first: bool = False) -> float:
        return self.jobs[spec.name].park_seconds

    def resume_of(self, spec: JobSpec) -> float:
        return self.jobs[spec.name].resume_seconds


class SeenAnswer(NamedTuple):
    """The duration of one policy call, including the delay of the timer that caused it."""

    asked_s: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ObservedPhysics(Physics):
    """Physics in which every GPU is as fast for a job as the GPUs on which it ran."""

    jobs: Mapping[str, ObservedJob] = field(default_factory=dict)
    """Observed jobs by name."""
    answer_seconds: float = 0.0
    """Mean duration of a policy call, in seconds."""
    answers: Sequence[SeenAnswer] = ()
    """Observed policy calls, in order."""
    launches: Mapping[str, int] = field(default_factory=dict)
    """Number of launches of each job so far, counted by the engine."""

    def answer_at(self, now_s: float) -> float:
        """Return the duration of a policy call made now: that of the observed call nearest in time, or the mean if there is
        none."""
        at = bisect_left(self.answers, now_s, key=lambda answer: answer.asked_s)
        nearest = min(self.answers[max(at - 1, 0) : at + 1], key=lambda answer: abs(answer.asked_s - now_s), default=None)
        return self.answer_seconds if nearest is None else nearest.seconds

    def rate(self, spec: JobSpec, cluster: Cluster, gpus: Ints, levels: int, batch_size: int | None = None) -> float:
        job = self.jobs[spec.name]
        relative = job.attempt(self.launches.get(spec.name, 0)).relative_rate
        usual = max((spec.steps or 0.0) - job.first_steps, MIN_STEPS) / job.work_seconds
        return usual if relative is None else usual * relative

    @property
    def by_profile(self) -> bool:
        return False

    @cached_property
    def costs(self) -> MoveCosts:
        return ObservedCosts(jobs=self.jobs, launches=self.launches)


class ObservedEngine(Engine):
    """A real machine, as a journal shows it. Jobs that report steps count as started after the first of them, and complete the
    current step before they stop. Policy calls take time, and the scheduler learns of events with a delay."""

    physics: ObservedPhysics

    def __init__(
        self,
        scheduler: Scheduler,
        policy: Policy,
        physics: ObservedPhysics,
        arrivals: Sequence[Arrival],
        *,
        report_seconds: float = FOREVER,
        journal: Journal | None = None,
    ) -> None:
        self._launches: Counter[str] = Counter()
        counted = replace(physics, launches=self._launches)
        super().__init__(scheduler, policy, counted, arrivals, report_seconds=report_seconds, journal=journal)

    def run(self) -> Record:
        record = super().run()
        while self._journal is not None and self._heap:  # the journal includes the end of the last job
            at_s, what, _, item = heapq.heappop(self._heap)
            if what == _NOTICED:
                self._journal.append((at_s, [item], None))
        return record

    def _seen(self, job: int) -> tuple[ObservedJob, SeenAttempt]:
        """Return the observations of this job and of its current attempt."""
        name = self.arrivals[job].spec.name
        seen = self.physics.jobs[name]
        return seen, seen.attempt(self._launches[name])

    def _launch(self, command: Launch, events: list[External]) -> None:
        self._launches[self.arrivals[command.job].spec.name] += 1
        super()._launch(command, events)

    def _up(self, command: Launch | Resume | Resize, run: SimulatedAttempt, events: list[External]) -> None:
        first = self._seen(command.job)[0].first_steps if isinstance(command, Launch) else 0.0
        before, at = run.from_step, len(events)
        run.from_step = min(before + first, run.total)
        super()._up(command, run, events)
        started = events[at]
        assert isinstance(started, Started)
        events[at] = replace(started, from_step=before)
        if first:
            told, saved = np.array([run.from_step]), np.array([self._storage.get(command.job, 0.0)])
            events.insert(at + 1, Progressed(np.array([command.job]), np.array([command.attempt]), told, saved, self.now_s))

    def _suspend(self, command: Suspend, events: list[External]) -> None:
        run = self._runs.get(command.job)
        if run is None:
            return  # the job has ended, and the scheduler is about to learn of it
        if self._seen(command.job)[0].reports_steps and command.kind is SuspendKind.CHECKPOINT and run.since_s < FOREVER:
            steps = run.steps(self.now_s)
            whole = math.ceil(steps - WHOLE)
            if whole >= run.total:
                return  # the job is in its last step, so its end acknowledges the command
            run.from_step += whole - steps
        super()._suspend(command, events)

    def _call_policy(self, command: CallPolicy, events: list[External]) -> None:
        later: list[External] = []
        super()._call_policy(command, later)
        for answer in later:
            self._push(self.now_s + self.physics.answer_at(self.now_s), _ALLOCATED, answer)

    def _due(self, what: int, item: Any, events: list[External]) -> None:
        if what == _ALLOCATED:
            assert isinstance(item, Allocated)
            events.append(replace(item, at_s=self.now_s))
        elif what == _NOTICED:
            events.append(item)
        else:
            happened: list[External] = []
            super()._due(what, item, happened)
            if what == EXIT:
                happened = [self._left(event) for event in happened]
            self._notice(happened, events)

    def _left(self, event: External) -> External:
        assert isinstance(event, Exited)
        spec = self.arrivals[event.job].spec
        return replace(event, steps_done=spec.steps, stepped_s=self.now_s - self.physics.costs.leave_of(spec))

    def _notice(self, happened: list[External], events: list[External]) -> None:
        """Pass the events of a start or an end to the scheduler after the observed delay."""
        if not happened:
            return
        first = happened[0]
        job, attempt = self._seen(first.job)  # type: ignore[union-attr]
        seen = attempt.start_notice_seconds if isinstance(first, Started) else attempt.end_notice_seconds
        seconds = seen if seen is not None else job.notice_seconds
        for event in happened:
            if seconds > 0:
                self._push(self.now_s + seconds, _NOTICED, event)
            else:
                events.append(event)
