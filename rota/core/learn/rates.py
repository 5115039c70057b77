"""Learning: what ran tells how fast it is. A belief belongs to a kind of job, and changes only when it was clearly wrong."""

import numpy as np

from rota.beliefs.options import renewed
from rota.core.state.ledger import Ledger
from rota.model.units import Floats, Ints

SURPRISE = 0.05
"""A measured rate this far from the believed one, relative, is news."""

LEAST_SECONDS = 30.0
"""A job must have run for so long in one stretch before its rate says anything."""

STILL_STEPS = 10.0
"""A job that should have done so many steps and did none stands still."""


def learn(state: Ledger, rows: Ints, steps: Floats, seconds: Floats) -> None:
    """These running jobs did so many steps in so many seconds, each at one pace all the time."""
    jobs, options = state.jobs, state.options
    still = (steps <= 0) & (jobs.rate[rows] * seconds >= STILL_STEPS)
    long = (seconds >= LEAST_SECONDS) & ((steps > 0) | still)
    rows, rate = rows[long], np.maximum(steps[long], 0.0) / seconds[long]
    news = np.abs(rate / jobs.rate[rows] - 1) > SURPRISE
    if not news.any():
        return
    kinds, touched = list(state.kind_of), set()
    for row, measured in zip(rows[news].tolist(), rate[news].tolist(), strict=True):
        option = int(options.by_account[jobs.kind[row], jobs.account[row]])
        kind, partner_kind = kinds[jobs.kind[row]], int(options.partner_kind[option])
        levels = state.cluster.spanned(state.incarnations[int(jobs.id[row])].gpus)
        if partner_kind >= 0 and levels and measured > 0:
            continue  # pairs are believed in one node, and what several cost them goes by what they cost each alone
        if not kind.profile or levels != state.cluster.fewest_levels(int(options.pool[option]), kind.width):
            continue  # it has no profile, or its placement slows it down
        accelerator = state.cluster.pools[options.pool[option]]
        partner = kinds[partner_kind].profile if partner_kind >= 0 else ""
        measured *= state.slowdown(
            int(jobs.id[row]), state.incarnations[int(jobs.id[row])].gpus
        )  # a slow GPU says nothing of the kind
        state.rates = state.rates.learned(kind.profile, accelerator, kind.width, measured, partner, 0 if partner else levels)
        touched |= {kind.profile, partner} - {""}
    if touched:
        _believe(state, [number for number, kind in enumerate(kinds) if kind.profile in touched])


def _believe(state: Ledger, numbers: list[int]) -> None:
    """New rates for these kinds; row numbers stay."""
    jobs = state.jobs
    state.options = renewed(state.options, list(state.kind_of), state.cluster, state.rates, set(numbers))
    size = jobs.size
    mine = np.isin(jobs.kind[:size], numbers).nonzero()[0]
    best = state.options.best[jobs.kind[mine]]
    jobs.best_rate[mine[best >= 0]] = state.options.rate[best[best >= 0]]
    state._traits.clear()
    runs = ((jobs.using[:size] > 0) & (jobs.rate[:size] > 0)).nonzero()[0]
    jobs.rate[runs] = state.options.rate[state.options.by_account[jobs.kind[runs], jobs.account[runs]]]
    jobs.rate[runs] /= [state.slowdown(job, state.incarnations[job].gpus) for job in jobs.id[runs].tolist()]
    state.touch()
