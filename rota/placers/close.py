"""Choose nodes for a gang that is larger than any node, so that it spans few racks, and few nodes in them."""

from collections.abc import Sequence

import numpy as np

from rota.model.units import Ints


def few_nodes(domains: Sequence[Ints], free: Ints, gpus: int, span: int) -> list[tuple[int, int]] | None:
    """Return (node, GPUs) of a gang that may span this many levels of locality (at least one), or None if no group of nodes has
    room. `free` counts the free GPUs of each node, and `domains` are the cluster's.

    Of the groups that hold the whole gang, this takes those where it needs the fewest nodes, and of these the one with the least
    room to spare. If no group holds it, this takes the groups with the most free GPUs, and continues in the same way with what is
    left.
    """
    if span < len(domains):
        group = _best_group(domains[span], free, gpus)
        if group is None:
            return None
        free = np.where(domains[span] == group, free, 0)
    elif int(free.sum()) < gpus:
        return None
    return _inside(domains[:span], free, gpus)


def closest(domains: Sequence[Ints], free: Ints, gpus: int) -> list[tuple[int, int]]:
    """Return (node, GPUs) of a gang across as few levels of locality as possible."""
    for span in range(1, len(domains) + 1):
        found = few_nodes(domains, free, gpus, span)
        if found is not None:
            return found
    raise ValueError(f"{gpus} GPUs are not free")


def _inside(domains: Sequence[Ints], free: Ints, gpus: int) -> list[tuple[int, int]]:
    if len(domains) == 1:
        return _fullest(free, gpus)
    groups, found = domains[-1], []
    room = np.bincount(groups, weights=free).astype(np.int64)
    free = free.copy()
    while gpus:
        best = _best_group(groups, free, gpus)
        group = best if best is not None else int(np.argmax(room))
        part = min(gpus, int(room[group]))
        found += _inside(domains[:-1], np.where(groups == group, free, 0), part)
        gpus -= part
        room[group] = 0
        free[groups == group] = 0
    return found


def _best_group(groups: Ints, free: Ints, gpus: int) -> int | None:
    """Return the group that holds all GPUs on the fewest nodes, and of those the one with the least room to spare; None if no
    group holds them."""
    order = np.lexsort((-free, groups))
    group, total = groups[order], np.cumsum(free[order])
    begin = np.flatnonzero(np.diff(group, prepend=-1))
    before = total[begin] - free[order][begin]
    here = np.repeat(np.arange(len(begin)), np.diff(begin, append=len(group)))
    enough = total - before[here] >= gpus
    last = np.flatnonzero(enough & ~np.concatenate(([False], enough[:-1] & (here[1:] == here[:-1]))))
    if not len(last):
        return None
    room = np.bincount(groups, weights=free)
    nodes = last - begin[here[last]]
    return int(group[last[np.lexsort((room[group[last]], nodes))[0]]])


def _fullest(free: Ints, gpus: int) -> list[tuple[int, int]]:
    """Take all free GPUs of the nodes with the most, and the rest from the node that fits it best."""
    found: list[tuple[int, int]] = []
    for size in range(int(free.max()), 0, -1):
        nodes = (free == size).nonzero()[0]
        whole = nodes[: gpus // size].tolist()
        found += [(node, size) for node in whole]
        gpus -= size * len(whole)
        if gpus and len(nodes) > len(whole):  # fewer than `size` are left
            rest = free.copy()
            rest[[node for node, _ in found]] = 0
            fits = (rest >= gpus).nonzero()[0]
            found.append((int(fits[np.argmin(rest[fits])]), gpus))
            gpus = 0
        if not gpus:
            break
    return found
