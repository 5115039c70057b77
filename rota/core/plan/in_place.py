"""Another size in the same place: GPUs with which a running job can grow or shrink without a stop."""

import numpy as np

from rota.core.state.records import same_gpus
from rota.core.state.state import State
from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints


def in_place(state: State, floor: PlacementView, request: PlacementRequest) -> Ints | None:
    """GPUs of the nodes that a job has, if it can change its size while it runs: some of its own, at least one on each node, or
    all of its own and more. None: there are none such."""
    attempt = state.jobs.attempts.get(request.job)
    if attempt is None or attempt.parked or not state.jobs.specs[request.job].can_resize:
        return None
    mine, cluster = attempt.gpus, state.machines.cluster
    if request.current is None or not same_gpus(mine, request.current) or not floor.available[mine].all():
        return None
    if cluster.gpu_pool[mine[0]] != request.pool:
        return None
    if request.gpus <= len(mine):
        nodes = cluster.gpu_node[mine]
        first = np.unique(nodes, return_index=True)[1]
        rest = np.setdiff1d(np.arange(len(mine)), first)
        spare = request.gpus - len(first)
        return np.sort(mine[np.concatenate((first, rest[:spare]))]) if spare >= 0 else None
    free = floor.available & np.isin(cluster.gpu_node, attempt.parts)
    free[mine] = False
    more = free.nonzero()[0][: request.gpus - len(mine)]
    return np.sort(np.concatenate((mine, more))) if len(more) == request.gpus - len(mine) else None
