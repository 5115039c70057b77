"""Random: any free GPUs of the right type, drawn from the seed and the decision number. A baseline."""

from dataclasses import dataclass

import numpy as np

from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints


@dataclass(frozen=True)
class Random:
    """Draws uniformly without replacement, in rank order."""

    sticky: bool = True
    """Whether a running job keeps its GPUs. If false, all jobs are placed again at each decision."""

    def keeps_together(self, request: PlacementRequest) -> bool:
        return False

    def place(self, view: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        rng = view.rng()
        free = {
            pool: rng.permutation(np.flatnonzero(view.available & (view.cluster.gpu_pool == pool)))
            for pool in {request.pool for request in requests}
        }
        placed = []
        for request in requests:
            drawn, free[request.pool] = free[request.pool][: request.gpus], free[request.pool][request.gpus :]
            placed.append(np.sort(drawn))
        return placed
