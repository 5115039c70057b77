"""Units: one granted job, or two that share GPUs. A unit has one placement. No member moves if it can stay where it is."""

from collections.abc import Mapping, Sequence

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.fill import Grants
from rota.core.plan.in_place import in_place
from rota.core.state.records import same_gpus
from rota.core.state.state import State
from rota.model.options import Options
from rota.model.placement_view import PlacementRequest, PlacementView, Placer
from rota.model.plan import PlacementChange
from rota.model.units import Bools, Floats, Ints

Unit = tuple[tuple[int, int], ...]
"""(job, option) of each member."""


def partners(state: State, table: CandidateTable, grants: Grants) -> Ints:
    """Per position: the job it will share its GPUs with. Jobs of one kind are as good as each other: those who are together stay
    together, and two who have GPUs of the same pool each do not give some up if others have none."""
    found = np.full(len(table), -1, dtype=np.int64)
    if grants.partner is None:
        return found
    shared = np.flatnonzero(grants.partner >= 0)
    partner = dict(zip(shared.tolist(), grants.partner[shared].tolist(), strict=True))
    ids, before = state.jobs.table.id[table.rows[shared]], state.jobs.table.partner[table.rows[shared]]
    position = dict(zip(ids.tolist(), shared.tolist(), strict=True))
    mates = {at: position[mate] for at, mate in zip(shared.tolist(), before.tolist(), strict=True) if mate in position}
    _keep_together(partner, mates, grants.option, table.options)
    _spare_moves(partner, mates, _sits(table, grants, shared), grants.option, table.options)
    found[list(partner)] = state.jobs.table.id[table.rows[list(partner.values())]]
    return found


def _swap(partner: dict[int, int], one: int, other: int) -> None:
    """Two become partners, and so do those they leave."""
    left, right = partner[one], partner[other]
    partner[one], partner[other], partner[left], partner[right] = other, one, right, left


def _keep_together(partner: dict[int, int], mates: dict[int, int], option: Ints, options: Options) -> None:
    for one, mate in mates.items():
        if partner[one] != mate and options.partner_row[option[one]] == option[mate]:
            _swap(partner, one, mate)


def _sits(table: CandidateTable, grants: Grants, shared: Ints) -> set[int]:
    """Positions with GPUs of the pool they are granted now."""
    held, pool = table.granted_option[shared], table.options.pool
    return set(shared[(held >= 0) & (pool[held] == pool[grants.option[shared]])].tolist())


def _spare_moves(partner: dict[int, int], mates: dict[int, int], sits: set[int], option: Ints, options: Options) -> None:
    """Of two units of the same kinds, one with GPUs twice and one with none, make two with GPUs once."""
    without: dict[int, list[int]] = {}
    for one, other in partner.items():
        if one not in sits and other not in sits:
            without.setdefault(int(option[one]), []).append(one)
    if not without:
        return
    for one in list(partner):
        other = partner[one]
        if one in sits and other in sits and mates.get(one) != other:
            free = without.get(int(options.partner_row[option[one]]), [])
            while free and (partner[free[-1]] in sits or free[-1] in (one, other)):
                free.pop()  # it has a partner by now
            if free:
                _swap(partner, one, free.pop())


def released(state: State, jobs: list[int]) -> Bools:
    """GPUs that are free in the plan once these jobs give theirs up."""
    left = state.machines.planned.copy()
    for job in jobs:
        if job in state.jobs.desired:
            left.release(job, state.jobs.desired[job])
    return left.free


def left_behind(state: State, jobs: list[int]) -> list[PlacementChange]:
    """Jobs of which the answer knows nothing, beside some that it moves: they keep their GPUs, alone."""
    table, changed, found = state.jobs.table, set(jobs), []
    for job in jobs:
        mate = table.partner.item(state.jobs.row[job])
        if mate >= 0 and mate not in changed:
            option = state.knowledge.options.alone.item(table.option.item(state.jobs.row[mate]))
            found.append(PlacementChange(mate, option, state.jobs.desired[mate]))
    return found


def place(
    state: State, placer: Placer, floor: PlacementView, hints: Mapping[int, tuple[int, ...]], units: dict[int, Unit]
) -> list[tuple[Unit, Ints]]:
    """GPUs for each unit, given by the position of a member. With a sticky placer, a member that has suitable GPUs keeps them and
    the other joins it; who runs there comes before who was only to start there."""
    seats: dict[int, Ints] = {}
    if placer.sticky:
        for running in (True, False):
            for at, unit in units.items():
                if at not in seats and (seat := _seat(state, floor, unit, running)) is not None:
                    seats[at] = seat
    rest = [at for at in units if at not in seats]
    requests = [_request(state, units[at]) for at in rest]
    seats.update(zip(rest, place_all(state, placer, floor, requests, [hints.get(at, ()) for at in rest]), strict=True))
    return [(unit, seats[at]) for at, unit in units.items()]


def _seat(state: State, floor: PlacementView, unit: Unit, running: bool) -> Ints | None:
    """GPUs that a member has, that serve the unit and that no other unit has taken."""
    pool, need = _wants(state, unit)
    for job, _ in unit:
        gpus, attempt = state.jobs.desired.get(job), state.jobs.attempts.get(job)
        if gpus is None or (running and (attempt is None or attempt.parked or not same_gpus(gpus, attempt.gpus))):
            continue
        if len(gpus) == need and state.machines.cluster.gpu_pool[gpus[0]] == pool and floor.available[gpus].all():
            floor.available[gpus] = False
            return gpus
    return None


def _wants(state: State, unit: Unit) -> tuple[int, int]:
    option = unit[0][1]
    return int(state.knowledge.options.pool[option]), int(state.knowledge.options.gpus[option])


def _request(state: State, unit: Unit) -> PlacementRequest:
    """A unit is where its first member is that is anywhere, and its move costs what the dearer of the two costs."""
    pool, gpus = _wants(state, unit)
    asked = [ask(state, job, pool, gpus, state.jobs.table.move_seconds.item(state.jobs.row[job])) for job, _ in unit]
    found = next((request for request in asked if request.current is not None), asked[0])
    found.move_seconds = max(request.move_seconds for request in asked)
    return found


def ask(state: State, job: int, pool: int, gpus: int, price: float) -> PlacementRequest:
    """A job that sleeps is where it sleeps, and never moves for free: it would have to be written to storage first."""
    attempt = state.jobs.attempts.get(job)
    traits = state.placement_traits(job, pool, gpus)
    if attempt is not None and attempt.parked:
        return PlacementRequest(job, pool, gpus, max(price, 1.0), attempt.gpus, True, *traits)
    return PlacementRequest(job, pool, gpus, price, state.jobs.desired.get(job), False, *traits)


def place_all(
    state: State, placer: Placer, floor: PlacementView, requests: list[PlacementRequest], hints: Sequence[tuple[int, ...]]
) -> list[Ints]:
    """GPUs for each request: those that the policy asked for where they can be had; with a sticky placer, those with which a job
    changes its size in place; else those that the placer picks."""
    placed: dict[int, Ints] = {}
    for number, hint in enumerate(hints):
        if hint and len(hint) == requests[number].gpus and floor.available[list(hint)].all():
            placed[number] = np.array(sorted(hint), dtype=np.int64)
            floor.available[placed[number]] = False
    if state.knowledge.options.elastic and placer.sticky:
        for number, request in enumerate(requests):
            gpus = in_place(state, floor, request) if number not in placed else None
            if gpus is not None:
                placed[number] = gpus
                floor.available[gpus] = False
    if not placed:
        return placer.place(floor, requests)
    rest = [number for number in range(len(requests)) if number not in placed]
    placed.update(zip(rest, placer.place(floor, [requests[number] for number in rest]), strict=True))
    return [placed[number] for number in range(len(requests))]


def scores(state: State) -> tuple[Floats | None, Floats | None]:
    """How slow GPUs are believed to be, in levels and exactly."""
    known = state.knowledge.variability
    return (None, None) if known is None else (known.bins(), known.feared)
