"""Planning: from the policy's answer to a plan. Who runs, by which option, on which GPUs."""

import numpy as np

from rota.core.ledger import Answer, Ledger, same_gpus
from rota.core.mechanism import Grants, Table, grant
from rota.core.settings import Settings
from rota.model.allocation import Allocation, Candidates
from rota.model.floor import Floor, Placer, Request
from rota.model.plan import Change, Plan
from rota.model.units import FOREVER, MILLI, SHORTEST_HOLD_SECONDS, Bools, Ints


def make_plan(state: Ledger, settings: Settings, placer: Placer) -> Plan:
    """Turn the answer in force into what should change, starting from what is desired now."""
    assert state.answer is not None
    allocation = state.answer.allocation
    rows, alive = _rows_of(state, state.answer)
    table = Table(state, rows, settings)
    _, capacity = state.usable()
    candidates = allocation.candidates(table)
    if alive is not None:
        capacity = capacity - _kept_by(state, np.setdiff1d(state.rows, rows[alive]))
        candidates = _living(candidates, alive)
    if settings.steady and not state.fresh and not allocation.redraw:
        candidates = _going_on(candidates, table)
    grants = grant(candidates, table, capacity)
    changes = _changes(state, settings, placer, allocation, table, grants, alive)
    granted = grants.option >= 0
    holds = allocation.holds_seconds(granted, table)
    if settings.whole_steps:
        return Plan(changes, _all_done_s(settings, state, table, grants), not granted.all())
    until = max(min(allocation.until_s, state.now_s + holds), state.now_s + SHORTEST_HOLD_SECONDS) if len(rows) else FOREVER
    return Plan(changes, until, not granted.all())


def _rows_of(state: Ledger, answer: Answer) -> tuple[Ints, Bools | None]:
    """Rows of the jobs an answer speaks of, and which of them may still be scheduled (None: all, and nobody else)."""
    if state.version == answer.version:
        return state.rows, None
    known = state.jobs.id[: state.jobs.size]
    if not len(known):
        return np.zeros(len(answer.ids), dtype=np.int64), np.zeros(len(answer.ids), dtype=bool)
    found = np.minimum(known.searchsorted(answer.ids), len(known) - 1)
    return found, (known[found] == answer.ids) & state.jobs.schedulable[found]


def _kept_by(state: Ledger, rows: Ints) -> Ints:
    """GPUs per pool promised to jobs the answer knows nothing of: they keep what they have until the next answer."""
    granted = state.jobs.option[rows]
    granted = granted[granted >= 0]
    used = np.bincount(state.options.pool[granted], weights=state.options.milligpus[granted], minlength=len(state.cluster.pools))
    return used.astype(np.int64) // MILLI


def _going_on(candidates: Candidates, table: Table) -> Candidates:
    """Only those who run by the option they run by."""
    option = table.options.best[table.kind[candidates.position]] if candidates.option is None else candidates.option
    stays = table.granted_option[candidates.position] == option
    return Candidates(candidates.position[stays], option[stays])


def _all_done_s(settings: Settings, state: Ledger, table: Table, grants: Grants) -> float:
    """When everybody will have done the whole steps of this round. If nobody runs: when the policy may be asked again."""
    position = grants.position
    if not len(position):
        return max(state.asked_s + settings.solve_every_seconds, state.now_s + SHORTEST_HOLD_SECONDS)
    rate = state.options.rate[grants.option[position]]
    steps = np.minimum(np.floor(rate * settings.round_seconds), table.steps_left[position])
    return state.now_s + max(float((steps / rate).max()), SHORTEST_HOLD_SECONDS)


def _living(candidates: Candidates, alive: Bools) -> Candidates:
    stays = alive[candidates.position]
    option = None if candidates.option is None else candidates.option[stays]
    return Candidates(candidates.position[stays], option, candidates.blocking, candidates.reserve)


def _changes(
    state: Ledger,
    settings: Settings,
    placer: Placer,
    allocation: Allocation,
    table: Table,
    grants: Grants,
    alive: Bools | None,
) -> tuple[Change, ...]:
    differs = grants.option != table.granted_option
    if alive is not None:
        differs &= alive
    changed = differs.nonzero()[0]
    stops = changed[grants.option[changed] < 0]
    if not placer.sticky:
        starts = grants.position[differs[grants.position] | _may_move(state, table.rows[grants.position])]
    elif len(stops) == len(changed):
        starts = stops[:0]
    else:
        starts = grants.position[differs[grants.position]]
    if not len(stops) and not len(starts):
        return ()
    changes = [Change(job, -1, None) for job in state.jobs.id[table.rows[stops]].tolist()]
    if len(starts):
        usable, _ = state.usable()
        wanted = state.gpu_wanted.copy()
        for job in [*(change.job for change in changes), *state.jobs.id[table.rows[starts]].tolist()]:
            old = state.desired.get(job)
            if old is not None:
                wanted[old] = -1
        floor = Floor(state.cluster, usable & (wanted < 0), state.gpu_job < 0, settings.seed, state.decision)
        changes += _place(state, placer, floor, allocation, table, grants, starts)
    return tuple(changes)


def _may_move(state: Ledger, rows: Ints) -> Bools:
    """A job is placed anew only once it has run for at least what a move costs: else moving could be all it ever does."""
    jobs = state.jobs
    return (jobs.using[rows] > 0) & (state.now_s - jobs.phase_s[rows] >= jobs.move_seconds[rows])


def _ask(state: Ledger, job: int, pool: int, gpus: int, price: float, hint: tuple[int, ...]) -> Request:
    """A job that sleeps is where it sleeps, and never moves for free: it would have to be written to storage first."""
    life = state.lives.get(job)
    if life is not None and life.parked:
        return Request(job, pool, gpus, max(price, 1.0), life.gpus, hint)
    return Request(job, pool, gpus, price, state.desired.get(job), hint)


def _place(
    state: Ledger, placer: Placer, floor: Floor, allocation: Allocation, table: Table, grants: Grants, starts: Ints
) -> list[Change]:
    hints = getattr(allocation, "gpus", None) or {}
    granted = grants.option[starts].tolist()
    pool, need, jobs = state.options.pool, state.options.milligpus, state.jobs
    requests = []
    for position, row, option in zip(starts.tolist(), table.rows[starts].tolist(), granted, strict=True):
        hint = hints.get(position, ())
        requests.append(
            _ask(state, int(jobs.id[row]), int(pool[option]), int(need[option]) // MILLI, float(jobs.move_seconds[row]), hint)
        )
    placed = placer.place(floor, requests)
    changes = []
    for request, option, gpus in zip(requests, granted, placed, strict=True):
        promised = state.desired.get(request.job)
        if promised is None or not same_gpus(promised, gpus) or state.jobs.option[state.row[request.job]] != option:
            changes.append(Change(request.job, option, gpus))
    return changes
