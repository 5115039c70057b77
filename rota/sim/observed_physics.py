"""Physics of jobs that really ran: each is as fast as it was seen to be, and starting, stopping and leaving take as long."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rota.beliefs.move_costs import MoveCosts
from rota.model.cluster import Cluster
from rota.model.commands import CallPolicy, Launch, Resize, Resume
from rota.model.events import Allocated, External, Progressed, Started
from rota.model.job import JobSpec
from rota.model.units import Ints
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from rota.sim.run import SimulatedAttempt

LEAST_STEPS = 1e-6
"""A job that is done with its first step has so much left to do."""
_ALLOCATED = 9
"""In the engine's queue: the policy has answered."""


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
    first_steps: float = 0.0
    """Steps with which it counts as started, and which are part of that; 0: it tells none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCosts(MoveCosts):
    """What moving each job was seen to cost, by its name."""

    jobs: Mapping[str, ObservedJob]

    def start_of(self, spec: JobSpec, again: bool) -> float:
        job = self.jobs[spec.name]
        return job.relaunch_seconds if again else job.launch_seconds

    def leave_of(self, spec: JobSpec) -> float:
        return self.jobs[spec.name].leave_seconds

    def save_of(self, spec: JobSpec) -> float:
        return self.jobs[spec.name].suspend_seconds

    def park_of(self, spec: JobSpec, first: bool = False) -> float:
        return self.jobs[spec.name].park_seconds

    def resume_of(self, spec: JobSpec) -> float:
        return self.jobs[spec.name].resume_seconds


@dataclass(frozen=True, kw_only=True)
class ObservedPhysics(Physics):
    """Every GPU is as fast for a job as those on which it ran."""

    jobs: Mapping[str, ObservedJob] = field(default_factory=dict)
    """By name."""
    answer_seconds: float = 0.0
    """How long the policy takes for an answer."""

    def rate(self, spec: JobSpec, cluster: Cluster, gpus: Ints, levels: int, batch_size: int = 0) -> float:
        job = self.jobs[spec.name]
        return max(spec.steps - job.first_steps, LEAST_STEPS) / job.work_seconds

    @property
    def by_profile(self) -> bool:
        return False

    @cached_property
    def costs(self) -> MoveCosts:
        return ObservedCosts(jobs=self.jobs)


class ObservedEngine(Engine):
    """Jobs that tell their steps count as started with the first of them, as on a real machine; and the policy takes its time."""

    physics: ObservedPhysics

    def _up(self, command: Launch | Resume | Resize, run: SimulatedAttempt, events: list[External]) -> None:
        first = self.physics.jobs[self.arrivals[command.job].spec.name].first_steps if isinstance(command, Launch) else 0.0
        before, at = run.from_step, len(events)
        run.from_step = min(before + first, run.total)
        super()._up(command, run, events)
        started = events[at]
        assert isinstance(started, Started)
        events[at] = replace(started, from_step=before)
        if first:
            told, saved = np.array([run.from_step]), np.array([self._storage.get(command.job, 0.0)])
            events.insert(at + 1, Progressed(np.array([command.job]), np.array([command.attempt]), told, saved, self.now_s))

    def _solve(self, command: CallPolicy, events: list[External]) -> None:
        later: list[External] = []
        super()._solve(command, later)
        for answer in later:
            self._push(self.now_s + self.physics.answer_seconds, _ALLOCATED, answer)

    def _due(self, what: int, item: Any, events: list[External]) -> None:
        if what == _ALLOCATED:
            assert isinstance(item, Allocated)
            events.append(replace(item, at_s=self.now_s))
        else:
            super()._due(what, item, events)
