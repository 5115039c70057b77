"""Skew (Tiresias, NSDI'19): keep together only those who need it. A model that is mostly one large tensor sends it in one burst,
which a network between nodes takes badly; one of many equal tensors hardly notices, and may take the GPUs that others leave."""

from dataclasses import dataclass

import numpy as np

from rota.errors import OptionError
from rota.model.floor import Floor, Request
from rota.model.units import Ints
from rota.placers.base import book, granted_wish, node_free, take
from rota.placers.packed import Packed

LIMIT = 0.4
"""Between what is skewed (VGG and AlexNet, above 0.6) and what is not (ResNet, Inception, below 0.2)."""


@dataclass(frozen=True)
class Skew(Packed):
    """Best fit on one node for skewed models and for those nobody knows; the others fill up the fullest nodes."""

    limit: float = LIMIT
    """A model is skewed if its largest tensor is more than this part of it; 0: all are, 1: none is."""

    def __post_init__(self) -> None:
        if not 0 <= self.limit <= 1:
            raise OptionError("must be from 0 to 1.", field="limit", value=self.limit, hint=f"limit={LIMIT}")

    def keeps_together(self, request: Request) -> bool:
        return request.skew is None or request.skew > self.limit

    def place(self, floor: Floor, requests: list[Request]) -> list[Ints]:
        placed: dict[int, Ints] = {}
        loose = [number for number, request in enumerate(requests) if not self.keeps_together(request)]
        rest = [number for number in loose if not granted_wish(floor, requests[number], number, placed)]
        close = [number for number in range(len(requests)) if number not in set(loose)]
        placed.update(zip(close, super().place(floor, [requests[number] for number in close]), strict=True))
        if rest:
            idle, free = node_free(floor, idle_only=True), node_free(floor)
            for number in rest:
                placed[number] = self._anywhere(floor, idle, free, requests[number])
        return [placed[number] for number in range(len(requests))]

    def _anywhere(self, floor: Floor, idle: Ints, free: Ints, request: Request) -> Ints:
        """Idle GPUs first, and what is left of the fullest nodes: whole nodes stay whole for those who need them."""
        found: list[Ints] = []
        left = request.gpus
        for room in (idle, free):
            nodes = ((room > 0) & (floor.cluster.node_pool == request.pool)).nonzero()[0]
            nodes = nodes[np.argsort(room[nodes], kind="stable")]
            counts = np.minimum(room[nodes], np.maximum(left - (room[nodes].cumsum() - room[nodes]), 0))
            if not counts.any():
                continue
            taken = take(floor, nodes[counts > 0].tolist(), counts[counts > 0].tolist())
            book(floor, taken, idle, free)
            found.append(taken)
            left -= len(taken)
        return np.sort(np.concatenate(found))
