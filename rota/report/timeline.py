"""A run over time: busy GPUs, waiting jobs, nodes that were down, and which job had which GPUs when.

Numbers of GPUs and jobs are step functions. Their means over a time bin come from their exact integrals, so nothing is missed
between two samples. All computations are on whole arrays: a hundred thousand jobs take a second or two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.units import Floats, Ints
from rota.report.result import Result
from rota.sim.record import GpuIntervals

MAX_ROWS = 512
"""Maximum number of rows of a coarse map: about as many as a screen can show."""

FINEST = 8
"""Factor of cells to allowed rectangles with which a coarse map starts. Neighbouring cells of one job merge into one
rectangle."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ranges:
    """Which job had which GPUs when, as rectangles: `rows` rows from `first_row` on, from `start_s` to `end_s`."""

    first_row: Ints
    rows: Ints
    start_s: Floats
    end_s: Floats
    job: Ints
    half: Ints
    """0 if the job has its rows to itself; 1 or 2 for the upper or lower half of each row that it shares with a partner."""
    gpus_per_row: int = 1
    """GPUs per row: row r has GPUs from r x this number on."""
    seconds_per_cell: float = 0.0
    """Length of a cell in seconds; 0 if times are exact. In a coarse map each row is cut into cells. A cell shows the job that
    had most of it, or is empty if more than half of it was idle."""

    def __len__(self) -> int:
        return len(self.job)


def span(results: Sequence[Result]) -> tuple[float, float]:
    """Return the first submission, and the time at which the last GPU was free and the last job finished."""
    starts = [float(result.record.submitted_s.min(initial=np.inf)) for result in results]
    start = min(starts, default=0.0)
    start = start if np.isfinite(start) else 0.0
    ends = [float(_left(result).max(initial=start)) for result in results]
    return start, max(*ends, start) if ends else start


def edges(results: Sequence[Result], count: int) -> Floats:
    """Return the edges of `count` equal time bins over all these runs. A run without length gets one second."""
    start, end = span(results)
    return np.linspace(start, end if end > start else start + 1.0, count + 1)


def busy(result: Result, bins: Floats) -> Floats:
    """Return the mean number of busy GPUs, shape (pools, bins). Bin i is from bins[i] to bins[i + 1]. A GPU that two jobs share
    is busy once."""
    intervals, cluster = result.record.gpu_intervals, result.cluster
    first, start_s, end_s = intervals.first, intervals.start_s, intervals.end_s
    size = np.diff(first)
    # All GPUs of an interval are of one pool.
    pool = cluster.gpu_pool[intervals.gpus[first[:-1]]]
    shared = np.array(intervals.shared, dtype=np.float64).reshape(-1, 6)
    pool = np.concatenate((pool, cluster.gpu_pool[shared[:, 2].astype(np.int64)]))
    start_s, end_s = np.concatenate((start_s, shared[:, 4])), np.concatenate((end_s, shared[:, 5]))
    weight = np.concatenate((size, -shared[:, 3]))
    means = np.empty((len(cluster.pools), len(bins) - 1))
    for number in range(len(cluster.pools)):
        here = pool == number
        means[number] = means_of(start_s[here], end_s[here], weight[here], bins)
    return means


def queue(result: Result, bins: Floats) -> Floats:
    """Return the mean number of jobs that were submitted and not over, and had no GPUs. Bin i is from bins[i] to bins[i + 1]."""
    intervals, submitted_s = result.record.gpu_intervals, result.record.submitted_s
    starts = np.concatenate((submitted_s, intervals.start_s))
    ends = np.concatenate((_left(result), intervals.end_s))
    weight = np.repeat([1.0, -1.0], [len(submitted_s), len(intervals)])
    return means_of(starts, ends, weight, bins)


def outages(result: Result) -> list[tuple[int, float, float]]:
    """Return (node, from, to) of every outage of a node during the run."""
    start, end = span([result])
    return [(node, from_s, to_s) for node, from_s, to_s in result.record.outages if from_s < end and to_s > start]


def ranges(result: Result, max_rectangles: int) -> Ranges:
    """Return the map of a run: exact if `max_rectangles` are enough, coarse otherwise."""
    exact = _exact(result)
    if len(exact) <= max_rectangles:
        return exact
    start, end = span([result])
    gpus_per_row = -(-result.cluster.gpus // MAX_ROWS)
    rows = -(-result.cluster.gpus // gpus_per_row)
    columns = max(FINEST * max_rectangles // rows, 1)
    while True:
        coarse = _coarse(exact, result.cluster.gpus, gpus_per_row, start, (end - start) / columns, columns)
        if len(coarse) <= max_rectangles or (columns == 1 and rows == 1):
            return coarse
        if columns > 1:
            columns = columns // 2
        else:
            gpus_per_row, rows = gpus_per_row * 2, -(-rows // 2)


def _left(result: Result) -> Floats:
    """Return when each job was over. An unfinished job is over with its last GPUs; if it never had GPUs, at the end of the
    run."""
    record = result.record
    intervals = record.gpu_intervals
    last = np.full(len(record.submitted_s), -np.inf)
    np.maximum.at(last, intervals.job, intervals.end_s)
    left = np.where(np.isfinite(record.finished_s), record.finished_s, last)
    end = max(float(left.max(initial=-np.inf)), float(record.submitted_s.max(initial=-np.inf)))
    return np.where(np.isfinite(left), left, end)


def means_of(start_s: Floats, end_s: Floats, weight: Floats, bins: Floats) -> Floats:
    """Return the mean of the sum of weights in each bin; each weight counts from its start to its end. The integral of steps is
    linear between them."""
    instants = np.concatenate((start_s, end_s))
    if not len(instants):
        return np.zeros(len(bins) - 1)
    order = np.argsort(instants, kind="stable")
    instants, level = instants[order], np.cumsum(np.concatenate((weight, -weight))[order])
    total = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(instants))))
    means = np.diff(np.interp(bins, instants, total)) / np.diff(bins)
    # Rounding can leave a few units in the last place, but no mean is below 0.
    return np.maximum(means, 0.0)


def _exact(result: Result) -> Ranges:
    """Return one rectangle per group of neighbouring GPUs of each interval, cut where a partner comes or goes."""
    intervals = result.record.gpu_intervals
    of, start, end, half = _pieces(intervals)
    first = intervals.first
    piece, at = every(first[of], first[of + 1] - 1)
    gpu = intervals.gpus[at]
    order = np.lexsort((gpu, piece))
    piece, gpu = piece[order], gpu[order]
    begins = np.ones(len(gpu), dtype=np.bool_)
    begins[1:] = (piece[1:] != piece[:-1]) | (gpu[1:] != gpu[:-1] + 1)
    at = np.flatnonzero(begins)
    rows, start_s, end_s = np.diff(np.append(at, len(gpu))), start[piece[at]], end[piece[at]]
    seen = np.flatnonzero(end_s > start_s)
    return Ranges(
        first_row=gpu[at][seen],
        rows=rows[seen],
        start_s=start_s[seen],
        end_s=end_s[seen],
        job=intervals.job[of[piece[at]]][seen],
        half=half[piece[at]][seen],
    )


def _pieces(intervals: GpuIntervals) -> tuple[Ints, Floats, Floats, Ints]:
    """Return (interval, from, to, half) of every period in which a job had its GPUs with the same partner."""
    job, start_s, end_s = intervals.job, intervals.start_s, intervals.end_s
    shared: dict[int, list[tuple[float, float, int]]] = {}
    for one, other, _, _, from_s, to_s in intervals.shared:
        shared.setdefault(one, []).append((from_s, to_s, 1 + (one > other)))
        shared.setdefault(other, []).append((from_s, to_s, 1 + (other > one)))
    is_shared = np.isin(job, list(shared))
    cut: list[tuple[int, float, float, int]] = []
    for interval in is_shared.nonzero()[0].tolist():
        now_s, until_s = start_s[interval], end_s[interval]
        for from_s, to_s, half in sorted(shared[int(job[interval])]):
            if now_s <= from_s and to_s <= until_s:
                cut += [(interval, now_s, from_s, 0), (interval, from_s, to_s, half)]
                now_s = to_s
        cut.append((interval, now_s, until_s, 0))
    pieces = np.array(cut, dtype=np.float64).reshape(-1, 4)
    alone = (~is_shared).nonzero()[0]
    return (
        np.concatenate((alone, pieces[:, 0].astype(np.int64))),
        np.concatenate((start_s[alone], pieces[:, 1])),
        np.concatenate((end_s[alone], pieces[:, 2])),
        np.concatenate((np.zeros_like(alone), pieces[:, 3].astype(np.int64))),
    )


def _coarse(exact: Ranges, gpus: int, gpus_per_row: int, start_s: float, cell_s: float, columns: int) -> Ranges:
    """Return the map on a grid. The job with the most GPU-seconds of a cell wins it, and adjacent cells of one job are one
    rectangle."""
    first, last = exact.first_row // gpus_per_row, (exact.first_row + exact.rows - 1) // gpus_per_row
    of, row = every(first, last)
    low = np.maximum(exact.first_row[of], row * gpus_per_row)
    high = np.minimum(exact.first_row[of] + exact.rows[of], (row + 1) * gpus_per_row)
    start = (exact.start_s[of] - start_s) / cell_s
    end = np.minimum((exact.end_s[of] - start_s) / cell_s, columns)
    part, column = every(start.astype(np.int64), np.maximum(np.ceil(end).astype(np.int64) - 1, start.astype(np.int64)))
    share = (high - low)[part] * (np.minimum(end[part], column + 1) - np.maximum(start[part], column))
    share = np.where(exact.half[of][part] > 0, share / 2, share)  # a shared GPU is busy once
    inside = share > 0
    part, column, share = part[inside], column[inside], share[inside]
    cell = row[part] * columns + column
    cell, job = _winners(cell, exact.job[of][part], share, gpus, gpus_per_row, columns)
    begins = np.ones(len(cell), dtype=np.bool_)
    begins[1:] = (cell[1:] != cell[:-1] + 1) | (job[1:] != job[:-1]) | (cell[1:] % columns == 0)
    at = np.flatnonzero(begins)
    begin = (cell[at] % columns).astype(np.float64)
    return Ranges(
        first_row=cell[at] // columns,
        rows=np.ones(len(at), dtype=np.int64),
        start_s=start_s + begin * cell_s,
        end_s=start_s + (begin + np.diff(np.append(at, len(cell)))) * cell_s,
        job=job[at],
        half=np.zeros(len(at), dtype=np.int64),
        gpus_per_row=gpus_per_row,
        seconds_per_cell=cell_s,
    )


def _winners(cell: Ints, job: Ints, share: Floats, gpus: int, gpus_per_row: int, columns: int) -> tuple[Ints, Ints]:
    """Return the cells that were busy for at least half of their GPU time, in order, and the job that had most of each."""
    if not len(cell):
        return cell, job
    order = np.lexsort((job, cell))
    cell, job, share = cell[order], job[order], share[order]
    new_pair = np.ones(len(cell), dtype=np.bool_)
    new_pair[1:] = (cell[1:] != cell[:-1]) | (job[1:] != job[:-1])
    pair = np.flatnonzero(new_pair)
    cell, job, share = cell[pair], job[pair], np.add.reduceat(share, pair)
    at = np.flatnonzero(np.append(True, cell[1:] != cell[:-1]))
    total, largest = np.add.reduceat(share, at), np.maximum.reduceat(share, at)
    ahead = np.flatnonzero(share == np.repeat(largest, np.diff(np.append(at, len(share)))))
    best = ahead[np.unique(cell[ahead], return_index=True)[1]]
    size = np.minimum(gpus - cell[at] // columns * gpus_per_row, gpus_per_row)
    # Rounding must not empty a cell that is half busy.
    full = total >= 0.5 * size * (1 - 1e-9)
    return cell[best][full], job[best][full]


def every(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return every whole number from first[i] to last[i], with its i."""
    count = last - first + 1
    of = np.repeat(np.arange(len(first)), count)
    return of, first[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
