"""Accounts: how much of its time each job should spend by each option."""

import numpy as np

from rota.model.allocation import Shares
from rota.model.options import Options
from rota.model.units import Floats, Ints


def time_shares(shares: Shares, options: Options, kind: Ints) -> Floats:
    """Fraction of time per job, of which the kinds are given, and account."""
    if shares.position is None:
        by_option = np.zeros(len(options) + 1)  # the last stands for accounts without an option
        by_option[shares.option] = shares.share
        return by_option[options.by_share_column[kind]]
    found = np.zeros((len(kind), options.share_columns))
    some = options.share_column[shares.option] >= 0  # what no job was ever given time by has no account
    found[shares.position[some], options.share_column[shares.option[some]]] = shares.share[some]
    return found
