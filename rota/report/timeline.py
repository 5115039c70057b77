"""A run over time: busy GPUs, waiting jobs, nodes that were down, and who had which GPUs when.

Numbers of GPUs and jobs are step functions. Their means over a stretch of time come from their exact integrals, so that nothing
falls between two samples. All is array work: a hundred thousand jobs take a second or two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.units import Floats, Ints
from rota.report.result import Result
from rota.sim.record import GpuIntervals

MOST_ROWS = 512
"""Rows of a coarse map at most: about as many as a screen can show."""

FINEST = 8
"""A coarse map starts with up to this many cells per rectangle allowed, since neighbours of one job merge."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ranges:
    """Who had which GPUs when, as rectangles: `rows` rows from `first_row` on, from `start_s` to `end_s`."""

    first_row: Ints
    rows: Ints
    start_s: Floats
    end_s: Floats
    job: Ints
    half: Ints
    """0: it has its rows to itself; 1 or 2: the upper or the lower half of each, beside a job that shares them."""
    gpus_per_row: int = 1
    """GPUs that a row stands for: row r has those from r x this on."""
    seconds_per_cell: float = 0.0
    """0: times are exact. Otherwise each row is cut into cells of this length, and a cell is shown as that of the job which had
    most of it, or empty if more than half of it was idle."""

    def __len__(self) -> int:
        return len(self.job)


def span(results: Sequence[Result]) -> tuple[float, float]:
    """From the first submission to when the last GPU was given back or the last job finished."""
    starts = [float(result.record.submitted_s.min(initial=np.inf)) for result in results]
    start = min(starts, default=0.0)
    start = start if np.isfinite(start) else 0.0
    ends = [float(_left(result).max(initial=start)) for result in results]
    return start, max(*ends, start) if ends else start


def edges(results: Sequence[Result], count: int) -> Floats:
    """The edges of `count` equal stretches of time over all these runs; a run of no length gets one second."""
    start, end = span(results)
    return np.linspace(start, end if end > start else start + 1.0, count + 1)


def busy(result: Result, bins: Floats) -> Floats:
    """Mean number of busy GPUs, shape (pools, stretches). Stretch i goes from bins[i] to bins[i + 1]. A GPU that two jobs have is
    busy once."""
    holds, cluster = result.record.gpu_intervals, result.cluster
    first, start_s, end_s = holds.first, holds.start_s, holds.end_s
    size = np.diff(first)
    # All GPUs of a job are of one pool at a time.
    pool = cluster.gpu_pool[holds.gpus[first[:-1]]]
    shared = np.array(holds.shared, dtype=np.float64).reshape(-1, 6)
    pool = np.concatenate((pool, cluster.gpu_pool[shared[:, 2].astype(np.int64)]))
    start_s, end_s = np.concatenate((start_s, shared[:, 4])), np.concatenate((end_s, shared[:, 5]))
    weight = np.concatenate((size, -shared[:, 3]))
    means = np.empty((len(cluster.pools), len(bins) - 1))
    for number in range(len(cluster.pools)):
        here = pool == number
        means[number] = means_of(start_s[here], end_s[here], weight[here], bins)
    return means


def queue(result: Result, bins: Floats) -> Floats:
    """Mean number of jobs that were submitted, not over and without GPUs. Stretch i goes from bins[i] to bins[i + 1]."""
    holds, submitted_s = result.record.gpu_intervals, result.record.submitted_s
    starts = np.concatenate((submitted_s, holds.start_s))
    ends = np.concatenate((_left(result), holds.end_s))
    weight = np.repeat([1.0, -1.0], [len(submitted_s), len(holds)])
    return means_of(starts, ends, weight, bins)


def outages(result: Result) -> list[tuple[int, float, float]]:
    """(node, from, to) of every time a node was down while jobs were there."""
    start, end = span([result])
    return [(node, from_s, to_s) for node, from_s, to_s in result.record.outages if from_s < end and to_s > start]


def ranges(result: Result, most: int) -> Ranges:
    """The map of a run in at most `most` rectangles: exact if that is enough, coarse otherwise."""
    exact = _exact(result)
    if len(exact) <= most:
        return exact
    start, end = span([result])
    gpus_per_row = -(-result.cluster.gpus // MOST_ROWS)
    rows = -(-result.cluster.gpus // gpus_per_row)
    columns = max(FINEST * most // rows, 1)
    while True:
        coarse = _coarse(exact, result.cluster.gpus, gpus_per_row, start, (end - start) / columns, columns)
        if len(coarse) <= most or (columns == 1 and rows == 1):
            return coarse
        if columns > 1:
            columns = columns // 2
        else:
            gpus_per_row, rows = gpus_per_row * 2, -(-rows // 2)


def _left(result: Result) -> Floats:
    """When each job was over. One that did not finish left with its last GPUs; without any it stays to the end."""
    record = result.record
    holds = record.gpu_intervals
    last = np.full(len(record.submitted_s), -np.inf)
    np.maximum.at(last, holds.job, holds.end_s)
    left = np.where(np.isfinite(record.finished_s), record.finished_s, last)
    end = max(float(left.max(initial=-np.inf)), float(record.submitted_s.max(initial=-np.inf)))
    return np.where(np.isfinite(left), left, end)


def means_of(start_s: Floats, end_s: Floats, weight: Floats, bins: Floats) -> Floats:
    """Means of the sum of the weights that are there from start to end. The integral of steps is linear between them."""
    instants = np.concatenate((start_s, end_s))
    if not len(instants):
        return np.zeros(len(bins) - 1)
    order = np.argsort(instants, kind="stable")
    instants, level = instants[order], np.cumsum(np.concatenate((weight, -weight))[order])
    total = np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(instants))))
    means = np.diff(np.interp(bins, instants, total)) / np.diff(bins)
    # Integrals cancel to a few units in the last place; no mean of these is below nothing.
    return np.maximum(means, 0.0)


def _exact(result: Result) -> Ranges:
    """One rectangle per stretch of neighbouring GPUs of each hold, cut where company comes and goes."""
    holds = result.record.gpu_intervals
    of, start, end, half = _pieces(holds)
    first = holds.first
    piece, at = every(first[of], first[of + 1] - 1)
    gpu = holds.gpus[at]
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
        job=holds.job[of[piece[at]]][seen],
        half=half[piece[at]][seen],
    )


def _pieces(holds: GpuIntervals) -> tuple[Ints, Floats, Floats, Ints]:
    """(hold, from, to, half) of every stretch of time in which a job held its GPUs in the same company."""
    job, start_s, end_s = holds.job, holds.start_s, holds.end_s
    company: dict[int, list[tuple[float, float, int]]] = {}
    for one, other, _, _, from_s, to_s in holds.shared:
        company.setdefault(one, []).append((from_s, to_s, 1 + (one > other)))
        company.setdefault(other, []).append((from_s, to_s, 1 + (other > one)))
    crowded = np.isin(job, list(company))
    cut: list[tuple[int, float, float, int]] = []
    for hold in crowded.nonzero()[0].tolist():
        now_s, until_s = start_s[hold], end_s[hold]
        for from_s, to_s, half in sorted(company[int(job[hold])]):
            if now_s <= from_s and to_s <= until_s:
                cut += [(hold, now_s, from_s, 0), (hold, from_s, to_s, half)]
                now_s = to_s
        cut.append((hold, now_s, until_s, 0))
    pieces = np.array(cut, dtype=np.float64).reshape(-1, 4)
    alone = (~crowded).nonzero()[0]
    return (
        np.concatenate((alone, pieces[:, 0].astype(np.int64))),
        np.concatenate((start_s[alone], pieces[:, 1])),
        np.concatenate((end_s[alone], pieces[:, 2])),
        np.concatenate((np.zeros_like(alone), pieces[:, 3].astype(np.int64))),
    )


def _coarse(exact: Ranges, gpus: int, gpus_per_row: int, start_s: float, cell_s: float, columns: int) -> Ranges:
    """The same on a grid: GPU-seconds per cell and job, the largest wins, runs of one job along a row are one rectangle."""
    first, last = exact.first_row // gpus_per_row, (exact.first_row + exact.rows - 1) // gpus_per_row
    of, row = every(first, last)
    low = np.maximum(exact.first_row[of], row * gpus_per_row)
    high = np.minimum(exact.first_row[of] + exact.rows[of], (row + 1) * gpus_per_row)
    start = (exact.start_s[of] - start_s) / cell_s
    end = np.minimum((exact.end_s[of] - start_s) / cell_s, columns)
    part, column = every(start.astype(np.int64), np.maximum(np.ceil(end).astype(np.int64) - 1, start.astype(np.int64)))
    share = (high - low)[part] * (np.minimum(end[part], column + 1) - np.maximum(start[part], column))
    share = np.where(exact.half[of][part] > 0, share / 2, share)  # a GPU of two is busy once
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
    """The cells that were busy at least half of their GPU-time, in order, and the job that had most of each."""
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
    """Every whole number from first[i] to last[i], with its i."""
    count = last - first + 1
    of = np.repeat(np.arange(len(first)), count)
    return of, first[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
