"""Placements: GPUs for the jobs that were granted some, and what that changes."""

import numpy as np

from rota.core.plan.choose_gpus import Unit, choose_for_jobs, choose_for_units, request_for
from rota.core.plan.draft import Draft, Places, released
from rota.core.plan.partners import left_behind, partners
from rota.core.plan.pinned import has_min_run, must_leave
from rota.core.plan.reserved_places import choose_jobs_apart, choose_units_apart, given_up
from rota.core.state.records import same_gpus
from rota.core.state.state import State
from rota.model.placement_view import PlacementView
from rota.model.plan import PlacementChange
from rota.model.units import MILLI, Bools, Ints


def changes(draft: Draft, places: Places | None = None) -> tuple[PlacementChange, ...]:
    """What differs from the plan in force: which jobs stop, and which get which GPUs. `places`: other ones than the draft's."""
    state, table, places = draft.state, draft.table, places or draft.places
    grants = places.grants
    differs = grants.option != table.granted_option
    partner = None
    if grants.partner is not None or grants.split or state.nodes.planned.gpu_fractions:
        partner = partners(state, table, grants)
        differs |= partner != state.jobs.table.partner[table.rows]
    if state.nodes.cordoned or state.nodes.draining or state.nodes.drained:
        differs |= must_leave(state, table.rows)
    if places.leaves:
        differs[list(places.leaves)] = True
    stays: set[int] = set()
    for split in grants.split:
        here = [table.current_gpu(at, grants.option.item(at)) == split.gpu >= 0 for at in split.members]
        stays |= {at for at, yes in zip(split.members, here, strict=True) if yes}
        differs[split.members] |= ~np.array(here)
    if draft.alive is not None:
        differs &= draft.alive
    changed = differs.nonzero()[0]
    if not len(changed) and draft.placer.sticky and not places.gpus:
        return ()
    stops = changed[grants.option[changed] < 0]
    if draft.settings.wait_for_locality:
        starts = np.array(list(places.gpus), dtype=np.int64)
    elif not draft.placer.sticky:
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
    ids = state.jobs.table.id
    stopping, starting = ids[table.rows[stops]].tolist(), ids[table.rows[starts]].tolist()
    found = [PlacementChange(job, -1, None) for job in stopping]
    touched = [*stopping, *starting]
    if partner is not None:
        found += left_behind(state, touched)
    if draft.settings.wait_for_locality:
        found += [PlacementChange(int(ids[table.rows[at]]), int(grants.option[at]), gpus) for at, gpus in places.gpus.items()]
    elif len(starts):
        view = draft.placement_view(state.usable()[0] & released(state, touched))
        if partner is None:
            found += _place_jobs(draft, view, starts, starting, grants.option[starts].tolist())
        else:
            found += _place_units(draft, view, places, starts, partner)
    return tuple(found)


def _may_move(state: State, rows: Ints) -> Bools:
    """Which jobs have run for at least what a move costs. Others are not placed again: else moving could be all they ever do.
    Partners move together."""
    table = state.jobs.table
    may = (table.gpus_in_use[rows] > 0) & (state.now_s - table.phase_s[rows] >= table.move_seconds[rows])
    if (stays := has_min_run(state, rows)) is not None:
        may &= ~stays
    if state.nodes.planned.gpu_fractions:
        may &= ~np.isin(table.partner[rows], table.id[rows[~may]])
    return may


def _place_jobs(draft: Draft, view: PlacementView, starts: Ints, jobs: list[int], granted: list[int]) -> list[PlacementChange]:
    """Choose GPUs for these positions. `granted`: the option of each."""
    state, hints, row_of = draft.state, draft.hints, draft.state.jobs.row
    pool, size = draft.table.options.pool.item, draft.table.options.milligpus.item
    price, option = state.jobs.table.move_seconds.item, state.jobs.table.option.item
    requests = [
        request_for(state, job, pool(by), size(by) // MILLI, price(row_of[job])) for job, by in zip(jobs, granted, strict=True)
    ]
    if draft.access is not None:
        chosen = choose_jobs_apart(draft, draft.access, view, starts.tolist(), requests, hints)
        found = given_up(draft, [job for job, gpus in zip(jobs, chosen, strict=True) if gpus is None])
        given = [(job, by, gpus) for job, by, gpus in zip(jobs, granted, chosen, strict=True) if gpus is not None]
        jobs, granted, placed = [job for job, _, _ in given], [by for _, by, _ in given], [gpus for _, _, gpus in given]
    else:
        suggested = [hints.get(at, ()) for at in starts.tolist()] if hints else ()
        placed, found = choose_for_jobs(state, draft.placer, view, requests, suggested), []
    for job, by, gpus in zip(jobs, granted, placed, strict=True):
        promised = state.jobs.desired.get(job)
        if promised is None or option(row_of[job]) != by or not same_gpus(promised, gpus):
            found.append(PlacementChange(job, by, gpus))
    return found


def _place_units(draft: Draft, view: PlacementView, places: Places, starts: Ints, partner: Ints) -> list[PlacementChange]:
    """Choose GPUs for these positions where two jobs may share some: a unit is placed once, for both its members."""
    state, grants = draft.state, places.grants
    jobs = state.jobs.table
    ids = jobs.id[draft.table.rows[starts]].tolist()
    option_of = dict(zip(ids, grants.option[starts].tolist(), strict=True))
    partner_of = dict(zip(ids, partner[starts].tolist(), strict=True))
    units: dict[int, Unit] = {}
    joined: set[int] = set()
    found = []
    for each in grants.split:
        members = [(job, grants.option.item(at)) for at in each.members if (job := draft.job_at(at)) in option_of]
        joined |= {job for job, _ in members}
        if each.gpu >= 0:
            found += _joining(state, members, np.array([each.gpu], dtype=np.int64))
        elif members:
            units[each.members[0]] = tuple(members)
    for position, job in zip(starts.tolist(), ids, strict=True):
        if job not in joined:
            joined |= {job, partner_of[job]}
            units[position] = tuple((member, option_of[member]) for member in (job, partner_of[job]) if member >= 0)
    if draft.access is not None:
        placed, without = choose_units_apart(draft, draft.access, view, units)
        found += given_up(draft, without)
    else:
        placed = choose_for_units(state, draft.placer, view, draft.hints, units)
    for unit, gpus in placed:
        for job, option in unit:
            promised, row = state.jobs.desired.get(job), state.jobs.row[job]
            same = promised is not None and same_gpus(promised, gpus) and jobs.option[row] == option
            if not same or jobs.partner[row] != partner_of[job]:
                found.append(PlacementChange(job, option, gpus, partner_of[job]))
    return found


def _joining(state: State, members: list[tuple[int, int]], gpus: Ints) -> list[PlacementChange]:
    """Changes of jobs that come to a GPU of which other jobs hold fractions. Those stay where they are."""
    return [
        PlacementChange(job, option, gpus)
        for job, option in members
        if job not in state.jobs.desired
        or not same_gpus(state.jobs.desired[job], gpus)
        or state.jobs.table.option[state.jobs.row[job]] != option
    ]
