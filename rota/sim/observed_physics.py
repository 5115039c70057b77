"""Physics of jobs that really ran: each is as fast as it was seen to be, and starting, stopping and leaving take as long."""

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
from rota.sim.engine import EXIT, Engine, Journal
from rota.sim.physics import Physics
from rota.sim.record import Record
from rota.sim.run import WHOLE, SimulatedAttempt

LEAST_STEPS = 1e-6
"""A job that is done with its first step has so much left to do."""
_ALLOCATED, _NOTICED = 9, 10
"""In the engine's queue: the policy has answered; the scheduler learns what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAttempt:
    """What was seen of one attempt of a job. None: it was not seen, and takes what the job usually takes."""

    start_seconds: float | None = None
    """From the command to the first step."""
    start_notice_seconds: float | None = None
    """From the first step until the scheduler knew of it."""
    relative_rate: float | None = None
    """Rate of the attempt over the rate of the whole job."""
    suspend_seconds: float | None = None
    """From the command until the job had saved and its GPUs were free."""
    end_notice_seconds: float | None = None
    """From the end of the attempt until the scheduler knew of it."""


UNSEEN = SeenAttempt()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """What was seen of one job."""

    work_seconds: float
    """How long it takes for all its steps, nothing else counted."""
    launch_seconds: float
    """From the command to its first step."""
    relaunch_seconds: float
    """The same when it goes on from what it saved."""
    suspend_seconds: float
    """From the command until it has saved and its GPUs are free."""
    park_seconds: float
    resume_seconds: float
    leave_seconds: float
    """From its last step until its GPUs are free."""
    notice_seconds: float = 0.0
    """From a start or an end until the scheduler knows of it."""
    first_steps: float = 0.0
    """Steps with which it counts as started, and which are part of that; 0: it tells none."""
    tells_steps: bool = False
    """Whether it reports steps. Then it ends the step that it is in before it stops, and finishes if that is the last one."""
    attempts: tuple[SeenAttempt, ...] = ()
    """Its attempts, in order. Where a simulated job has more of them, the others are as usual for the job."""

    def attempt(self, number: int) -> SeenAttempt:
        """Return what was seen of this attempt, the first being 1."""
        return self.attempts[number - 1] if 0 < number <= len(self.attempts) else UNSEEN


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCosts(MoveCosts):
    """What moving each job was seen to cost, by its name."""

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
    """How long the policy took for an answer, with the time by which the timer that made the scheduler ask was late."""

    asked_s: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ObservedPhysics(Physics):
    """Every GPU is as fast for a job as those on which it ran."""

    jobs: Mapping[str, ObservedJob] = field(default_factory=dict)
    """By name."""
    answer_seconds: float = 0.0
    """How long the policy takes for an answer, on average..."""
    answers: Sequence[SeenAnswer] = ()
    """...and as it was seen, in order."""
    launches: Mapping[str, int] = field(default_factory=dict)
    """How often each job has been launched so far; the engine counts it."""

    def answer_at(self, now_s: float) -> float:
        """Return how long the policy takes for an answer now: as long as it took at about that time."""
        at = bisect_left(self.answers, now_s, key=lambda answer: answer.asked_s)
        nearest = min(self.answers[max(at - 1, 0) : at + 1], key=lambda answer: abs(answer.asked_s - now_s), default=None)
        return self.answer_seconds if nearest is None else nearest.seconds

    def rate(self, spec: JobSpec, cluster: Cluster, gpus: Ints, levels: int, batch_size: int = 0) -> float:
        job = self.jobs[spec.name]
        relative = job.attempt(self.launches.get(spec.name, 0)).relative_rate
        usual = max(spec.steps - job.first_steps, LEAST_STEPS) / job.work_seconds
        return usual if relative is None else usual * relative

    @property
    def by_profile(self) -> bool:
        return False

    @cached_property
    def costs(self) -> MoveCosts:
        return ObservedCosts(jobs=self.jobs, launches=self.launches)


class ObservedEngine(Engine):
    """A real machine, as a journal shows it. Jobs that tell their steps count as started with the first of them and end the step
    that they are in before they stop. The policy takes its time, and the scheduler learns a moment later what happened."""

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
        while self._journal is not None and self._heap:  # the last end is noticed too
            at_s, what, _, item = heapq.heappop(self._heap)
            if what == _NOTICED:
                self._journal.append((at_s, [item], None))
        return record

    def _seen(self, job: int) -> tuple[ObservedJob, SeenAttempt]:
        """What was seen of this job, and of its attempt."""
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
            return  # it has ended, and the scheduler is about to learn that
        if self._seen(command.job)[0].tells_steps and command.kind is SuspendKind.CHECKPOINT and run.since_s < FOREVER:
            steps = run.steps(self.now_s)
            whole = math.ceil(steps - WHOLE)
            if whole >= run.total:
                return  # it is in its last step: its end is the answer
            run.from_step += whole - steps
        super()._suspend(command, events)

    def _solve(self, command: CallPolicy, events: list[External]) -> None:
        later: list[External] = []
        super()._solve(command, later)
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
        """The scheduler learns of a start or an end a moment later."""
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
