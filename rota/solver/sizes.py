"""Sizes of elastic jobs: the same GPU time with the fewest changes of size."""

import numpy as np

from rota.model.options import Options
from rota.model.units import MILLI, Bools, Floats, Ints

MIN_GPU_TIME = 1e-9
"""GPU time that is too small to consider."""


def efficient(options: Options) -> Ints:
    """Return options that no other of the same kind and pool beats, by as many steps with fewer GPUs or more steps with as
    many."""
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
    """Give each claimant the same GPU time on each pool, spread over as much of its time as possible, with at most two adjacent
    sizes. If each further GPU brings less, that is never slower. If it would be slower, nothing changes."""
    found = share.copy()
    elastic = np.flatnonzero(options.partner_kind[option] < 0)
    if not len(elastic):
        return found
    slack = 1.0 - np.bincount(claimant, weights=share)
    group = claimant[elastic] * (int(options.pool.max()) + 1) + options.pool[option[elastic]]
    order = elastic[np.lexsort((-options.rate[option[elastic]], options.milligpus[option[elastic]], group))]
    group = np.sort(group, kind="stable")
    for sides in np.split(order, np.flatnonzero(np.diff(group)) + 1):
        if len(sides) < 2:
            continue
        mine, gpus, rate = share[sides], options.milligpus[option[sides]] / MILLI, options.rate[option[sides]]
        used = float(mine @ gpus)
        if used <= MIN_GPU_TIME:
            continue
        who, new = claimant[sides[0]], np.zeros(len(sides))
        time = min(mine.sum() + max(slack[who], 0.0), used / gpus[0])
        sizes, best = np.unique(gpus, return_index=True)  # of two batch sizes, the faster comes first
        if len(sizes) < 2:
            new[0] = time
        else:
            upper = int(np.clip(sizes.searchsorted(used / time), 1, len(sizes) - 1))
            large = float(np.clip((used - time * sizes[upper - 1]) / (sizes[upper] - sizes[upper - 1]), 0.0, time))
            new[best[upper]], new[best[upper - 1]] = large, time - large
        if new @ rate >= (mine @ rate) * (1 - 1e-9):
            slack[who] -= time - mine.sum()
            found[sides] = new
    return found


def measured_by(options: Options, claimant: Ints, option: Ints) -> Bools:
    """Return which sides of a program define the usual rate of a claimant: on each pool the requested size, or the fastest if
    that does not fit now."""
    alone = options.partner_kind[option] < 0
    if not options.elastic:
        return alone
    found = alone & options.default_size[option]
    group = claimant * (int(options.pool.max(initial=0)) + 1) + options.pool[option]
    has = np.zeros(int(group.max(initial=-1)) + 1, dtype=bool)
    has[group[found]] = True
    without = np.flatnonzero(alone & ~has[group])
    fastest = without[np.lexsort((-options.rate[option[without]], group[without]))]
    found[fastest[np.unique(group[fastest], return_index=True)[1]]] = True
    return found


def usual_rows(options: Options, capacity: Ints) -> Ints:
    """Return one exclusive option of each kind on each pool: the requested size, or the fastest if that does not fit now."""
    alone = (options.partner_kind < 0).nonzero()[0]
    if not options.elastic:
        return alone
    alone = alone[options.milligpus[alone] <= capacity[options.pool[alone]] * MILLI]
    return alone[measured_by(options, options.kind[alone], alone)]
