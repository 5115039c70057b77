"""Skew (Tiresias, NSDI'19): keep together only those who need it. A model that is mostly one large tensor sends it in one burst,
which a network between nodes takes badly; one of many equal tensors hardly notices, and may take the GPUs that others leave."""

from dataclasses import dataclass

import numpy as np

from rota.errors import OptionError
from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.base import book, node_free, stays, take
from rota.placers.packed import Packed

LIMIT = 0.4
"""Between what is skewed (VGG and AlexNet, above 0.6) and what is not (ResNet, Inception, below 0.2)."""


@dataclass(frozen=True)
class Skew(Packed):
    """Best fit on one node for skewed models and for those nobody knows; the others fill up nodes that are in use."""

    limit: float = LIMIT
    """A model is skewed if its largest tensor is more than this part of it; 0: all are, 1: none is."""

    def __post_init__(self) -> None:
        if not 0 <= self.limit <= 1:
            raise OptionError("must be from 0 to 1.", field="limit", value=self.limit, hint=f"limit={LIMIT}")

    def keeps_together(self, request: PlacementRequest) -> bool:
        return request.skew is None or request.skew > self.limit

    def place(self, floor: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        placed: dict[int, Ints] = {}
        loose = [number for number, request in enumerate(requests) if not self.keeps_together(request)]
        rest = [number for number in loose if not stays(floor, requests[number], number, placed)]
        apart = set(loose)
        close = [number for number in range(len(requests)) if number not in apart]
        placed.update(zip(close, super().place(floor, [requests[number] for number in close]), strict=True))
        if rest:
            idle, free = node_free(floor, idle_only=True), node_free(floor)
            for number in sorted(rest, key=lambda number: -requests[number].gpus):
                if requests[number].gpus > 1:
                    placed[number] = self._anywhere(floor, idle, free, requests[number])
            _deal(floor, requests, [number for number in rest if requests[number].gpus == 1], placed)
        return [placed[number] for number in range(len(requests))]

    def _anywhere(self, floor: PlacementView, idle: Ints, free: Ints, request: PlacementRequest) -> Ints:
        """Idle GPUs first. On a node that others use if one has room, else on what is left of several: whole nodes stay whole for
        those who need them."""
        found: list[Ints] = []
        left = request.gpus
        for room in (idle, free):
            nodes = ((room > 0) & (floor.cluster.node_pool == request.pool)).nonzero()[0]
            nodes = nodes[np.argsort(room[nodes], kind="stable")]
            fits = nodes[(room[nodes] >= left) & (room[nodes] < floor.cluster.node_gpus[nodes])]
            if left == request.gpus and len(fits):
                nodes = fits[:1]
            counts = np.minimum(room[nodes], np.maximum(left - (room[nodes].cumsum() - room[nodes]), 0))
            if not counts.any():
                continue
            taken = take(floor, nodes[counts > 0].tolist(), counts[counts > 0].tolist())
            book(floor, taken, idle, free)
            found.append(taken)
            left -= len(taken)
        return np.sort(np.concatenate(found))


def _deal(floor: PlacementView, requests: list[PlacementRequest], singles: list[int], placed: dict[int, Ints]) -> None:
    """Single GPUs, all at once: idle ones first, those of the fullest nodes."""
    for pool in {requests[number].pool for number in singles}:
        mine = [number for number in singles if requests[number].pool == pool]
        free = (floor.available & (floor.cluster.gpu_pool == pool)).nonzero()[0]
        node = floor.cluster.gpu_node[free]
        order = free[np.lexsort((free, node_free(floor)[node], ~floor.idle[free]))]
        placed.update(zip(mine, order[: len(mine)].reshape(-1, 1), strict=True))
        floor.available[order[: len(mine)]] = False
