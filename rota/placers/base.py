"""What placers share. Requests of equal size are served together, so that a full cluster is placed in a few array passes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.close import closest


@dataclass(frozen=True)
class ByNode:
    """A placer that fills nodes in its own order. Larger gangs choose first, and equal ones by rank."""

    sticky: bool = True
    """Whether a running job keeps its GPUs. If false, all jobs are placed again at each decision."""

    def keeps_together(self, request: PlacementRequest) -> bool:
        return True

    def nodes_for(self, view: PlacementView, free: Ints, nodes: Ints, gpus: int) -> tuple[Ints, Ints]:
        """Return which of these nodes, which have room for `gpus`, to use, in order, and how many such gangs each takes in a
        row."""
        raise TypeError(f"{type(self).__name__} must implement nodes_for")

    def place(self, view: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        placed: dict[int, Ints] = {}
        rest = [i for i, request in enumerate(requests) if not stays(view, request, i, placed)]
        rest = _without_choice(view, requests, rest, placed)
        if rest:
            # Nodes with enough idle GPUs come first: no job should wait for a victim while other GPUs are idle.
            idle, free = node_free(view, idle_only=True), node_free(view)
            for batch in _batches(requests, rest):
                later = self._place_batch(view, idle, free, requests, batch, placed)
                later = self._place_batch(view, free, idle, requests, later, placed) if later else later
                for i in later:  # larger than the room of any node: the fewest nodes, the emptiest first
                    placed[i] = _span(view, free, idle, requests[i].pool, requests[i].gpus)
        return [placed[i] for i in range(len(requests))]

    def _place_batch(
        self,
        view: PlacementView,
        room: Ints,
        other: Ints,
        requests: list[PlacementRequest],
        batch: list[int],
        placed: dict[int, Ints],
    ) -> list[int]:
        """Place requests of the same pool and size, by the room given. Return those that found none."""
        gpus, pool = requests[batch[0]].gpus, requests[batch[0]].pool
        while batch:
            nodes = ((room >= gpus) & (view.cluster.node_pool == pool)).nonzero()[0]
            if not len(nodes):
                break
            order, gangs = self.nodes_for(view, room, nodes, gpus)
            if gangs[0] < len(batch):
                gangs = np.minimum(gangs, np.maximum(len(batch) - (gangs.cumsum() - gangs), 0))
                order, gangs = order[gangs > 0], gangs[gangs > 0]
                counts = (gangs * gpus).tolist()
            else:
                order, counts = order[:1], [len(batch) * gpus]
            found = take(view, order.tolist(), counts)
            mark_taken(view, found, room, other)
            gangs_found = found.reshape(-1, gpus)
            turn, batch = batch[: len(gangs_found)], batch[len(gangs_found) :]
            placed.update(zip(turn, gangs_found, strict=True))
        return batch


def _without_choice(view: PlacementView, requests: list[PlacementRequest], rest: list[int], placed: dict[int, Ints]) -> list[int]:
    """Place requests whose pool is a single node, where there is no choice. Return the other requests."""
    others: list[int] = []
    groups: dict[int, list[int]] = {}
    for i in rest:
        pool = requests[i].pool
        (groups.setdefault(pool, []) if len(view.cluster.pool_nodes[pool]) == 1 else others).append(i)
    for pool, group in groups.items():
        found = take(view, view.cluster.pool_nodes[pool], [sum(requests[i].gpus for i in group)])
        start = 0
        for i in group:
            placed[i] = found[start : start + requests[i].gpus]
            start += requests[i].gpus
    return others


def mark_taken(view: PlacementView, gpus: Ints, *rooms: Ints) -> None:
    """Subtract GPUs that are now used from the room of their nodes."""
    nodes = view.cluster.gpu_node[gpus]
    for room in rooms:
        np.subtract.at(room, nodes, 1)
    for room in rooms:
        np.maximum(room, 0, out=room)


def stays(view: PlacementView, request: PlacementRequest, index: int, placed: dict[int, Ints]) -> bool:
    """Keep a job where it is if moving has a cost, the GPUs are available and they are close together. Return whether it
    stays."""
    current = request.current
    if current is None or request.move_seconds <= 0 or len(current) != request.gpus:
        return False
    if not view.available[current].all() or (view.cluster.gpu_pool[current] != request.pool).any():
        return False
    nodes = view.cluster.gpu_node[current]
    if nodes[0] != nodes[-1] and request.gpus <= view.cluster.node_gpus[view.cluster.node_pool == request.pool].max():
        return False
    view.available[current] = False
    placed[index] = current
    return True


def _batches(requests: list[PlacementRequest], indexes: list[int]) -> Iterator[list[int]]:
    """Yield requests of the same pool and size together, largest first."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i in indexes:
        groups.setdefault((requests[i].pool, requests[i].gpus), []).append(i)
    for key in sorted(groups, key=lambda key: (key[0], -key[1])):
        yield groups[key]


def node_free(view: PlacementView, idle_only: bool = False) -> Ints:
    """Return how many GPUs of each node may be used."""
    mask = view.available & view.idle if idle_only else view.available
    return view.cluster.count_by_node(mask)


def take(view: PlacementView, nodes: list[int], counts: list[int]) -> Ints:
    """Take this many available GPUs of each node, node by node: idle ones first, then the lowest numbers, sorted within a
    node."""
    first = view.cluster.node_first
    parts = []
    for node, count in zip(nodes, counts, strict=True):
        start, end = first.item(node), first.item(node + 1)
        found = view.available[start:end].nonzero()[0] + start
        if len(found) > count:
            busy = ~view.idle[found]
            some_busy = np.count_nonzero(busy)
            # Without busy ones they are in order. A mere view of them would keep the whole array in memory.
            found = np.sort(found[busy.argsort(kind="stable")[:count]]) if some_busy else found[:count].copy()
        parts.append(found)
    taken: Ints = parts[0] if len(parts) == 1 else np.concatenate(parts)
    view.available[taken] = False
    return taken


def _span(view: PlacementView, free: Ints, idle: Ints, pool: int, gpus: int) -> Ints:
    """Take GPUs across as few levels of locality as possible, and within a rack from the emptiest nodes."""
    here = np.where(view.cluster.node_pool == pool, free, 0)
    if len(view.cluster.domains) > 1:
        parts = closest(view.cluster.domains, here, gpus)
        found = np.sort(take(view, [node for node, _ in parts], [count for _, count in parts]))
    else:
        nodes = here.nonzero()[0]
        nodes = nodes[np.argsort(-here[nodes], kind="stable")]
        counts = np.minimum(here[nodes], np.maximum(gpus - (here[nodes].cumsum() - here[nodes]), 0))
        nodes, counts = nodes[counts > 0], counts[counts > 0]
        found = np.sort(take(view, nodes.tolist(), counts.tolist()))
    mark_taken(view, found, free, idle)
    return found
