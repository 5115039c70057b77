"""What happened in a simulation, job by job, as the physics saw it."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from rota.core.state.records import same_gpus
from rota.model.cluster import Cluster
from rota.model.commands import Launch, Resize
from rota.model.job import Arrival
from rota.model.units import Floats, Ints


class GpuIntervals:
    """Who had which GPUs when: one row per stretch of time in which a job held its GPUs, in the order they ended. Where two had
    the same, both have a row."""

    def __init__(self) -> None:
        self._job, self._start, self._end = array("q"), array("d"), array("d")
        self._first, self._gpus = array("q", [0]), array("i")
        self._shared: list[tuple[int, int, int, int, float, float]] = []

    def add(self, job: int, gpus: Ints, start_s: float, end_s: float) -> None:
        self._job.append(job)
        self._start.append(start_s)
        self._end.append(end_s)
        self._gpus.extend(gpus.tolist())
        self._first.append(len(self._gpus))

    def share(self, job: int, other: int, gpus: Ints, start_s: float, end_s: float) -> None:
        """Two jobs had these GPUs at the same time."""
        if end_s > start_s:
            self._shared.append((job, other, int(gpus[0]), len(gpus), start_s, end_s))

    @property
    def shared(self) -> list[tuple[int, int, int, int, float, float]]:
        """When two jobs had the same GPUs: both jobs, the first GPU, how many, from and to; in the order they ended."""
        return self._shared

    def __len__(self) -> int:
        return len(self._job)

    @property
    def job(self) -> Ints:
        return np.array(self._job, dtype=np.int64)

    @property
    def start_s(self) -> Floats:
        return np.array(self._start, dtype=np.float64)

    @property
    def end_s(self) -> Floats:
        return np.array(self._end, dtype=np.float64)

    @property
    def first(self) -> Ints:
        """Row r held the GPUs gpus[first[r]:first[r + 1]]."""
        return np.array(self._first, dtype=np.int64)

    @property
    def gpus(self) -> Ints:
        return np.array(self._gpus, dtype=np.int64)


FEEDBACK_STEPS = 100.0
"""Steps after which people look whether a job is worth going on with (Gandiva, OSDI'18)."""


@dataclass(eq=False)
class Record:
    """One row per job of the workload."""

    submitted_s: Floats
    first_run_s: Floats
    finished_s: Floats
    cancelled_s: Floats
    """When a search gave it up; such a job never finishes."""
    feedback_s: Floats
    """When it had made its first steps, as many as give a first impression, or all if it has fewer."""
    gpus: Floats
    occupied_seconds: Floats
    """Time its GPUs were taken, overheads included."""
    occupied_gpu_seconds: Floats
    """The same times GPUs; of what two jobs held together, half is each one's."""
    launches: Ints
    suspensions: Ints
    migrations: Ints
    resizes: Ints
    """Changes of size while it ran."""
    lost_gpu_seconds: Floats
    """Work done and lost to crashes, in what it takes a job that has its GPUs to itself."""
    pool_gpu_seconds: Floats
    """GPU-seconds taken in each pool. A GPU that two jobs share is taken once."""
    packing: bool = False
    """Jobs were allowed to share GPUs."""
    ended: int = 0
    decisions: int = 0
    decision_seconds: float = 0.0
    """Processor time the core and the policy took."""
    instants: int = 0
    gpu_intervals: GpuIntervals = field(default_factory=GpuIntervals)
    outages: list[tuple[int, float, float]] = field(default_factory=list)
    """(node, from, to): when nodes were down."""

    @classmethod
    def empty(cls, arrivals: Sequence[Arrival], cluster: Cluster, packing: bool = False) -> Self:
        count = len(arrivals)
        record = cls(
            submitted_s=np.array([arrival.submitted_s for arrival in arrivals], dtype=np.float64),
            first_run_s=np.full(count, np.nan),
            finished_s=np.full(count, np.nan),
            cancelled_s=np.full(count, np.nan),
            feedback_s=np.full(count, np.nan),
            gpus=np.array([arrival.spec.gpus for arrival in arrivals], dtype=np.float64),
            occupied_seconds=np.zeros(count),
            occupied_gpu_seconds=np.zeros(count),
            launches=np.zeros(count, dtype=np.int64),
            suspensions=np.zeros(count, dtype=np.int64),
            migrations=np.zeros(count, dtype=np.int64),
            resizes=np.zeros(count, dtype=np.int64),
            lost_gpu_seconds=np.zeros(count),
            pool_gpu_seconds=np.zeros(len(cluster.pools)),
            packing=packing,
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
        if before is not None and not same_gpus(before, command.gpus):
            self.migrations[job] += 1
        self._last_gpus[job] = command.gpus

    def resize(self, job: int, command: Resize) -> None:
        """It goes on with another size."""
        self.resizes[job] += 1
        self._last_gpus[job] = command.gpus

    def start(self, job: int, now_s: float) -> None:
        first = self.first_run_s.item(job)
        if first != first:  # not a number: it never ran
            self.first_run_s[job] = now_s

    def release(self, job: int, gpus: Ints, held_s: float, now_s: float, shared_seconds: float = 0.0) -> None:
        """A job gives its GPUs back, which it shared with a partner for so long. A part of a GPU counts as that."""
        seconds = now_s - held_s
        self.gpu_intervals.add(job, gpus, held_s, now_s)
        self.occupied_seconds[job] += seconds
        seconds -= shared_seconds / 2
        size = len(gpus) if len(gpus) > 1 else min(self.gpus.item(job), 1.0)
        self.occupied_gpu_seconds[job] += seconds * size
        self.pool_gpu_seconds[self._cluster.gpu_pool[gpus[0]]] += seconds * size

    def progress(self, job: int, since_s: float, from_step: float, to_step: float, rate: float) -> None:
        """It made these steps at one rate."""
        if to_step >= FEEDBACK_STEPS > from_step and np.isnan(self.feedback_s[job]):
            self.feedback_s[job] = since_s + (FEEDBACK_STEPS - from_step) / rate

    def finish(self, job: int, now_s: float) -> None:
        self.finished_s[job] = now_s
        if np.isnan(self.feedback_s[job]):
            self.feedback_s[job] = now_s
        self.ended += 1
        self._last_gpus.pop(job, None)

    def cancel(self, job: int, now_s: float) -> None:
        """It ends before it is done."""
        self.cancelled_s[job] = now_s
        self.ended += 1
        self._last_gpus.pop(job, None)
