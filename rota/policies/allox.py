"""AlloX (EuroSys '20): match jobs to positions in the queues of unequal GPUs, for the shortest mean completion time."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from rota.model.allocation import Shares
from rota.model.units import Floats, Ints
from rota.model.view import View
from rota.solver.sizes import usual_rows

LONG_SECONDS = 365 * 86400.0
"""Assumed run time left of a job without a known end, in seconds."""

CANNOT_RUN = 1e-10
"""Rate of a job on a pool where it cannot run, in steps per second. The matching then uses that pool last."""


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """Memory of the policy: jobs that hold a GPU from an earlier matching, and their options."""

    ids: Ints
    option: Ints


@dataclass(frozen=True)
class Allox:
    """For jobs of one GPU. Larger jobs get what is left over. A matched job keeps its GPU, and the others are matched again."""

    alpha: float = 1.0
    """Fraction of the waiting jobs that is matched, oldest first."""

    def allocate(self, view: View) -> Shares:
        jobs, options = view.jobs, view.options
        wide = jobs.gpus > 1
        notes = {int(job): "allox matches jobs of one GPU; this one gets what is left over." for job in wide.nonzero()[0]}
        held = _held(view.memory, jobs.ids)
        free = view.capacity - np.bincount(options.pool[held[held >= 0]], minlength=len(view.capacity))
        waiting = ((held < 0) & ~wide).nonzero()[0]
        count = max(int(self.alpha * len(waiting)), int(free.sum()))
        chosen = _match(view, waiting[:count], np.maximum(free, 0))
        held = held.copy()
        held[waiting[:count]] = chosen
        matched = (held >= 0).nonzero()[0]
        memory = Matching(jobs.ids[matched], held[matched])
        return Shares(
            position=matched, option=held[matched], share=np.ones(len(matched)), memory=memory, notes=notes, key="matching"
        )


def _held(memory: Matching | None, ids: Ints) -> Ints:
    if memory is None or not len(memory.ids):
        return np.full(len(ids), -1)
    found = np.minimum(memory.ids.searchsorted(ids), len(memory.ids) - 1)
    return np.where(memory.ids[found] == ids, memory.option[found], -1)


def _match(view: View, waiting: Ints, free: Ints) -> Ints:
    """Return the option of each waiting job that is first in its queue; -1 for the others.

    A position is a GPU and a place k, counted from the end of its queue. The job there delays k jobs, itself included. In some
    best matching the queues of equal GPUs are equally long, so that a pool needs only as many positions per GPU as it takes to
    hold all jobs.
    """
    count = len(waiting)
    pools = [pool for pool in range(len(free)) if free[pool] > 0]
    if not count or not pools:
        return np.full(count, -1)
    rate, option = _rates(view, waiting)
    steps = np.where(np.isfinite(view.jobs.steps_left[waiting]), view.jobs.steps_left[waiting], LONG_SECONDS * rate.max(axis=1))
    age = view.now_s - view.jobs.submitted_s[waiting]
    pool = np.concatenate([np.tile(np.full(free[p], p), -(-count // int(free[p]))) for p in pools])
    gpu = np.concatenate([np.tile(np.arange(free[p]), -(-count // int(free[p]))) for p in pools])
    place = np.concatenate([np.repeat(np.arange(1, -(-count // int(free[p])) + 1), free[p]) for p in pools])
    cost = place * (steps[:, None] / rate[:, pool]) + age[:, None]
    row, column = linear_sum_assignment(cost)
    first: dict[tuple[int, int], tuple[int, int]] = {}
    for job, where in zip(row.tolist(), column.tolist(), strict=True):
        queue = (int(pool[where]), int(gpu[where]))
        first[queue] = max(first.get(queue, (0, -1)), (int(place[where]), job))
    chosen = np.full(count, -1)
    for (where, _), (_, job) in first.items():
        chosen[job] = option[job, where]
    return chosen


def _rates(view: View, waiting: Ints) -> tuple[Floats, Ints]:
    """Return the rate of each job on each pool, in steps per second, and the option that gives it."""
    options = view.options
    rate = np.full((len(options.by_kind), len(view.capacity)), CANNOT_RUN)
    option = np.full(rate.shape, -1)
    alone = usual_rows(options, view.capacity)  # at the requested size
    rate[options.kind[alone], options.pool[alone]] = options.rate[alone]
    option[options.kind[alone], options.pool[alone]] = alone
    kind = view.jobs.kind[waiting]
    return rate[kind], option[kind]
