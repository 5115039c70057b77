"""Close together: which nodes a gang takes that no node can hold, so that it spans few racks, and few nodes in them."""

from collections.abc import Sequence

import numpy as np

from rota.model.units import Ints


def few_nodes(domains: Sequence[Ints], free: Ints, gpus: int, span: int) -> list[tuple[int, int]] | None:
    """(node, GPUs) of a gang that may span so many levels of locality, one at least, given what each node has free; None: no
    place has so many. `domains` are a cluster's.

    Of the groups that hold all of it, the one with least to spare; where none does, those with most free, and for what is left
    the one with least to spare again."""
    if span < len(domains):
        room = np.bincount(domains[span], weights=free).astype(np.int64)
        holds = (room >= gpus).nonzero()[0]
        if not len(holds):
            return None
        free = np.where(domains[span] == holds[np.argmin(room[holds])], free, 0)
    elif int(free.sum()) < gpus:
        return None
    return _inside(domains[:span], free, gpus)


def closest(domains: Sequence[Ints], free: Ints, gpus: int) -> list[tuple[int, int]]:
    """The same across as few levels as there is room for."""
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
    while gpus:
        holds = (room >= gpus).nonzero()[0]
        group = int(holds[np.argmin(room[holds])]) if len(holds) else int(np.argmax(room))
        part = min(gpus, int(room[group]))
        found += _inside(domains[:-1], np.where(groups == group, free, 0), part)
        gpus -= part
        room[group] = 0
    return found


def _fullest(free: Ints, gpus: int) -> list[tuple[int, int]]:
    """Nodes with most free GPUs, all of them, and for the rest the one that has just enough."""
    found: list[tuple[int, int]] = []
    for size in range(int(free.max()), 0, -1):
        nodes = (free == size).nonzero()[0]
        whole = nodes[: gpus // size].tolist()
        found += [(node, size) for node in whole]
        gpus -= size * len(whole)
        if gpus and len(nodes) > len(whole):  # less than `size` is left
            rest = free.copy()
            rest[[node for node, _ in found]] = 0
            fits = (rest >= gpus).nonzero()[0]
            found.append((int(fits[np.argmin(rest[fits])]), gpus))
            gpus = 0
        if not gpus:
            break
    return found
