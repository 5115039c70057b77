"""Packed: the fullest node that has room, so that large gangs find whole nodes. Jobs span nodes only if no node has room."""

from dataclasses import dataclass

import numpy as np

from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.base import ByNode, node_free


@dataclass(frozen=True)
class Packed(ByNode):
    """Best fit: the fewest free GPUs first, the lowest node number among equals."""

    by_size: bool = True
    """Whether larger gangs are placed first, and on idle GPUs first. If false, jobs are placed one by one in the policy's
    order."""

    def place(self, view: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        if self.by_size:
            return super().place(view, requests)
        return [self._one(view, request) for request in requests]

    def _one(self, view: PlacementView, request: PlacementRequest) -> Ints:
        """Take GPUs of the node with the fewest free GPUs that has enough, or else of the emptiest nodes, as many as
        necessary."""
        free = np.where(view.cluster.node_pool == request.pool, node_free(view), 0)
        fits = (free >= request.gpus).nonzero()[0]
        nodes = fits[[np.argmin(free[fits])]] if len(fits) else np.argsort(-free, kind="stable")
        found, left = [], request.gpus
        for node in nodes.tolist():
            first, end = view.cluster.node_first[node], view.cluster.node_first[node + 1]
            here = (view.available[first:end].nonzero()[0] + first)[:left]
            found.append(here)
            left -= len(here)
            if not left:
                break
        gpus = np.sort(np.concatenate(found))
        view.available[gpus] = False
        return gpus

    def nodes_for(self, view: PlacementView, free: Ints, nodes: Ints, gpus: int) -> tuple[Ints, Ints]:
        order = nodes[np.argsort(free[nodes], kind="stable")]
        return order, free[order] // gpus
