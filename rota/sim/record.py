"""What happened in a simulation, job by job, as the physics saw it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from rota.model.cluster import Cluster
from rota.model.commands import Launch
from rota.model.job import Arrival
from rota.model.units import Floats, Ints


@dataclass(eq=False)
class Record:
    """One row per job of the workload."""

    submitted_s: Floats
    first_run_s: Floats
    finished_s: Floats
    gpus: Ints
    held_seconds: Floats
    """Time its GPUs were taken, overheads included."""
    held_gpu_seconds: Floats
    launches: Ints
    suspensions: Ints
    migrations: Ints
    lost_gpu_seconds: Floats
    """Work done and lost to crashes."""
    pool_gpu_seconds: Floats
    """GPU-seconds taken in each pool."""
    ended: int = 0
    decisions: int = 0
    decision_seconds: float = 0.0
    """Processor time the core and the policy took."""
    instants: int = 0

    @classmethod
    def empty(cls, arrivals: Sequence[Arrival], cluster: Cluster) -> Self:
        count = len(arrivals)
        record = cls(
            submitted_s=np.array([arrival.submitted_s for arrival in arrivals], dtype=np.float64),
            first_run_s=np.full(count, np.nan),
            finished_s=np.full(count, np.nan),
            gpus=np.array([arrival.spec.gpus for arrival in arrivals], dtype=np.int64),
            held_seconds=np.zeros(count),
            held_gpu_seconds=np.zeros(count),
            launches=np.zeros(count, dtype=np.int64),
            suspensions=np.zeros(count, dtype=np.int64),
            migrations=np.zeros(count, dtype=np.int64),
            lost_gpu_seconds=np.zeros(count),
            pool_gpu_seconds=np.zeros(len(cluster.pools)),
        )
        record._cluster = cluster
        record._last_gpus = {}
        return record

    def __post_init__(self) -> None:
        self._cluster: Cluster
        self._last_gpus: dict[int, Ints]

    def launch(self, job: int, command: Launch) -> None:
        self.launches[job] += 1
        before = self._last_gpus.get(job)
        if before is not None and not np.array_equal(before, command.gpus):
            self.migrations[job] += 1
        self._last_gpus[job] = command.gpus

    def start(self, job: int, now_s: float) -> None:
        if np.isnan(self.first_run_s[job]):
            self.first_run_s[job] = now_s

    def release(self, job: int, gpus: Ints, seconds: float) -> None:
        self.held_seconds[job] += seconds
        self.held_gpu_seconds[job] += seconds * len(gpus)
        self.pool_gpu_seconds[self._cluster.gpu_pool[gpus[0]]] += seconds * len(gpus)

    def finish(self, job: int, now_s: float) -> None:
        self.finished_s[job] = now_s
        self.ended += 1
        self._last_gpus.pop(job, None)
