"""What the placers share: requests of equal size served together, so that a full cluster is placed in a few array passes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rota.model.floor import Floor, Request
from rota.model.units import Ints


@dataclass(frozen=True)
class ByNode:
    """A placer that fills nodes in an order of its own. Larger gangs choose first; equal ones by rank."""

    sticky: bool = True
    """A running job keeps its GPUs; false: everything is placed anew at each decision."""

    def nodes_for(self, floor: Floor, free: Ints, nodes: Ints, gpus: int) -> tuple[Ints, Ints]:
        """Among nodes with room for `gpus`: which to use, in order, and how many such gangs each takes at a stretch."""
        raise TypeError(f"{type(self).__name__} does not say which nodes it prefers")

    def place(self, floor: Floor, requests: list[Request]) -> list[Ints]:
        placed: dict[int, Ints] = {}
        if len(requests) == 1 and not requests[0].hint:
            self._place_batch(floor, node_free(floor), requests, [0], placed)
            return [placed[0]]
        rest = [i for i, request in enumerate(requests) if not _granted_hint(floor, request, i, placed)]
        free = node_free(floor)
        for batch in _batches(requests, rest):
            self._place_batch(floor, free, requests, batch, placed)
        return [placed[i] for i in range(len(requests))]

    def _place_batch(self, floor: Floor, free: Ints, requests: list[Request], batch: list[int], placed: dict[int, Ints]) -> None:
        gpus, pool = requests[batch[0]].gpus, requests[batch[0]].pool
        while batch:
            nodes = ((free >= gpus) & (floor.cluster.node_pool == pool)).nonzero()[0]
            if not len(nodes):
                break
            order, room = self.nodes_for(floor, free, nodes, gpus)
            if room[0] < len(batch):
                room = np.minimum(room, np.maximum(len(batch) - (room.cumsum() - room), 0))
                order, room = order[room > 0], room[room > 0]
                counts = (room * gpus).tolist()
            else:
                order, counts = order[:1], [len(batch) * gpus]
            free[order] -= counts
            found = take(floor, order.tolist(), counts).reshape(-1, gpus)
            turn, batch = batch[: len(found)], batch[len(found) :]
            placed.update(zip(turn, found, strict=True))
        for i in batch:  # wider than any node has room for: the fewest nodes, the emptiest first
            placed[i] = _span(floor, free, pool, gpus)


def _granted_hint(floor: Floor, request: Request, index: int, placed: dict[int, Ints]) -> bool:
    """Follow the allocation's wish where it can be had."""
    if len(request.hint) != request.gpus:
        return False
    wish = np.sort(np.array(request.hint, dtype=np.int64))
    if not floor.available[wish].all() or (floor.cluster.gpu_pool[wish] != request.pool).any():
        return False
    floor.available[wish] = False
    placed[index] = wish
    return True


def _batches(requests: list[Request], indexes: list[int]) -> Iterator[list[int]]:
    """Runs of requests alike in pool and size, largest first."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i in indexes:
        groups.setdefault((requests[i].pool, requests[i].gpus), []).append(i)
    for key in sorted(groups, key=lambda key: (key[0], -key[1])):
        yield groups[key]


def node_free(floor: Floor) -> Ints:
    """GPUs that may be handed out on each node."""
    counts: Ints = np.add.reduceat(floor.available, floor.cluster.node_first[:-1], dtype=np.int64)
    return counts


def take(floor: Floor, nodes: list[int], counts: list[int]) -> Ints:
    """So many available GPUs of each node, node by node; idle ones first, then lowest numbers, sorted inside a node."""
    first = floor.cluster.node_first
    parts = []
    for node, count in zip(nodes, counts, strict=True):
        start, end = first[node], first[node + 1]
        found = floor.available[start:end].nonzero()[0] + start
        if len(found) > count:
            busy = ~floor.idle[found]
            if busy.any():
                found = found[busy.argsort(kind="stable")]
            found = np.sort(found[:count])
        parts.append(found)
    taken: Ints = parts[0] if len(parts) == 1 else np.concatenate(parts)
    floor.available[taken] = False
    return taken


def _span(floor: Floor, free: Ints, pool: int, gpus: int) -> Ints:
    nodes = ((free > 0) & (floor.cluster.node_pool == pool)).nonzero()[0]
    nodes = nodes[np.argsort(-free[nodes], kind="stable")]
    counts = np.minimum(free[nodes], np.maximum(gpus - (free[nodes].cumsum() - free[nodes]), 0))
    nodes, counts = nodes[counts > 0], counts[counts > 0]
    free[nodes] -= counts
    return np.sort(take(floor, nodes.tolist(), counts.tolist()))
