"""Planning: from the policy's answer to a plan. Who runs, by which option, on which GPUs."""

import numpy as np

from rota.core.plan import pairing
from rota.core.plan.candidates import CandidateTable
from rota.core.plan.gang_search import GangSearch, Places
from rota.core.plan.grant import Grants, grant
from rota.core.settings import Settings
from rota.core.state.ledger import Ledger
from rota.core.state.records import NO_GPUS, Answer, same_gpus
from rota.model.allocation import Allocation, Candidates
from rota.model.floor import Floor, Placer
from rota.model.plan import Change, Plan
from rota.model.units import FOREVER, MILLI, SHORTEST_HOLD_SECONDS, Bools, Ints


def make_plan(state: Ledger, settings: Settings, placer: Placer) -> Plan:
    """Turn the answer in force into what should change, starting from what is desired now."""
    assert state.answer is not None
    allocation = state.answer.allocation
    rows, alive = _rows_of(state, state.answer)
    table = CandidateTable(state, rows, settings)
    _, capacity = state.usable()
    candidates = allocation.candidates(table)
    if alive is not None:
        spoken_of = np.zeros(state.jobs.size, dtype=bool)
        spoken_of[rows[alive]] = True
        kept = _kept_gpus(state, state.rows[~spoken_of[state.rows]])
        capacity = capacity - np.bincount(state.cluster.gpu_pool[kept], minlength=len(capacity))
        table.kept_gpus = set(kept.tolist())
        candidates = pairing.with_alone(_living(candidates, alive), state.options)
    if settings.steady and not state.fresh and not allocation.reusable:
        candidates = _going_on(candidates, table)
    if not settings.backfill:
        candidates.blocking = True
    places = Places(grant(candidates, table, capacity))
    if settings.wait_for_place:
        places = GangSearch(state, settings, placer, candidates, table, places.grants, alive, allocation.hints).run()
    grants = places.grants
    changes = _changes(state, settings, placer, allocation, table, places, alive)
    granted = grants.option >= 0
    if settings.whole_steps:
        return Plan(changes, _all_done_s(settings, state, table, grants), not granted.all(), places.fragmented)
    holds = allocation.holds_seconds(granted, table)
    # Before the policy may be asked again, an answer that is over can only be drawn from once more, if it can be.
    may_ask_s = state.asked_s + settings.solve_every_seconds
    if allocation.reusable:
        until = min(max(allocation.until_s, may_ask_s), state.now_s + holds)
    else:
        until = max(min(allocation.until_s, state.now_s + holds), may_ask_s)
    until = max(until, state.now_s + SHORTEST_HOLD_SECONDS) if len(rows) else FOREVER
    return Plan(changes, until, not granted.all(), places.fragmented)


def _rows_of(state: Ledger, answer: Answer) -> tuple[Ints, Bools | None]:
    """Rows of the jobs an answer speaks of, and which of them may still be scheduled (None: all, and nobody else)."""
    if state.version == answer.version:
        return state.rows, None
    known = state.jobs.id[: state.jobs.size]
    if not len(known):
        return np.zeros(len(answer.ids), dtype=np.int64), np.zeros(len(answer.ids), dtype=bool)
    found = np.minimum(known.searchsorted(answer.ids), len(known) - 1)
    return found, (known[found] == answer.ids) & state.jobs.schedulable[found]


def _kept_gpus(state: Ledger, rows: Ints) -> Ints:
    """GPUs promised to jobs the answer knows nothing of: they keep what they have until the next answer."""
    granted = [state.desired[job] for job in state.jobs.id[rows[state.jobs.option[rows] >= 0]].tolist()]
    return np.unique(np.concatenate(granted)) if granted else NO_GPUS


def _going_on(candidates: Candidates, table: CandidateTable) -> Candidates:
    """Only those who run by the option they run by. Who has lost its partner runs alone, and goes on so."""
    option = table.options.best[table.kind[candidates.position]] if candidates.option is None else candidates.option
    granted = table.granted_option[candidates.position]
    stays = granted == option
    if table.options.shared:
        stays |= (granted >= 0) & (granted == table.options.alone[option])
    return Candidates(candidates.position[stays], granted[stays])


def _all_done_s(settings: Settings, state: Ledger, table: CandidateTable, grants: Grants) -> float:
    """When all jobs will have started and done the whole steps of this round. If none runs: when the policy may be asked again,
    or a round later if it may be asked now and has no better answer."""
    position = grants.position
    if not len(position):
        may_ask_s = state.asked_s + settings.solve_every_seconds
        return may_ask_s if may_ask_s > state.now_s else state.now_s + settings.round_seconds
    rate = state.options.rate[grants.option[position]]
    steps = np.minimum(np.maximum(np.floor(rate * settings.round_seconds), 1.0), table.steps_left[position])
    starting = np.where(table.running[position], 0.0, state.costs.move_seconds)
    return state.now_s + max(float((steps / rate + starting).max()), SHORTEST_HOLD_SECONDS)


def _living(candidates: Candidates, alive: Bools) -> Candidates:
    stays = alive[candidates.position]
    option = None if candidates.option is None else candidates.option[stays]
    return Candidates(candidates.position[stays], option, candidates.blocking, candidates.reserve)


def _changes(
    state: Ledger,
    settings: Settings,
    placer: Placer,
    allocation: Allocation,
    table: CandidateTable,
    places: Places,
    alive: Bools | None,
) -> tuple[Change, ...]:
    grants = places.grants
    differs = grants.option != table.granted_option
    partner = None
    if grants.partner is not None or grants.split or state.planned.parts:
        partner = pairing.partners(state, table, grants)
        differs |= partner != state.jobs.partner[table.rows]
    if state.cordoned:
        differs |= _must_leave(state, table.rows)
    stays = np.zeros(len(table), dtype=bool)
    for split in grants.split:
        here = [table.home(at, grants.option.item(at)) == split.gpu >= 0 for at in split.members]
        stays[split.members] = here
        differs[split.members] |= ~np.array(here)
    if alive is not None:
        differs &= alive
    changed = differs.nonzero()[0]
    stops = changed[grants.option[changed] < 0]
    if settings.wait_for_place:
        starts = np.array(list(places.gpus), dtype=np.int64)
    elif not placer.sticky:
        may_move = _may_move(state, table.rows[grants.position]) & ~stays[grants.position]
        starts = grants.position[differs[grants.position] | may_move]
    elif len(stops) == len(changed):
        starts = stops[:0]
    else:
        starts = grants.position[differs[grants.position]]
    if not len(stops) and not len(starts):
        return ()
    changes = [Change(job, -1, None) for job in state.jobs.id[table.rows[stops]].tolist()]
    touched = [*(change.job for change in changes), *state.jobs.id[table.rows[starts]].tolist()]
    if partner is not None:
        changes += pairing.left_behind(state, touched)
    if settings.wait_for_place:
        changes += [Change(int(state.jobs.id[table.rows[at]]), int(grants.option[at]), gpus) for at, gpus in places.gpus.items()]
    elif len(starts):
        usable, _ = state.usable()
        free = pairing.released(state, touched)
        floor = Floor(state.cluster, usable & free, state.observed.free, settings.seed, state.decision, *pairing.scores(state))
        if partner is None:
            changes += _place(state, placer, floor, allocation, table, grants, starts)
        else:
            changes += _place_units(state, placer, floor, allocation, table, grants, starts, partner)
    return tuple(changes)


def _must_leave(state: Ledger, rows: Ints) -> Bools:
    """Jobs with GPUs that are out of service. One that shares such GPUs leaves with the other."""
    out = state.out_of_service()
    return np.isin(state.jobs.id[rows], list(state.planned.holders(np.array(out, dtype=np.int64))))


def _may_move(state: Ledger, rows: Ints) -> Bools:
    """A job is placed anew only once it has run for at least what a move costs: else moving could be all it ever does. Two that
    share move together."""
    jobs = state.jobs
    may = (jobs.using[rows] > 0) & (state.now_s - jobs.phase_s[rows] >= jobs.move_seconds[rows])
    if state.planned.parts:
        stays = jobs.id[rows[~may]]
        may &= ~np.isin(jobs.partner[rows], stays)
    return may


def _place(
    state: Ledger, placer: Placer, floor: Floor, allocation: Allocation, table: CandidateTable, grants: Grants, starts: Ints
) -> list[Change]:
    hints = allocation.hints
    option, rows = grants.option[starts], table.rows[starts]
    granted = option.tolist()
    columns = (
        starts.tolist(),
        state.jobs.id[rows].tolist(),
        state.options.pool[option].tolist(),
        (state.options.milligpus[option] // MILLI).tolist(),
        state.jobs.move_seconds[rows].tolist(),
    )
    ask = pairing.ask
    requests = [ask(state, job, pool, need, price) for _, job, pool, need, price in zip(*columns, strict=True)]
    placed = pairing.place_all(placer, floor, requests, [hints.get(at, ()) for at in columns[0]] if hints else ())
    changes = []
    for request, option, gpus in zip(requests, granted, placed, strict=True):
        promised = state.desired.get(request.job)
        if promised is None or not same_gpus(promised, gpus) or state.jobs.option[state.row[request.job]] != option:
            changes.append(Change(request.job, option, gpus))
    return changes


def _place_units(
    state: Ledger,
    placer: Placer,
    floor: Floor,
    allocation: Allocation,
    table: CandidateTable,
    grants: Grants,
    starts: Ints,
    partner: Ints,
) -> list[Change]:
    """The same where two jobs may share GPUs: a unit is placed once, and both its members are told."""
    jobs = state.jobs
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
            promised, row = state.desired.get(job), state.row[job]
            same = promised is not None and same_gpus(promised, gpus) and jobs.option[row] == option
            if not same or jobs.partner[row] != partner_of[job]:
                changes.append(Change(job, option, gpus, partner_of[job]))
    return changes


def _joining(state: Ledger, members: list[tuple[int, int]], gpus: Ints) -> list[Change]:
    """Jobs that come to a GPU of which others have parts. Those who are there stay."""
    return [
        Change(job, option, gpus)
        for job, option in members
        if job not in state.desired or not same_gpus(state.desired[job], gpus) or state.jobs.option[state.row[job]] != option
    ]
