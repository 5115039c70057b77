"""GPUs are chosen here: those that the policy suggests, those that a job has, those with which it resizes in place, or the
placer's."""

from collections.abc import Mapping, Sequence

import numpy as np

from rota.core.state.records import same_gpus
from rota.core.state.state import State
from rota.model.placement_view import PlacementRequest, PlacementView, Placer
from rota.model.units import Ints

Unit = tuple[tuple[int, int], ...]
"""(job, option) of each member. A unit is a granted job, or two that share GPUs; it has one placement."""


def choose_for_units(
    state: State, placer: Placer, view: PlacementView, hints: Mapping[int, tuple[int, ...]], units: dict[int, Unit]
) -> list[tuple[Unit, Ints]]:
    """Choose GPUs for each unit, by the position of a member. With a sticky placer, a member keeps suitable GPUs and its partner
    joins it. A member that runs comes before one that was only going to start."""
    chosen: dict[int, Ints] = {}
    if placer.sticky:
        for running in (True, False):
            for at, unit in units.items():
                if at not in chosen and (gpus := _current_gpus(state, view, unit, running)) is not None:
                    chosen[at] = gpus
    rest = [at for at in units if at not in chosen]
    requests = [_request(state, units[at]) for at in rest]
    chosen.update(zip(rest, choose_for_jobs(state, placer, view, requests, [hints.get(at, ()) for at in rest]), strict=True))
    return [(unit, chosen[at]) for at, unit in units.items()]


def _current_gpus(state: State, view: PlacementView, unit: Unit, running: bool) -> Ints | None:
    """GPUs of a member that suit the unit and are still available. None: there are none."""
    pool, need = _wants(state, unit)
    for job, _ in unit:
        gpus, attempt = state.jobs.desired.get(job), state.jobs.attempts.get(job)
        if gpus is None or (running and (attempt is None or attempt.parked or not same_gpus(gpus, attempt.gpus))):
            continue
        if len(gpus) == need and state.nodes.cluster.gpu_pool[gpus[0]] == pool and view.available[gpus].all():
            view.available[gpus] = False
            return gpus
    return None


def _wants(state: State, unit: Unit) -> tuple[int, int]:
    option = unit[0][1]
    return int(state.beliefs.options.pool[option]), int(state.beliefs.options.gpus[option])


def _request(state: State, unit: Unit) -> PlacementRequest:
    """Ask for GPUs for a unit. Its current GPUs are those of its first member with GPUs; its price is the higher of the two."""
    pool, gpus = _wants(state, unit)
    asked = [request_for(state, job, pool, gpus, state.jobs.table.move_seconds.item(state.jobs.row[job])) for job, _ in unit]
    found = next((request for request in asked if request.current is not None), asked[0])
    found.move_seconds = max(request.move_seconds for request in asked)
    return found


def request_for(state: State, job: int, pool: int, gpus: int, price: float) -> PlacementRequest:
    """Ask for GPUs for a job. A parked job is where it is parked, and never moves for free: it would need a checkpoint first."""
    attempt = state.jobs.attempts.get(job)
    traits = state.placement_traits(job, pool, gpus)
    if attempt is not None and attempt.parked:
        return PlacementRequest(job, pool, gpus, max(price, 1.0), attempt.gpus, True, *traits)
    return PlacementRequest(job, pool, gpus, price, state.jobs.desired.get(job), False, *traits)


def choose_for_jobs(
    state: State, placer: Placer, view: PlacementView, requests: list[PlacementRequest], hints: Sequence[tuple[int, ...]]
) -> list[Ints]:
    """Choose GPUs for each request: those that the policy suggests if they are available; with a sticky placer, those with which
    a job resizes in place; else those that the placer picks."""
    placed: dict[int, Ints] = {}
    pool = state.nodes.cluster.gpu_pool
    for number, hint in enumerate(hints):
        # A job may have been granted another option than the one for which the policy suggests GPUs.
        suits = bool(hint) and len(hint) == requests[number].gpus and pool.item(hint[0]) == requests[number].pool
        if suits and view.available[list(hint)].all():
            placed[number] = np.array(sorted(hint), dtype=np.int64)
            view.available[placed[number]] = False
    if state.beliefs.options.elastic and placer.sticky:
        for number, request in enumerate(requests):
            gpus = resized_in_place(state, view, request) if number not in placed else None
            if gpus is not None:
                placed[number] = gpus
                view.available[gpus] = False
    if not placed:
        return placer.place(view, requests)
    rest = [number for number in range(len(requests)) if number not in placed]
    placed.update(zip(rest, placer.place(view, [requests[number] for number in rest]), strict=True))
    return [placed[number] for number in range(len(requests))]


def resized_in_place(state: State, view: PlacementView, request: PlacementRequest) -> Ints | None:
    """GPUs with which a running job can grow or shrink without a stop: some of its own, at least one on each node, or all of its
    own and more on the same nodes. None: there are none."""
    attempt = state.jobs.attempts.get(request.job)
    if attempt is None or attempt.parked or not state.jobs.specs[request.job].can_resize:
        return None
    mine, cluster = attempt.gpus, state.nodes.cluster
    if request.current is None or not same_gpus(mine, request.current) or not view.available[mine].all():
        return None
    if cluster.gpu_pool[mine[0]] != request.pool:
        return None
    if request.gpus <= len(mine):
        nodes = cluster.gpu_node[mine]
        first = np.unique(nodes, return_index=True)[1]
        rest = np.setdiff1d(np.arange(len(mine)), first)
        spare = request.gpus - len(first)
        return np.sort(mine[np.concatenate((first, rest[:spare]))]) if spare >= 0 else None
    free = view.available & np.isin(cluster.gpu_node, attempt.live_nodes)
    free[mine] = False
    more = free.nonzero()[0][: request.gpus - len(mine)]
    return np.sort(np.concatenate((mine, more))) if len(more) == request.gpus - len(mine) else None
