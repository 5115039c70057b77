"""Physics of jobs that really ran: each is as fast as it was seen to be, and starting, stopping and leaving take as long."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from rota.beliefs.costs import MoveCosts
from rota.model.cluster import Cluster
from rota.model.job import JobSpec
from rota.model.units import Ints
from rota.sim.physics import Physics


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCosts(MoveCosts):
    """What moving each job was seen to cost, by its name."""

    jobs: Mapping[str, SeenJob]

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
class SeenPhysics(Physics):
    """Every GPU is as fast for a job as those on which it ran."""

    jobs: Mapping[str, SeenJob] = field(default_factory=dict)
    """By name."""

    def rate(self, spec: JobSpec, cluster: Cluster, gpus: Ints, levels: int, batch_size: int = 0) -> float:
        return spec.steps / self.jobs[spec.name].work_seconds

    @property
    def by_profile(self) -> bool:
        return False

    @cached_property
    def costs(self) -> MoveCosts:
        return SeenCosts(jobs=self.jobs)
