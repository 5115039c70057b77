"""Debts: what shares promised and did not give, as accounts are closed."""

import numpy as np

from rota.core.state.state import State
from rota.model.units import Floats, Ints

WORTH_COUNTING = 1e-3
"""A smaller share promises nothing."""


def subtract_mean_deficit(state: State, rows: Ints, share: Floats) -> None:
    """Take from all jobs with a share of a pool what it owes them on average. Moves take time, and gangs may not fit beside each
    other: so a pool gives less than was promised. If that were owed, debts would grow, and come before every new job."""
    jobs, options, pools = state.jobs.table, state.beliefs.options, len(state.nodes.cluster.pools)
    of = options.by_share_column[jobs.kind[rows]]
    job, account = ((share > WORTH_COUNTING) & (of >= 0)).nonzero()
    option = of[job, account]
    pool, gpus = options.pool[option], options.milligpus[option]
    owed = np.bincount(pool, gpus * jobs.deficit[rows[job], account], minlength=pools)
    mean = np.maximum(owed / np.maximum(np.bincount(pool, gpus, minlength=pools), 1.0), 0.0)
    jobs.deficit[rows[job], account] -= mean[pool]
