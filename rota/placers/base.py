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
            for node, count in zip(order.tolist(), room.tolist(), strict=True):
                turn, batch = batch[:count], batch[count:]
                found = take_in_node(floor, node, gpus * len(turn))
                free[node] -= gpus * len(turn)
                for n, i in enumerate(turn):
                    placed[i] = found[n * gpus : (n + 1) * gpus]
                if not batch:
                    return
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


def take_in_node(floor: Floor, node: int, gpus: int) -> Ints:
    """That many available GPUs of a node, idle ones first, lowest numbers first inside both."""
    first, end = floor.cluster.node_first[node], floor.cluster.node_first[node + 1]
    found: Ints = floor.available[first:end].nonzero()[0] + first
    if len(found) > gpus:
        busy = ~floor.idle[found]
        if busy.any():
            found = found[np.argsort(busy, kind="stable")]
        found = np.sort(found[:gpus])
    floor.available[found] = False
    return found


def _span(floor: Floor, free: Ints, pool: int, gpus: int) -> Ints:
    nodes = np.flatnonzero((free > 0) & (floor.cluster.node_pool == pool))
    parts, left = [], gpus
    for node in nodes[np.argsort(-free[nodes], kind="stable")].tolist():
        count = min(left, int(free[node]))
        parts.append(take_in_node(floor, node, count))
        free[node] -= count
        left -= count
        if not left:
            break
    return np.sort(np.concatenate(parts))
