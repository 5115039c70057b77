"""Chooses one of several options for each of many jobs, for the largest sum of values within the GPUs of each pool.

Prices of pools rise until the options that jobs want at these prices fit (the dual problem, solved by bisection). What is left
over goes to the options that gain most per GPU. With one pool, no answer is better by more than the value of one option.
"""

import numpy as np

from rota.model.units import Bools, Floats, Ints

HALVINGS = 40
ROUNDS = 4
"""How often the price of each pool is searched for, if there are several pools."""


def choose(job: Ints, pool: Ints, gpus: Ints, value: Floats, capacity: Ints, jobs: int) -> Ints:
    """Return the choice of each job: an index into these columns, or -1. Options with a value of 0 or less are never chosen. The
    columns are sorted by job."""
    chosen = np.full(jobs, -1, dtype=np.int64)
    if not len(job):
        return chosen
    first = np.concatenate(([True], job[1:] != job[:-1])).nonzero()[0]
    price = np.zeros(len(capacity))

    def wanted() -> Ints:
        """Return the best option of each job at these prices; -1 if none is worth its price."""
        net = value - price[pool] * gpus
        best = np.maximum.reduceat(net, first)
        hit = ((net == np.repeat(best, np.diff([*first, len(job)]))) & (net > 0)).nonzero()[0]
        found = np.full(jobs, -1, dtype=np.int64)
        found[job[hit[::-1]]] = hit[::-1]
        return found

    def used(choice: Ints) -> Ints:
        taken = choice[choice >= 0]
        return np.bincount(pool[taken], weights=gpus[taken], minlength=len(capacity)).astype(np.int64)

    dearest = float((value / gpus).max(initial=0.0)) * 2 + 1.0
    for _ in range(ROUNDS if len(capacity) > 1 else 1):
        for each in range(len(capacity)):
            price[each] = 0.0
            if used(wanted())[each] <= capacity[each]:
                continue
            low, high = 0.0, dearest
            for _ in range(HALVINGS):
                price[each] = (low + high) / 2
                low, high = (price[each], high) if used(wanted())[each] > capacity[each] else (low, price[each])
            price[each] = high
    chosen = wanted()
    free = capacity - used(chosen)
    _drop(chosen, pool, gpus, value, free)
    _fill(chosen, job, pool, gpus, value, free)
    return chosen


def _drop(chosen: Ints, pool: Ints, gpus: Ints, value: Floats, free: Ints) -> None:
    """Remove the least valuable choices of pools that are too full. The prices of several pools may end up slightly too low."""
    for each in (free < 0).nonzero()[0].tolist():
        mine = (chosen >= 0).nonzero()[0]
        mine = mine[pool[chosen[mine]] == each]
        for at in mine[np.argsort(value[chosen[mine]] / gpus[chosen[mine]], kind="stable")].tolist():
            if free[each] >= 0:
                break
            free[each] += gpus[chosen[at]]
            chosen[at] = -1


def _fill(chosen: Ints, job: Ints, pool: Ints, gpus: Ints, value: Floats, free: Ints) -> None:
    """Repeatedly change the option of the job that gains most per additional GPU, while GPUs are left."""
    held = np.where(chosen >= 0, gpus[chosen], 0)
    home = np.where(chosen >= 0, pool[chosen], -1)
    worth = np.where(chosen >= 0, value[chosen], 0.0)
    while True:
        here = home[job] == pool
        more = gpus - np.where(here, held[job], 0)
        gain = value - worth[job]
        fits: Bools = (gain > 1e-12) & (more <= free[pool])
        if not fits.any():
            return
        per_gpu = np.where(fits, gain / np.maximum(more, 0.5), -np.inf)
        best = int(per_gpu.argmax())
        who = job.item(best)
        if home[who] >= 0:
            free[home[who]] += held[who]
        free[pool[best]] -= gpus[best]
        chosen[who], held[who], home[who], worth[who] = best, gpus[best], pool[best], value[best]
