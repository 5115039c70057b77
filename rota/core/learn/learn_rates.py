"""Learning rates from jobs that ran. A belief is about a kind of job, and changes only when it was clearly wrong."""

import numpy as np

from rota.beliefs.make_options import renewed
from rota.beliefs.rates import MeasuredRates
from rota.core.fold import colocation
from rota.core.state.job_table import NO_JOB
from rota.core.state.state import State
from rota.model.units import MILLI, Floats, Ints

RATE_CHANGE_THRESHOLD = 0.05
"""Relative difference beyond which a measured rate replaces the believed one."""

MIN_SECONDS = 30.0
"""Shortest run without a change for which a rate counts, in seconds."""

STILL_STEPS = 10.0
"""Expected steps after which a job that did none counts as standing still."""


def learn(state: State, rows: Ints, steps: Floats, seconds: Floats) -> None:
    """Learn from the steps that running jobs did in these times, each at one pace."""
    table, options = state.jobs.table, state.beliefs.options
    still = (steps <= 0) & (table.rate[rows] * seconds >= STILL_STEPS)
    long = (seconds >= MIN_SECONDS) & ((steps > 0) | still)
    rows, rate = rows[long], np.maximum(steps[long], 0.0) / seconds[long]
    news = np.abs(rate / table.rate[rows] - 1) > RATE_CHANGE_THRESHOLD
    if not news.any():
        return
    kinds, touched = list(state.jobs.kind_of), set()
    for row, measured in zip(rows[news].tolist(), rate[news].tolist(), strict=True):
        option = int(options.by_share_column[table.kind[row], table.share_column[row]])
        kind, partner_kind = kinds[table.kind[row]], int(options.partner_kind[option])
        levels = state.nodes.cluster.spanned(state.jobs.attempts[int(table.id[row])].gpus)
        if partner_kind >= 0 and levels and measured > 0:
            continue  # beliefs about pairs are for one node; the cost of several nodes follows from each job alone
        width = max(options.milligpus.item(option) // MILLI, 1)
        if not kind.profile or levels != state.nodes.cluster.fewest_levels(int(options.pool[option]), width):
            continue  # the job has no profile, or its placement slows it down
        accelerator = state.nodes.cluster.pools[options.pool[option]]
        partner = kinds[partner_kind].profile if partner_kind >= 0 else None
        measured *= state.slowdown(
            int(table.id[row]), state.jobs.attempts[int(table.id[row])].gpus
        )  # a slow GPU says nothing of the kind
        rates, batch_size = state.beliefs.rates, options.batch_size.item(option)
        if not partner and rates.goes_by_batch(kind.profile, kind.demand, accelerator, width, batch_size):
            if levels and measured > 0:
                continue  # beliefs about batch sizes are for one node, except that a job stands still
            found: MeasuredRates | None = rates.batch_measurement(
                kind.profile, kind.demand, accelerator, width, measured, batch_size
            )
        else:
            found = rates.measurement(kind.profile, accelerator, width, measured, partner or "", 0 if partner else levels)
        if found is not None:
            state.beliefs.add_measured(found)
        touched |= {kind.profile, partner} - {None}
    if touched:
        _believe(state, [number for number, kind in enumerate(kinds) if kind.profile in touched])


def _believe(state: State, numbers: list[int]) -> None:
    """Apply new rates of these kinds. Row numbers stay."""
    table = state.jobs.table
    state.beliefs.options = renewed(
        state.beliefs.options, list(state.jobs.kind_of), state.nodes.cluster, state.beliefs.rates, set(numbers)
    )
    size = table.size
    mine = np.isin(table.kind[:size], numbers).nonzero()[0]
    best = state.beliefs.options.best[table.kind[mine]]
    table.best_rate[mine[best >= 0]] = state.beliefs.options.rate[best[best >= 0]]
    state.beliefs.forget_memos()
    runs = ((table.gpus_in_use[:size] > 0) & (table.rate[:size] > 0)).nonzero()[0]
    table.rate[runs] = state.beliefs.options.rate[
        state.beliefs.options.by_share_column[table.kind[runs], table.share_column[runs]]
    ]
    for row in runs[table.colocated_with[runs] != NO_JOB].tolist() if state.beliefs.sharing else ():
        colocation.colocated_rate(state, row)
    table.rate[runs] /= [state.slowdown(job, state.jobs.attempts[job].gpus) for job in table.id[runs].tolist()]
    state.cycle.invalidate()
