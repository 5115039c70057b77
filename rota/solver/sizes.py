"""Sizes of elastic jobs: the same GPU time with the fewest changes of size."""

import numpy as np

from rota.model.options import Options
from rota.model.units import MILLI, Floats, Ints


def efficient(options: Options) -> Ints:
    """Options that no other of the same kind and pool beats: as many steps with fewer GPUs, or more with as many."""
    order = np.lexsort((np.arange(len(options)), -options.rate, options.milligpus, options.pool, options.kind))
    keep = []
    best, before = 0.0, (-1, -1)
    for row in order.tolist():
        here = (options.kind.item(row), options.pool.item(row))
        if options.partner_kind.item(row) >= 0:
            keep.append(row)
            continue
        if here != before:
            best, before = 0.0, here
        if options.rate.item(row) > best * (1 + 1e-12):
            best = options.rate.item(row)
            keep.append(row)
    return np.sort(np.array(keep, dtype=np.int64))


def steadied(options: Options, claimant: Ints, option: Ints, share: Floats) -> Floats:
    """The same GPU time of each claimant on each pool, spread over as much of its time as it can be, with no more than two sizes
    next to each other. Where more GPUs bring ever less, that is never slower; where it would be slower, nothing changes."""
    found = share.copy()
    elastic = np.flatnonzero(options.partner_kind[option] < 0)
    if not len(elastic):
        return found
    slack = 1.0 - np.bincount(claimant, weights=share)
    group = claimant[elastic] * (int(options.pool.max()) + 1) + options.pool[option[elastic]]
    order = elastic[np.lexsort((options.milligpus[option[elastic]], group))]
    group = np.sort(group, kind="stable")
    for sides in np.split(order, np.flatnonzero(np.diff(group)) + 1):
        if len(sides) < 2:
            continue
        mine, gpus, rate = share[sides], options.milligpus[option[sides]] / MILLI, options.rate[option[sides]]
        used = float(mine @ gpus)
        if used <= 0:
            continue
        who = claimant[sides[0]]
        time = min(mine.sum() + max(slack[who], 0.0), used / gpus[0])
        upper = int(np.clip(gpus.searchsorted(used / time), 1, len(sides) - 1))
        large = float(np.clip((used - time * gpus[upper - 1]) / (gpus[upper] - gpus[upper - 1]), 0.0, time))
        new = np.zeros(len(sides))
        new[upper], new[upper - 1] = large, time - large
        if new @ rate >= (mine @ rate) * (1 - 1e-9):
            slack[who] -= time - mine.sum()
            found[sides] = new
    return found
