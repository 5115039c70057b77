"""Skew (Tiresias, NSDI'19): keep only those jobs together that need it. A model that is mostly one large tensor sends it in
one burst, which slows it down across nodes. A model of many equal tensors hardly slows down, and may take the GPUs that others
leave."""

from dataclasses import dataclass

import numpy as np

from rota.errors import OptionError
from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.base import mark_taken, node_free, stays, take
from rota.placers.packed import Packed

LIMIT = 0.4
"""Lies between skewed models (VGG and AlexNet, above 0.6) and others (ResNet and Inception, below 0.2)."""


@dataclass(frozen=True)
class Skew(Packed):
    """Best fit on one node for skewed and unknown models. The others fill up nodes that are in use."""

    limit: float = LIMIT
    """Size of the largest tensor above which a model is skewed, as a fraction of the model; 0 for all models, 1 for none."""

    def __post_init__(self) -> None:
        if not 0 <= self.limit <= 1:
            raise OptionError("must be from 0 to 1.", field="limit", value=self.limit, hint=f"limit={LIMIT}")

    def keeps_together(self, request: PlacementRequest) -> bool:
        return request.skew is None or request.skew > self.limit

    def place(self, view: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        placed: dict[int, Ints] = {}
        loose = [number for number, request in enumerate(requests) if not self.keeps_together(request)]
        rest = [number for number in loose if not stays(view, requests[number], number, placed)]
        apart = set(loose)
        close = [number for number in range(len(requests)) if number not in apart]
        placed.update(zip(close, super().place(view, [requests[number] for number in close]), strict=True))
        if rest:
            idle, free = node_free(view, idle_only=True), node_free(view)
            for number in sorted(rest, key=lambda number: -requests[number].gpus):
                if requests[number].gpus > 1:
                    placed[number] = self._anywhere(view, idle, free, requests[number])
            _deal(view, requests, [number for number in rest if requests[number].gpus == 1], placed)
        return [placed[number] for number in range(len(requests))]

    def _anywhere(self, view: PlacementView, idle: Ints, free: Ints, request: PlacementRequest) -> Ints:
        """Take GPUs, idle ones first: on a node that is in use if one has room, or else the rest of several nodes. Empty nodes
        are left to jobs that need them whole."""
        found: list[Ints] = []
        left = request.gpus
        for room in (idle, free):
            nodes = ((room > 0) & (view.cluster.node_pool == request.pool)).nonzero()[0]
            nodes = nodes[np.argsort(room[nodes], kind="stable")]
            fits = nodes[(room[nodes] >= left) & (room[nodes] < view.cluster.node_gpus[nodes])]
            if left == request.gpus and len(fits):
                nodes = fits[:1]
            counts = np.minimum(room[nodes], np.maximum(left - (room[nodes].cumsum() - room[nodes]), 0))
            if not counts.any():
                continue
            taken = take(view, nodes[counts > 0].tolist(), counts[counts > 0].tolist())
            mark_taken(view, taken, idle, free)
            found.append(taken)
            left -= len(taken)
        return np.sort(np.concatenate(found))


def _deal(view: PlacementView, requests: list[PlacementRequest], singles: list[int], placed: dict[int, Ints]) -> None:
    """Place jobs of one GPU all at once: idle GPUs first, then those of the fullest nodes."""
    for pool in {requests[number].pool for number in singles}:
        mine = [number for number in singles if requests[number].pool == pool]
        free = (view.available & (view.cluster.gpu_pool == pool)).nonzero()[0]
        node = view.cluster.gpu_node[free]
        order = free[np.lexsort((free, node_free(view)[node], ~view.idle[free]))]
        placed.update(zip(mine, order[: len(mine)].reshape(-1, 1), strict=True))
        view.available[order[: len(mine)]] = False
