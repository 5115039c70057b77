"""Turns: whose turn it is when time is shared, by which option, in which order."""

from typing import NamedTuple

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.state.accounts import time_shares
from rota.model.allocation import Shares
from rota.model.units import Bools, Floats, Ints

NEGLIGIBLE_SHARE = 1e-6
"""What an interior point leaves where there should be nothing."""

MICRO = 1e6
"""Microseconds in a second."""

TIME_SHARED = 1e-3
"""A share this small is not worth a move of its own."""

AT_HOME = 0.3
"""A job that should spend this part of its running time by an option, or more, has its whole margin there."""


class ShareEntries(NamedTuple):
    """Who may run by what, with which share and where: the same at every draw."""

    position: Ints
    account: Ints
    option: Ints
    share: Floats
    pool: Ints
    total: Floats
    """Per job of the table: the part of the time that it should run; 1 if it has no share at all and fills what would idle."""
    slower: Bools
    """Whether its job has no share there, has one elsewhere, and is faster by that."""
    home: Floats
    """Which part of the margin a job has there: all where it should be much of the time, little where it should rarely be."""


def by_shares(shares: Shares, table: CandidateTable) -> tuple[Ints, Ints]:
    """Jobs and options, pool by pool, in the order they are tried. GPUs that would idle go to those without a share."""
    ways = table.memoised(shares, lambda each: _ways(shares, each))
    position, option = ways.position, ways.option
    urgency = _least_received(ways, table) if table.moves_are_free else _furthest_behind(ways, table)
    deficit = np.rint(table.deficit_seconds[position, ways.account] * MICRO)
    keys = [-ways.share, -deficit, -urgency, table.pool_order(shares.type_agnostic)[ways.pool]]
    if not table.moves_are_free:
        # Otherwise a job fills GPUs of an early pool though it has a share elsewhere and is faster there, as in Gavel.
        keys.append(ways.slower)
    all_run = shares.type_agnostic and table.types_stay and bool((table.granted_option >= 0).all())
    if all_run or not table.rounds_are_slices:
        # A granted job keeps its GPUs for the whole slice, even if new shares come sooner. If all jobs run and the policy is
        # blind to types, it keeps them for longer: no other type would be better.
        done = table.granted_option[position] != option
        if not all_run:
            done |= table.slice_left_seconds[position] <= 1e-6
        keys.append(done)
    order = np.lexsort(keys)
    return position[order], option[order]


def _least_received(ways: ShareEntries, table: CandidateTable) -> Floats:
    """As Gavel does (section 5): share over time received. At the end of a slice all are equal, whether they run or wait."""
    half = table.slice_seconds / 2 * MICRO
    # In microseconds: what was booked in pieces must not come before what was booked at once.
    had = np.rint(table.had_seconds[ways.position, ways.account] * MICRO)
    urgency: Floats = ways.share / np.maximum(had + half, half / 50)
    return urgency


def _furthest_behind(ways: ShareEntries, table: CandidateTable) -> Floats:
    """Where moves cost something: the seconds that a job is behind its share. One that runs, or has never run, counts as further
    behind by its margin: so it goes on until another is behind it by more than that.

    Who is ahead of its share counts by how long it would have to wait for the share to catch up; so what is left over is given
    in proportion to shares too."""
    share = ways.share
    promised = np.rint(share * table.shares_seconds * MICRO)
    behind = promised - np.rint(table.had_seconds[ways.position, ways.account] * MICRO)
    stays = (table.granted_option[ways.position] == ways.option) & ~table.slowed[ways.position]
    margin = table.margin_seconds(ways.total)[ways.position] * ways.home * MICRO
    behind += margin * (stays | table.never_ran[ways.position])
    urgency: Floats = np.where(behind >= 0, behind, behind / np.maximum(share, NEGLIGIBLE_SHARE))
    # Those without a share come after all others.
    urgency[share <= TIME_SHARED] -= 1e15
    return urgency


def _ways(shares: Shares, table: CandidateTable) -> ShareEntries:
    options, share = table.options, time_shares(shares, table.options, table.kind)
    rows = options.by_share_column[table.kind]
    some = share > (NEGLIGIBLE_SHARE if shares.strict else 0.0)
    worth = (rows >= 0) & ~options.too_slow[rows]
    alone = worth & (options.partner_kind[rows] < 0) & options.default_size[rows]  # idle GPUs are filled by usual sizes
    may = (worth & some) | (alone if not shares.strict else np.False_)
    # A job whose shares are all where it hardly gets further runs elsewhere.
    may |= alone & (some & (rows >= 0)).any(axis=1, keepdims=True) & ~may.any(axis=1, keepdims=True)
    position, account = may.nonzero()
    option = rows[position, account]
    total = share.sum(axis=1)
    home = np.minimum(share / np.maximum(total * AT_HOME, NEGLIGIBLE_SHARE)[:, None], 1.0)
    home[share <= TIME_SHARED] = 1.0  # they come last, and only each other's place could they take
    best = np.where((share > TIME_SHARED) & (rows >= 0), options.rate[rows], 0.0).max(axis=1)
    slower = (share[position, account] <= TIME_SHARED) & (options.rate[option] < best[position])
    total[total <= TIME_SHARED] = 1.0
    mine = share[position, account]
    return ShareEntries(position, account, option, mine, options.pool[option], total, slower, home[position, account])
