"""The tactic `grow`: while no job waits, running jobs may have idle GPUs. Every plan takes these back first."""

from rota.core.plan.draft import Draft
from rota.model.units import FOREVER, MILLI
from rota.tactics.grow import Grow, Growable


def grow(draft: Draft, tactic: Grow) -> float:
    """Give idle GPUs to jobs that accept them and can resize while they run. Return when to look again."""
    state, table, grants = draft.state, draft.table, draft.grants
    options, jobs = table.options, state.jobs.table
    again_s = FOREVER
    shares = grants.partner is not None and bool((grants.partner >= 0).any())
    if not options.elastic or draft.waiting().any() or shares or grants.split:
        return again_s
    usable, planned = state.usable()[0], state.machines.planned
    idle = usable & planned.free
    if (table.granted_option[grants.position] < 0).any():
        idle[:] = False  # jobs that start now choose first
    by_pool: dict[int, list[Growable]] = {}
    for at in grants.position.tolist():
        row, asked = table.rows.item(at), grants.option.item(at)
        job = jobs.id.item(row)
        attempt = state.jobs.attempts.get(job)
        if not state.jobs.specs[job].can_resize:
            continue
        if attempt is None or attempt.parked or job not in state.jobs.desired:
            again_s = min(again_s, state.now_s + tactic.idle_seconds)  # it starts now
            continue
        has = table.granted_option.item(at)
        pool, count = options.pool.item(asked), options.gpus.item(asked)
        here = idle & (state.machines.cluster.gpu_node == state.machines.cluster.gpu_node[attempt.gpus[0]])
        room = int(here.sum()) if len(attempt.parts) == 1 else 0
        busy = job in state.jobs.in_flight  # it starts, or changes its size
        idle_s = jobs.phase_s.item(row) + tactic.idle_seconds
        for option in options.by_kind[table.kind.item(at)].tolist():
            more = options.gpus.item(option) - count
            if option < 0 or options.pool.item(option) != pool or more <= 0:
                continue
            gain = options.rate.item(option) / options.rate.item(asked)
            fits = options.gpus.item(option) - len(attempt.gpus) <= room
            if option != has and fits and gain >= tactic.least_gain and (busy or state.now_s < idle_s):
                again_s = min(again_s, state.now_s + tactic.idle_seconds if busy else idle_s)
            ready = option == has or (fits and state.now_s >= idle_s and not busy)
            by_pool.setdefault(pool, []).append(Growable(at, option, more, gain, ready))
    for pool, sizes in by_pool.items():
        for at, option in tactic.choose(sizes, grants.left.item(pool) // MILLI).items():
            grants.left[pool] -= (options.gpus.item(option) - options.gpus.item(grants.option.item(at))) * MILLI
            grants.option[at] = option
    return again_s
