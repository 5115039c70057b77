"""The history of a simulation, job by job, as the physics saw it."""

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
    """GPU intervals: one row per interval in which a job held its GPUs, ordered by end. If two jobs held the same GPUs, each of
    them has a row."""

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
        """Record that two jobs held these GPUs at the same time."""
        if end_s > start_s:
            self._shared.append((job, other, int(gpus[0]), len(gpus), start_s, end_s))

    @property
    def shared(self) -> list[tuple[int, int, int, int, float, float]]:
        """Intervals in which two jobs held the same GPUs: both jobs, first GPU, number of GPUs, start and end; ordered by end."""
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
        """Offsets into `gpus`: row r held the GPUs gpus[first[r]:first[r + 1]]."""
        return np.array(self._first, dtype=np.int64)

    @property
    def gpus(self) -> Ints:
        return np.array(self._gpus, dtype=np.int64)


FEEDBACK_STEPS = 100.0
"""Steps after which users decide whether a job is worth continuing (Gandiva, OSDI'18)."""


@dataclass(eq=False)
class Record:
    """One row per job of the workload."""

    submitted_s: Floats
    first_run_s: Floats
    finished_s: Floats
    cancelled_s: Floats
    """Time at which a search cancelled the job, or at which it reached its limit on run time; such a job never finishes."""
    feedback_s: Floats
    """Time at which the job had made FEEDBACK_STEPS steps, or all its steps if it has fewer."""
    gpus: Floats
    occupied_seconds: Floats
    """Time during which the job held GPUs, in seconds, including overheads."""
    occupied_gpu_seconds: Floats
    """GPU-seconds held by the job. If two jobs held GPUs together, each counts half."""
    launches: Ints
    suspensions: Ints
    migrations: Ints
    resizes: Ints
    """Changes of size without a restart."""
    lost_gpu_seconds: Floats
    """Work lost to crashes, as the GPU-seconds that a job with exclusive GPUs needs for it."""
    pool_gpu_seconds: Floats
    """GPU-seconds taken in each pool. A GPU that two jobs share is counted once."""
    colocation: bool = False
    """Whether jobs were allowed to share GPUs."""
    ended: int = 0
    over_limit: int = 0
    """Number of jobs that reached their limit on run time."""
    decisions: int = 0
    decision_seconds: float = 0.0
    """Real time that the core and the policy took, in seconds."""
    instants: int = 0
    gpu_intervals: GpuIntervals = field(default_factory=GpuIntervals)
    outages: list[tuple[int, float, float]] = field(default_factory=list)
    """Outages of nodes, as (node, start, end)."""

    @classmethod
    def empty(cls, arrivals: Sequence[Arrival], cluster: Cluster, colocation: bool = False) -> Self:
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
            colocation=colocation,
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
        """Record a change of size of a running job."""
        self.resizes[job] += 1
        self._last_gpus[job] = command.gpus

    def start(self, job: int, now_s: float) -> None:
        first = self.first_run_s.item(job)
        if first != first:  # not a number: it never ran
            self.first_run_s[job] = now_s

    def release(self, job: int, gpus: Ints, held_s: float, now_s: float, shared_seconds: float = 0.0) -> None:
        """Record that a job released its GPUs, which it shared with a partner for `shared_seconds`. A fraction of a GPU counts as
        a fraction."""
        seconds = now_s - held_s
        self.gpu_intervals.add(job, gpus, held_s, now_s)
        self.occupied_seconds[job] += seconds
        seconds -= shared_seconds / 2
        size = len(gpus) if len(gpus) > 1 else min(self.gpus.item(job), 1.0)
        self.occupied_gpu_seconds[job] += seconds * size
        self.pool_gpu_seconds[self._cluster.gpu_pool.item(gpus.item(0))] += seconds * size

    def progress(self, job: int, since_s: float, from_step: float, to_step: float, rate: float) -> None:
        """Record steps that a job made at a constant rate."""
        if to_step >= FEEDBACK_STEPS > from_step and np.isnan(self.feedback_s[job]):
            self.feedback_s[job] = since_s + (FEEDBACK_STEPS - from_step) / rate

    def finish(self, job: int, now_s: float) -> None:
        self.finished_s[job] = now_s
        feedback_s = self.feedback_s.item(job)
        if feedback_s != feedback_s:  # not a number: it made too few steps
            self.feedback_s[job] = now_s
        self.ended += 1
        self._last_gpus.pop(job, None)

    def cancel(self, job: int, now_s: float) -> None:
        """Record that a job ended before all its steps were done."""
        self.cancelled_s[job] = now_s
        self.ended += 1
        self._last_gpus.pop(job, None)
