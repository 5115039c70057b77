"""What the placers share: requests of equal size served together, so that a full cluster is placed in a few array passes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.close import closest


@dataclass(frozen=True)
class ByNode:
    """A placer that fills nodes in an order of its own. Larger gangs choose first; equal ones by rank."""

    sticky: bool = True
    """A running job keeps its GPUs; false: everything is placed anew at each decision."""

    def keeps_together(self, request: PlacementRequest) -> bool:
        return True

    def nodes_for(self, floor: PlacementView, free: Ints, nodes: Ints, gpus: int) -> tuple[Ints, Ints]:
        """Among nodes with room for `gpus`: which to use, in order, and how many such gangs each takes at a stretch."""
        raise TypeError(f"{type(self).__name__} does not say which nodes it prefers")

    def place(self, floor: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        placed: dict[int, Ints] = {}
        rest = [i for i, request in enumerate(requests) if not stays(floor, request, i, placed)]
        rest = _without_choice(floor, requests, rest, placed)
        if rest:
            # Nodes with enough idle GPUs come first: nobody should wait for a victim while others stand idle.
            idle, free = node_free(floor, idle_only=True), node_free(floor)
            for batch in _batches(requests, rest):
                later = self._place_batch(floor, idle, free, requests, batch, placed)
                later = self._place_batch(floor, free, idle, requests, later, placed) if later else later
                for i in later:  # wider than any node has room for: the fewest nodes, the emptiest first
                    placed[i] = _span(floor, free, idle, requests[i].pool, requests[i].gpus)
        return [placed[i] for i in range(len(requests))]

    def _place_batch(
        self,
        floor: PlacementView,
        room: Ints,
        other: Ints,
        requests: list[PlacementRequest],
        batch: list[int],
        placed: dict[int, Ints],
    ) -> list[int]:
        """Place requests alike in pool and size by the room given; returns those that found none."""
        gpus, pool = requests[batch[0]].gpus, requests[batch[0]].pool
        while batch:
            nodes = ((room >= gpus) & (floor.cluster.node_pool == pool)).nonzero()[0]
            if not len(nodes):
                break
            order, gangs = self.nodes_for(floor, room, nodes, gpus)
            if gangs[0] < len(batch):
                gangs = np.minimum(gangs, np.maximum(len(batch) - (gangs.cumsum() - gangs), 0))
                order, gangs = order[gangs > 0], gangs[gangs > 0]
                counts = (gangs * gpus).tolist()
            else:
                order, counts = order[:1], [len(batch) * gpus]
            found = take(floor, order.tolist(), counts)
            book(floor, found, room, other)
            gangs_found = found.reshape(-1, gpus)
            turn, batch = batch[: len(gangs_found)], batch[len(gangs_found) :]
            placed.update(zip(turn, gangs_found, strict=True))
        return batch


def _without_choice(
    floor: PlacementView, requests: list[PlacementRequest], rest: list[int], placed: dict[int, Ints]
) -> list[int]:
    """Place those whose pool is one node: nothing is to be chosen there. Returns the others."""
    others: list[int] = []
    groups: dict[int, list[int]] = {}
    for i in rest:
        pool = requests[i].pool
        (groups.setdefault(pool, []) if len(floor.cluster.pool_nodes[pool]) == 1 else others).append(i)
    for pool, group in groups.items():
        found = take(floor, floor.cluster.pool_nodes[pool], [sum(requests[i].gpus for i in group)])
        start = 0
        for i in group:
            placed[i] = found[start : start + requests[i].gpus]
            start += requests[i].gpus
    return others


def book(floor: PlacementView, gpus: Ints, *rooms: Ints) -> None:
    """Count handed-out GPUs off what the nodes had left."""
    nodes = floor.cluster.gpu_node[gpus]
    for room in rooms:
        np.subtract.at(room, nodes, 1)
    for room in rooms:
        np.maximum(room, 0, out=room)


def stays(floor: PlacementView, request: PlacementRequest, index: int, placed: dict[int, Ints]) -> bool:
    """A job that pays for moving stays where it is, if it may and has its GPUs together there."""
    current = request.current
    if current is None or request.move_seconds <= 0 or len(current) != request.gpus:
        return False
    if not floor.available[current].all() or (floor.cluster.gpu_pool[current] != request.pool).any():
        return False
    nodes = floor.cluster.gpu_node[current]
    if nodes[0] != nodes[-1] and request.gpus <= floor.cluster.node_gpus[floor.cluster.node_pool == request.pool].max():
        return False
    floor.available[current] = False
    placed[index] = current
    return True


def _batches(requests: list[PlacementRequest], indexes: list[int]) -> Iterator[list[int]]:
    """Runs of requests alike in pool and size, largest first."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i in indexes:
        groups.setdefault((requests[i].pool, requests[i].gpus), []).append(i)
    for key in sorted(groups, key=lambda key: (key[0], -key[1])):
        yield groups[key]


def node_free(floor: PlacementView, idle_only: bool = False) -> Ints:
    """GPUs that may be handed out on each node."""
    mask = floor.available & floor.idle if idle_only else floor.available
    return floor.cluster.count_by_node(mask)


def take(floor: PlacementView, nodes: list[int], counts: list[int]) -> Ints:
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


def _span(floor: PlacementView, free: Ints, idle: Ints, pool: int, gpus: int) -> Ints:
    """Across as few levels of locality as there is room for; inside a rack, the emptiest nodes."""
    here = np.where(floor.cluster.node_pool == pool, free, 0)
    if len(floor.cluster.domains) > 1:
        parts = closest(floor.cluster.domains, here, gpus)
        found = np.sort(take(floor, [node for node, _ in parts], [count for _, count in parts]))
    else:
        nodes = here.nonzero()[0]
        nodes = nodes[np.argsort(-here[nodes], kind="stable")]
        counts = np.minimum(here[nodes], np.maximum(gpus - (here[nodes].cumsum() - here[nodes]), 0))
        nodes, counts = nodes[counts > 0], counts[counts > 0]
        found = np.sort(take(floor, nodes.tolist(), counts.tolist()))
    book(floor, found, free, idle)
    return found
