"""Where jobs ran: how busy each GPU was and how many it served, jobs on more nodes than they need, and moves.

All of it comes from who had which GPUs when. A GPU that two jobs share is busy once, and half of it is each one's. All is array
work, as for what happens over time.
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
    """Share of the run in which a job had it."""
    jobs: Ints
    """Jobs that had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpread:
    """The jobs that had several GPUs, by the nodes these were on. A job that had them more than once counts as what it was at its
    widest; its GPU-time is split exactly."""

    jobs: int
    one_node: int
    """Jobs that were on one node whenever they ran."""
    beyond: int
    """Jobs that were on more nodes than they needed, at least once. The rest was on several nodes, as few as possible."""
    gpu_seconds: float
    one_node_gpu_seconds: float
    beyond_gpu_seconds: float
    nodes_beyond: float | None
    """Nodes beyond the fewest, on average over the GPU-time; None where there was none."""

    def to_dict(self) -> dict[str, float | int | None]:
        return asdict(self)


def per_gpu(result: Result) -> PerGpu:
    """How busy each GPU was from the first submission to the end of the run, and how many jobs it served."""
    holds, gpus, jobs = result.record.gpu_intervals, result.cluster.gpus, max(len(result.arrivals), 1)
    start, end = span([result])
    size = np.diff(holds.first)
    taken = np.bincount(holds.gpus, np.repeat(_seconds(holds), size), minlength=gpus)
    served = np.unique(holds.gpus * jobs + np.repeat(holds.job, size)) // jobs
    busy = np.clip(taken / (end - start), 0.0, 1.0) if end > start else np.zeros(gpus)
    return PerGpu(busy, np.bincount(served, minlength=gpus))


def spread(result: Result) -> NodeSpread:
    """How many jobs of several GPUs, and how much of their GPU-time, took how many nodes."""
    holds = result.record.gpu_intervals
    several = np.flatnonzero(np.diff(holds.first) > 1)
    job = holds.job[several]
    nodes, beyond = (values[several] for values in _nodes(holds, result.cluster))
    gpu_seconds = (_seconds(holds) * np.diff(holds.first))[several]
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
    """Mean number of GPUs that are held by jobs on more nodes than these need. Stretch i goes from bins[i] to bins[i + 1]."""
    holds = result.record.gpu_intervals
    hold, start_s, end_s, weight = _pieces(holds)
    _, beyond = _nodes(holds, result.cluster)
    seen = np.flatnonzero(beyond[hold] > 0)
    gpus = weight[seen] * np.diff(holds.first)[hold[seen]]
    return means_of(start_s[seen], end_s[seen], gpus, bins)


def moves(result: Result) -> Floats:
    """When jobs began to hold other GPUs than they held before, in order."""
    holds = result.record.gpu_intervals
    job, first = holds.job, holds.first
    size = np.diff(first)
    gpus = holds.gpus
    gpus = gpus[np.lexsort((gpus, np.repeat(np.arange(len(size)), size)))]  # in order within each hold
    order = np.argsort(job, kind="stable")  # holds are in the order they ended
    before, after = order[:-1], order[1:]
    again = job[before] == job[after]
    before, after = before[again], after[again]
    moved = size[before] != size[after]
    like = np.flatnonzero(~moved)
    pair, at = every(first[before[like]], first[before[like] + 1] - 1)
    shift = (first[after[like]] - first[before[like]])[pair]
    moved[like[pair[gpus[at] != gpus[at + shift]]]] = True
    return np.sort(holds.start_s[after[moved]])


def class_jobs(result: Result) -> list[int]:
    """How many jobs are of each application class; empty where all GPUs of a type are alike."""
    if result.variability is None:
        return []
    rows = [result.variability.row(arrival.spec.profile) for arrival in result.arrivals]
    return [rows.count(row) for row in range(len(result.variability.classes))]


def outlier_limit(scores: Floats) -> float | None:
    """Beyond this score a GPU is an outlier of its class; None: too few to tell."""
    return float(scores.mean() + OUTLIER_DEVIATIONS * scores.std(ddof=1)) if len(scores) > 1 else None


def _nodes(holds: GpuIntervals, cluster: Cluster) -> tuple[Ints, Ints]:
    """For each hold its nodes, and how many of them are more than its GPUs need."""
    first, gpus, count = holds.first, holds.gpus, len(cluster.nodes)
    size = np.diff(first)
    pairs = np.unique(np.repeat(np.arange(len(size)), size) * count + cluster.gpu_node[gpus])
    nodes = np.bincount(pairs // count, minlength=len(size))
    # All GPUs of a job are of one pool at a time.
    pool = cluster.gpu_pool[gpus[first[:-1]]]
    kinds, kind = np.unique(pool * (cluster.gpus + 1) + size, return_inverse=True)
    fewest = [cluster.fewest_nodes(*divmod(each, cluster.gpus + 1)) for each in kinds.tolist()]
    return nodes, nodes - np.array(fewest, dtype=np.int64)[kind]


def _seconds(holds: GpuIntervals) -> Floats:
    """How long each hold had its GPUs; time in which it shared them counts half."""
    hold, start_s, end_s, weight = _pieces(holds)
    seconds: Floats = np.bincount(hold, weight * (end_s - start_s), minlength=len(holds)).astype(np.float64)
    return seconds


def _pieces(holds: GpuIntervals) -> tuple[Ints, Floats, Floats, Floats]:
    """(hold, from, to, weight): every hold with a weight of 1, and what is to be taken off while it shared its GPUs."""
    start_s, end_s = holds.start_s, holds.end_s
    # Two that share have the same GPUs, all of them.
    shared = np.array(holds.shared, dtype=np.float64).reshape(-1, 6)
    job = shared[:, :2].T.reshape(-1).astype(np.int64)
    from_s, to_s = np.tile(shared[:, 4], 2), np.tile(shared[:, 5], 2)
    hold = np.concatenate((np.arange(len(holds)), _hold_at(holds, job, from_s)))
    weight = np.repeat([1.0, -0.5], [len(holds), len(job)])
    return hold, np.concatenate((start_s, from_s)), np.concatenate((end_s, to_s)), weight


def _hold_at(holds: GpuIntervals, job: Ints, at_s: Floats) -> Ints:
    """The hold of each of these jobs that had begun last at that time."""
    count = len(holds)
    if not len(job):  # nobody shared, as in most runs
        return job
    asked = np.repeat([0, 1], [count, len(job)])
    order = np.lexsort(
        (
            np.concatenate((holds.end_s, at_s)),
            asked,
            np.concatenate((holds.start_s, at_s)),
            np.concatenate((holds.job, job)),
        )
    )
    # Sorted by job and time, every question stands behind its answer.
    latest = np.maximum.accumulate(np.where(asked[order] == 0, np.arange(len(order)), 0))
    found = np.empty(count + len(job), dtype=np.int64)
    found[order] = order[latest]
    return found[count:]
