"""Packed: the fullest node that has room, so that large gangs find whole nodes; across nodes only if none has room."""

from dataclasses import dataclass

import numpy as np

from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.base import ByNode, node_free


@dataclass(frozen=True)
class Packed(ByNode):
    """Best fit: fewest free GPUs first, lowest node number among equals."""

    by_size: bool = True
    """Larger gangs are placed first, and where GPUs are idle already; if not, jobs go one by one in the policy's order."""

    def place(self, floor: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        if self.by_size:
            return super().place(floor, requests)
        return [self._one(floor, request) for request in requests]

    def _one(self, floor: PlacementView, request: PlacementRequest) -> Ints:
        """The node with the fewest free GPUs that has enough; where none has, the emptiest ones, as many as it takes."""
        free = np.where(floor.cluster.node_pool == request.pool, node_free(floor), 0)
        fits = (free >= request.gpus).nonzero()[0]
        nodes = fits[[np.argmin(free[fits])]] if len(fits) else np.argsort(-free, kind="stable")
        found, left = [], request.gpus
        for node in nodes.tolist():
            first, end = floor.cluster.node_first[node], floor.cluster.node_first[node + 1]
            here = (floor.available[first:end].nonzero()[0] + first)[:left]
            found.append(here)
            left -= len(here)
            if not left:
                break
        gpus = np.sort(np.concatenate(found))
        floor.available[gpus] = False
        return gpus

    def nodes_for(self, floor: PlacementView, free: Ints, nodes: Ints, gpus: int) -> tuple[Ints, Ints]:
        order = nodes[np.argsort(free[nodes], kind="stable")]
        return order, free[order] // gpus
