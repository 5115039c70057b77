"""Where jobs ran: utilization and number of jobs per GPU, jobs on more nodes than they need, and moves.

Everything comes from the GPU intervals of the jobs. A GPU that two jobs share is busy once, and each job has half of it. All
computations are on whole arrays.
"""

from dataclasses import asdict, dataclass

import numpy as np

from rota.beliefs.variability import OUTLIER_DEVIATIONS
from rota.model.cluster import Cluster
from rota.model.units import Floats, Ints
from rota.report.result import Result
from rota.report.timeline import every, means_of, span
from rota.sim.record import GpuIntervals


@dataclass(frozen=True, slots=True, eq=False)
class PerGpu:
    """One value per GPU of the cluster."""

    busy: Floats
    """Fraction of the run in which a job had the GPU."""
    jobs: Ints
    """Number of jobs that had the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpread:
    """Jobs with several GPUs, by the number of nodes they were on. A job with several GPU intervals counts by its widest one; its
    GPU time is split exactly."""

    jobs: int
    one_node: int
    """Jobs that were on one node whenever they ran."""
    beyond: int
    """Jobs that were at least once on more nodes than they needed. All others were on several nodes, but as few as possible."""
    gpu_seconds: float
    one_node_gpu_seconds: float
    beyond_gpu_seconds: float
    nodes_beyond: float | None
    """Mean number of nodes beyond the fewest, weighted by GPU time; None if there was no GPU time."""

    def to_dict(self) -> dict[str, float | int | None]:
        return asdict(self)


def per_gpu(result: Result) -> PerGpu:
    """Return how busy each GPU was from the first submission to the end of the run, and how many jobs it served."""
    intervals, gpus, jobs = result.record.gpu_intervals, result.cluster.gpus, max(len(result.arrivals), 1)
    start, end = span([result])
    size = np.diff(intervals.first)
    taken = np.bincount(intervals.gpus, np.repeat(_seconds(intervals), size), minlength=gpus)
    served = np.unique(intervals.gpus * jobs + np.repeat(intervals.job, size)) // jobs
    busy = np.clip(taken / (end - start), 0.0, 1.0) if end > start else np.zeros(gpus)
    return PerGpu(busy, np.bincount(served, minlength=gpus))


def spread(result: Result) -> NodeSpread:
    """Return how many jobs with several GPUs, and how much of their GPU time, took how many nodes."""
    intervals = result.record.gpu_intervals
    several = np.flatnonzero(np.diff(intervals.first) > 1)
    job = intervals.job[several]
    nodes, beyond = (values[several] for values in _nodes(intervals, result.cluster))
    gpu_seconds = (_seconds(intervals) * np.diff(intervals.first))[several]
    widest, worst = np.zeros((2, len(result.arrivals)), dtype=np.int64)
    np.maximum.at(widest, job, nodes)
    np.maximum.at(worst, job, beyond)
    total = float(gpu_seconds.sum())
    return NodeSpread(
        jobs=int((widest > 0).sum()),
        one_node=int((widest == 1).sum()),
        beyond=int((worst > 0).sum()),
        gpu_seconds=total,
        one_node_gpu_seconds=float(gpu_seconds[nodes == 1].sum()),
        beyond_gpu_seconds=float(gpu_seconds[beyond > 0].sum()),
        nodes_beyond=float((gpu_seconds * beyond).sum()) / total if total > 0 else None,
    )


def scattered(result: Result, bins: Floats) -> Floats:
    """Return the mean number of GPUs occupied by jobs on more nodes than they need. Bin i is from bins[i] to bins[i + 1]."""
    intervals = result.record.gpu_intervals
    interval, start_s, end_s, weight = _pieces(intervals)
    _, beyond = _nodes(intervals, result.cluster)
    seen = np.flatnonzero(beyond[interval] > 0)
    gpus = weight[seen] * np.diff(intervals.first)[interval[seen]]
    return means_of(start_s[seen], end_s[seen], gpus, bins)


def moves(result: Result) -> Floats:
    """Return the times at which jobs moved to other GPUs, in order."""
    intervals = result.record.gpu_intervals
    job, first = intervals.job, intervals.first
    size = np.diff(first)
    gpus = intervals.gpus
    gpus = gpus[np.lexsort((gpus, np.repeat(np.arange(len(size)), size)))]  # sorted within each interval
    order = np.argsort(job, kind="stable")  # intervals are in the order they ended
    before, after = order[:-1], order[1:]
    again = job[before] == job[after]
    before, after = before[again], after[again]
    moved = size[before] != size[after]
    like = np.flatnonzero(~moved)
    pair, at = every(first[before[like]], first[before[like] + 1] - 1)
    shift = (first[after[like]] - first[before[like]])[pair]
    moved[like[pair[gpus[at] != gpus[at + shift]]]] = True
    return np.sort(intervals.start_s[after[moved]])


def class_jobs(result: Result) -> list[int]:
    """Return the number of jobs of each application class; empty if all GPUs of a type are equally fast."""
    if result.variability is None:
        return []
    rows = [result.variability.row(arrival.spec.profile) for arrival in result.arrivals]
    return [rows.count(row) for row in range(len(result.variability.classes))]


def outlier_limit(scores: Floats) -> float | None:
    """Return the score beyond which a GPU is an outlier of its class; None if there are too few GPUs."""
    return float(scores.mean() + OUTLIER_DEVIATIONS * scores.std(ddof=1)) if len(scores) > 1 else None


def _nodes(intervals: GpuIntervals, cluster: Cluster) -> tuple[Ints, Ints]:
    """Return the number of nodes of each interval, and how many of them are more than its GPUs need."""
    first, gpus, count = intervals.first, intervals.gpus, len(cluster.nodes)
    size = np.diff(first)
    pairs = np.unique(np.repeat(np.arange(len(size)), size) * count + cluster.gpu_node[gpus])
    nodes = np.bincount(pairs // count, minlength=len(size))
    # All GPUs of an interval are of one pool.
    pool = cluster.gpu_pool[gpus[first[:-1]]]
    kinds, kind = np.unique(pool * (cluster.gpus + 1) + size, return_inverse=True)
    fewest = [cluster.fewest_nodes(*divmod(each, cluster.gpus + 1)) for each in kinds.tolist()]
    return nodes, nodes - np.array(fewest, dtype=np.int64)[kind]


def _seconds(intervals: GpuIntervals) -> Floats:
    """Return how long each interval had its GPUs, in seconds; time in which GPUs were shared counts half."""
    interval, start_s, end_s, weight = _pieces(intervals)
    seconds: Floats = np.bincount(interval, weight * (end_s - start_s), minlength=len(intervals)).astype(np.float64)
    return seconds


def _pieces(intervals: GpuIntervals) -> tuple[Ints, Floats, Floats, Floats]:
    """Return (interval, from, to, weight): every interval with a weight of 1, and a negative weight for the time it shared its
    GPUs."""
    start_s, end_s = intervals.start_s, intervals.end_s
    # Two partners share all of their GPUs.
    shared = np.array(intervals.shared, dtype=np.float64).reshape(-1, 6)
    job = shared[:, :2].T.reshape(-1).astype(np.int64)
    from_s, to_s = np.tile(shared[:, 4], 2), np.tile(shared[:, 5], 2)
    interval = np.concatenate((np.arange(len(intervals)), _interval_at(intervals, job, from_s)))
    weight = np.repeat([1.0, -0.5], [len(intervals), len(job)])
    return interval, np.concatenate((start_s, from_s)), np.concatenate((end_s, to_s)), weight


def _interval_at(intervals: GpuIntervals, job: Ints, at_s: Floats) -> Ints:
    """Return, for each of these jobs, its latest interval that had begun at that time."""
    count = len(intervals)
    if not len(job):  # no GPUs were shared, as in most runs
        return job
    asked = np.repeat([0, 1], [count, len(job)])
    order = np.lexsort(
        (
            np.concatenate((intervals.end_s, at_s)),
            asked,
            np.concatenate((intervals.start_s, at_s)),
            np.concatenate((intervals.job, job)),
        )
    )
    # Sorted by job and time, every query follows its answer.
    latest = np.maximum.accumulate(np.where(asked[order] == 0, np.arange(len(order)), 0))
    found = np.empty(count + len(job), dtype=np.int64)
    found[order] = order[latest]
    return found[count:]
