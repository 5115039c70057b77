"""Planning: from the policy's answer to a plan. Who runs, on which GPUs, and a reason for everybody else."""

import numpy as np

from rota.core.ledger import Ledger
from rota.core.mechanism import Grants, Table, grant
from rota.core.settings import Settings
from rota.model.allocation import Allocation, Candidates
from rota.model.floor import Floor, Placer, Request
from rota.model.plan import Change, Plan
from rota.model.reasons import Reason
from rota.model.units import FOREVER, MILLI, Bools, Ints

SHORTEST_HOLD_SECONDS = 1e-3
"""No answer expires sooner than this, so that a policy which always says "now" cannot stop time."""


def make_plan(state: Ledger, settings: Settings, placer: Placer) -> Plan:
    """Turn the answer in force into what should change, starting from what is desired now."""
    assert state.answer is not None
    allocation = state.answer.allocation
    rows, alive = _rows_of(state, state.answer.ids)
    table = Table(state, rows, settings.horizon_seconds)
    _, capacity = state.usable()
    strangers = state.rows if alive is None else np.setdiff1d(state.rows, rows[alive])
    if alive is None:
        candidates = allocation.candidates(table)
    else:
        capacity = capacity - _kept_by(state, strangers)
        candidates = _living(allocation.candidates(table), alive)
    grants = grant(candidates, table, capacity)
    changes = _changes(state, settings, placer, allocation, table, grants, alive)
    who, codes, waiting = _reasons(state, table, grants, alive)
    holds = allocation.holds_seconds(grants.option >= 0)
    until = max(min(allocation.until_s, state.now_s + holds), state.now_s + SHORTEST_HOLD_SECONDS) if len(rows) else FOREVER
    return Plan(changes, who, codes, until, len(grants.position), waiting)


def _rows_of(state: Ledger, ids: Ints) -> tuple[Ints, Bools | None]:
    """Rows of the jobs an answer speaks of, and which of them may still be scheduled (None: all, and nobody else)."""
    rows = state.rows
    if len(rows) == len(ids) and np.array_equal(state.jobs.id[rows], ids):
        return rows, None
    known = state.jobs.id[: state.jobs.size]
    found = np.minimum(np.searchsorted(known, ids), max(len(known) - 1, 0))
    if not len(known):
        return found, np.zeros(len(ids), dtype=bool)
    return found, (known[found] == ids) & state.jobs.schedulable[found]


def _kept_by(state: Ledger, rows: Ints) -> Ints:
    """GPUs per pool promised to jobs the answer knows nothing of: they keep what they have until the next answer."""
    granted = state.jobs.option[rows]
    granted = granted[granted >= 0]
    used = np.bincount(state.options.pool[granted], weights=state.options.milligpus[granted], minlength=len(state.cluster.pools))
    return used.astype(np.int64) // MILLI


def _living(candidates: Candidates, alive: Bools) -> Candidates:
    stays = alive[candidates.position]
    return Candidates(candidates.position[stays], candidates.option[stays], candidates.blocking, candidates.reserve)


def _changes(
    state: Ledger,
    settings: Settings,
    placer: Placer,
    allocation: Allocation,
    table: Table,
    grants: Grants,
    alive: Bools | None,
) -> tuple[Change, ...]:
    before = table.granted_option
    differs = grants.option != before
    if alive is not None:
        differs &= alive
    ids = state.jobs.id[table.rows]
    stops = np.flatnonzero(differs & (grants.option < 0))
    starts = grants.position[differs[grants.position]] if placer.sticky else grants.position
    if not len(stops) and not len(starts):
        return ()
    changes = [Change(job, -1, None) for job in ids[stops].tolist()]
    if len(starts):
        usable, _ = state.usable()
        wanted = state.gpu_wanted.copy()
        for position in [*stops.tolist(), *starts.tolist()]:
            old = state.desired.get(int(ids[position]))
            if old is not None:
                wanted[old] = -1
        floor = Floor(state.cluster, usable & (wanted < 0), state.gpu_job < 0, settings.seed, state.decision)
        changes += _place(state, placer, floor, allocation, table, grants, starts)
    return tuple(changes)


def _place(
    state: Ledger, placer: Placer, floor: Floor, allocation: Allocation, table: Table, grants: Grants, starts: Ints
) -> list[Change]:
    options = grants.option[starts]
    pools = state.options.pool[options].tolist()
    counts = (state.options.milligpus[options] // MILLI).tolist()
    rows = table.rows[starts]
    ids = state.jobs.id[rows].tolist()
    prices = state.jobs.move_seconds[rows].tolist()
    hints = getattr(allocation, "gpus", None) or {}
    requests = [
        Request(job, pool, count, price, state.desired.get(job), hints.get(position, ()))
        for job, pool, count, price, position in zip(ids, pools, counts, prices, starts.tolist(), strict=True)
    ]
    placed = placer.place(floor, requests)
    changes = []
    for request, option, gpus in zip(requests, options.tolist(), placed, strict=True):
        same = request.current is not None and np.array_equal(request.current, gpus)
        if not same or state.jobs.option[state.row[request.job]] != option:
            changes.append(Change(request.job, option, gpus))
    return changes


def _reasons(state: Ledger, table: Table, grants: Grants, alive: Bools | None) -> tuple[Ints, Ints, int]:
    """Jobs whose reason changed, with the new code. A reason depends on the kind alone, so it is found per kind."""
    options = state.options
    by_kind = options.by_kind
    exists = by_kind >= 0
    need, pool = options.milligpus[by_kind], options.pool[by_kind]
    fits = (exists & (need <= grants.left[pool])).any(axis=1)
    _, capacity = state.usable()
    possible = (exists & (need <= capacity[pool] * MILLI)).any(axis=1)
    code_of_kind = np.where(fits, Reason.OUTRANKED, np.where(possible, Reason.NO_FREE_GPUS, Reason.NODE_DOWN))
    idle = grants.option < 0
    codes = np.where(idle, code_of_kind[table.kind], Reason.NONE)
    changed = codes != state.jobs.reason[table.rows]
    if alive is not None:
        changed &= alive
        idle &= alive
    return state.jobs.id[table.rows[changed]], codes[changed], int(np.count_nonzero(idle))
