"""Placements: GPUs for those who were granted some, and what changes by that."""

from dataclasses import replace

import numpy as np

from rota.core.plan import pairing
from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.fill import Grants
from rota.core.plan.gang_search import Places
from rota.core.plan.protected import has_min_run
from rota.core.settings import Settings
from rota.core.state.records import same_gpus
from rota.core.state.state import State
from rota.model.allocation import Allocation
from rota.model.placement_view import PlacementView, Placer
from rota.model.plan import PlacementChange, Plan
from rota.model.units import MILLI, Bools, Ints


def changes(
    state: State,
    settings: Settings,
    placer: Placer,
    allocation: Allocation,
    table: CandidateTable,
    places: Places,
    alive: Bools | None,
) -> tuple[PlacementChange, ...]:
    """What differs from the plan in force: who stops, and who gets which GPUs."""
    grants = places.grants
    differs = grants.option != table.granted_option
    partner = None
    if grants.partner is not None or grants.split or state.machines.planned.parts:
        partner = pairing.partners(state, table, grants)
        differs |= partner != state.jobs.table.partner[table.rows]
    if state.machines.cordoned or state.machines.draining:
        differs |= must_leave(state, table.rows)
    stays: set[int] = set()
    for split in grants.split:
        here = [table.current_gpu(at, grants.option.item(at)) == split.gpu >= 0 for at in split.members]
        stays |= {at for at, yes in zip(split.members, here, strict=True) if yes}
        differs[split.members] |= ~np.array(here)
    if alive is not None:
        differs &= alive
    changed = differs.nonzero()[0]
    stops = changed[grants.option[changed] < 0]
    if settings.wait_for_place:
        starts = np.array(list(places.gpus), dtype=np.int64)
    elif not placer.sticky:
        may_move = _may_move(state, table.rows[grants.position])
        if stays:
            may_move &= ~np.isin(grants.position, list(stays))
        starts = grants.position[differs[grants.position] | may_move]
    elif len(stops) == len(changed):
        starts = stops[:0]
    else:
        starts = grants.position[differs[grants.position]]
    if not len(stops) and not len(starts):
        return ()
    found = [PlacementChange(job, -1, None) for job in state.jobs.table.id[table.rows[stops]].tolist()]
    touched = [*(change.job for change in found), *state.jobs.table.id[table.rows[starts]].tolist()]
    if partner is not None:
        found += pairing.left_behind(state, touched)
    if settings.wait_for_place:
        found += [
            PlacementChange(int(state.jobs.table.id[table.rows[at]]), int(grants.option[at]), gpus)
            for at, gpus in places.gpus.items()
        ]
    elif len(starts):
        usable, _ = state.usable()
        free = pairing.released(state, touched)
        floor = PlacementView(
            state.machines.cluster,
            usable & free,
            state.machines.observed.free,
            settings.seed,
            state.question.decision,
            *pairing.scores(state),
        )
        if partner is None:
            found += _place(state, placer, floor, allocation, table, grants, starts)
        else:
            found += _place_units(state, placer, floor, allocation, table, grants, starts, partner)
    return tuple(found)


def with_parked_in_place(state: State, plan: Plan, *, all_stay: bool) -> tuple[Plan, list[int]]:
    """The plan with parked jobs going on where they sleep instead of elsewhere, or by another option, and those that can't
    because others have their GPUs, or because they were to join another. One that has to leave its node, or a GPU that is out of
    service, may go, and so may one that saves its state, unless all are to stay."""
    moves = {change.job: state.jobs.attempts[change.job] for change in plan.changes if _moves_parked(state, change, all_stay)}
    if not moves:
        return plan, []
    wanted = dict(state.jobs.desired)
    for change in plan.changes:
        wanted.pop(change.job, None)
        if change.gpus is not None and change.job not in moves:
            wanted[change.job] = change.gpus
    taken = np.zeros(state.machines.cluster.gpus, dtype=bool)
    for gpus in wanted.values():
        taken[gpus] = True
    changes, elsewhere = [], []
    for change in plan.changes:
        mine = moves.get(change.job)
        if mine is None:
            changes.append(change)
        elif change.partner >= 0 or taken[mine.gpus].any() or not state.machines.node_up[list(mine.parts)].all():
            elsewhere.append(change.job)
        else:
            taken[mine.gpus] = True
            changes.append(PlacementChange(change.job, state.knowledge.options.alone.item(mine.option), mine.gpus))
    return replace(plan, changes=tuple(changes)), elsewhere


def _moves_parked(state: State, change: PlacementChange, all_stay: bool) -> bool:
    """Whether it wakes a job that is parked, or being parked, elsewhere than where it sleeps, though that could stay."""
    mine = state.jobs.attempts.get(change.job)
    if mine is None or change.gpus is None or state.runs_by(mine, change.option, change.gpus):
        return False
    if not mine.parked and not state.jobs.being_parked(change.job):
        return False
    if not all_stay and state.jobs.table.saves.item(state.jobs.row[change.job]):
        return False
    return state.machines.draining.isdisjoint(mine.parts) and not np.isin(mine.gpus, state.out_of_service()).any()


def must_leave(state: State, rows: Ints) -> Bools:
    """Jobs with GPUs that are out of service, or on nodes that are drained. One that shares such GPUs leaves with the other."""
    drained = np.isin(state.machines.cluster.gpu_node, list(state.machines.draining)).nonzero()[0]
    out = np.concatenate((np.array(state.out_of_service(), dtype=np.int64), drained))
    return np.isin(state.jobs.table.id[rows], list(state.machines.planned.holders(out)))


def _may_move(state: State, rows: Ints) -> Bools:
    """A job is placed anew only once it has run for at least what a move costs: else moving could be all it ever does. Two that
    share move together."""
    table = state.jobs.table
    may = (table.using[rows] > 0) & (state.now_s - table.phase_s[rows] >= table.move_seconds[rows])
    if (young := has_min_run(state, rows)) is not None:
        may &= ~young
    if state.machines.planned.parts:
        stays = table.id[rows[~may]]
        may &= ~np.isin(table.partner[rows], stays)
    return may


def _place(
    state: State,
    placer: Placer,
    floor: PlacementView,
    allocation: Allocation,
    table: CandidateTable,
    grants: Grants,
    starts: Ints,
) -> list[PlacementChange]:
    hints = allocation.hints
    option, rows = grants.option[starts], table.rows[starts]
    granted = option.tolist()
    columns = (
        starts.tolist(),
        state.jobs.table.id[rows].tolist(),
        state.knowledge.options.pool[option].tolist(),
        (state.knowledge.options.milligpus[option] // MILLI).tolist(),
        state.jobs.table.move_seconds[rows].tolist(),
    )
    ask = pairing.ask
    requests = [ask(state, job, pool, need, price) for _, job, pool, need, price in zip(*columns, strict=True)]
    placed = pairing.place_all(state, placer, floor, requests, [hints.get(at, ()) for at in columns[0]] if hints else ())
    changes = []
    for request, option, gpus in zip(requests, granted, placed, strict=True):
        promised = state.jobs.desired.get(request.job)
        if promised is None or not same_gpus(promised, gpus) or state.jobs.table.option[state.jobs.row[request.job]] != option:
            changes.append(PlacementChange(request.job, option, gpus))
    return changes


def _place_units(
    state: State,
    placer: Placer,
    floor: PlacementView,
    allocation: Allocation,
    table: CandidateTable,
    grants: Grants,
    starts: Ints,
    partner: Ints,
) -> list[PlacementChange]:
    """The same where two jobs may share GPUs: a unit is placed once, and both its members are told."""
    jobs = state.jobs.table
    ids = jobs.id[table.rows[starts]].tolist()
    option_of = dict(zip(ids, grants.option[starts].tolist(), strict=True))
    partner_of = dict(zip(ids, partner[starts].tolist(), strict=True))
    found: dict[int, pairing.Unit] = {}
    joined: set[int] = set()
    changes = []
    for each in grants.split:
        members = [
            (job_of, int(grants.option[at])) for at in each.members if (job_of := int(jobs.id[table.rows[at]])) in option_of
        ]
        joined |= {job for job, _ in members}
        if each.gpu >= 0:
            changes += _joining(state, members, np.array([each.gpu], dtype=np.int64))
        elif members:
            found[each.members[0]] = tuple(members)
    for position, job in zip(starts.tolist(), ids, strict=True):
        if job not in joined:
            joined |= {job, partner_of[job]}
            found[position] = tuple((member, option_of[member]) for member in (job, partner_of[job]) if member >= 0)
    for unit, gpus in pairing.place(state, placer, floor, allocation.hints, found):
        for job, option in unit:
            promised, row = state.jobs.desired.get(job), state.jobs.row[job]
            same = promised is not None and same_gpus(promised, gpus) and jobs.option[row] == option
            if not same or jobs.partner[row] != partner_of[job]:
                changes.append(PlacementChange(job, option, gpus, partner_of[job]))
    return changes


def _joining(state: State, members: list[tuple[int, int]], gpus: Ints) -> list[PlacementChange]:
    """Jobs that come to a GPU of which others have parts. Those who are there stay."""
    return [
        PlacementChange(job, option, gpus)
        for job, option in members
        if job not in state.jobs.desired
        or not same_gpus(state.jobs.desired[job], gpus)
        or state.jobs.table.option[state.jobs.row[job]] != option
    ]
