"""Candidate order: which jobs are tried by which options, in which order, and how long that order holds."""

from dataclasses import dataclass

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.turns import TIME_SHARED, by_shares
from rota.core.state.accounts import time_shares
from rota.model.allocation import Allocation, Assignment, Ranking, Shares
from rota.model.units import FOREVER, Bools, Ints


@dataclass(frozen=True, slots=True)
class Preference:
    """How jobs choose between their options."""

    may_move: bool
    """Whether a job that has GPUs may move to others where that pays."""
    type_agnostic: bool
    """Whether all types count the same."""


@dataclass(slots=True, eq=False)
class Candidates:
    """(position, option) pairs in the order they are tried, with one entry for each option that a job may run by.

    Where an option colocates two jobs, a unit is complete when both its jobs have had their turn."""

    position: Ints
    option: Ints | None
    """None: each job has one entry. It takes its only option, or with a preference the best of its options with room."""
    blocking: bool = False
    """Whether no job may overtake the first that fits nowhere."""
    reserve: bool = False
    """Whether jobs may overtake the first that fits nowhere only if they do not delay it."""
    preference: Preference | None = None
    """How each job chooses its option in its turn. None: the answer named the options."""


def order_candidates(allocation: Allocation, table: CandidateTable) -> Candidates:
    """List which jobs may run by which option, best first."""
    if isinstance(allocation, Ranking):
        return _by_rank(allocation, table)
    if isinstance(allocation, Shares):
        return Candidates(*by_shares(allocation, table))
    assert isinstance(allocation, Assignment)
    return Candidates(allocation.position, allocation.option)


def holds_seconds(allocation: Allocation, granted: Bools, some_wait: bool, table: CandidateTable) -> float:
    """How long an answer holds, given which jobs may run, and whether some wait. A starting job neither runs nor waits."""
    held = FOREVER
    if isinstance(allocation, Ranking):
        if not some_wait:
            return held  # while all jobs run, a change of rank changes nothing
        if allocation.run_seconds is not None:
            held = float(allocation.run_seconds[granted & table.running].min(initial=held))
        if allocation.wait_seconds is not None:
            held = float(allocation.wait_seconds[~granted].min(initial=held))
    elif isinstance(allocation, Shares):
        ends = some_wait
        if not ends:  # where all jobs run, some may still have to run elsewhere from time to time
            ways = (time_shares(allocation, table.options, table.kind) > TIME_SHARED).sum(axis=1)
            ends = bool((ways > 1).any())
        held = table.slice_seconds if ends else FOREVER
    return held


# Rankings ---------------------------------------------------------------------------------------------------------


def _by_rank(ranking: Ranking, table: CandidateTable) -> Candidates:
    order = ranking.order
    if not ranking.preempt:
        runs = table.granted_option[order] >= 0
        order = np.concatenate((order[runs], order[~runs]))
    option = None if ranking.option is None else ranking.option[order]
    candidates = Candidates(order, option, ranking.blocking, ranking.reserve)
    if option is None and table.options.by_kind.shape[1] > 1:
        candidates.preference = Preference(ranking.preempt or table.upgrades, ranking.type_agnostic)
        if not table.options.elastic:
            return expand_options(candidates, table)
    return candidates


def expand_options(candidates: Candidates, table: CandidateTable) -> Candidates:
    """Expand candidates to all options of each job, in its order of preference: by the steps they bring over the horizon, after
    the price of moving. A policy that is blind to types gets them in random order, and its running jobs stay, unless they are
    too slow."""
    order, preference = candidates.position, candidates.preference
    if preference is None:
        return candidates
    options = table.options.by_kind[table.kind[order]]
    rate, may_move = table.options.rate[options], preference.may_move
    if preference.type_agnostic:
        rate = 1.0 + table.pool_order(type_agnostic=True)[table.options.pool[options]].astype(np.float64)
        may_move = False
    held = table.granted_option[order][:, None]
    elsewhere = (held >= 0) & (options != held)
    if may_move:
        # A job believed to be done may still run: it must stay worth more where it is than after a move it cannot pay for.
        span = np.clip(table.seconds_left[order], 1e-6, table.horizon_seconds)[:, None]
        price = table.move_seconds[order][:, None]
        if table.options.elastic:
            here = table.options.pool[options] == table.options.pool[held]
            price = np.where(here, np.minimum(price, table.resize_seconds[order][:, None]), price)
        paid = np.maximum(span - price, 0.0)
        score = rate * np.where(elsewhere, paid, span * (1 + 1e-9 * (held >= 0)))
    else:
        score = np.where(elsewhere, -1.0, rate)
    if table.options.has_too_slow:
        stuck = (held >= 0) & table.options.too_slow[held]
        score = np.where(stuck & elsewhere, rate, score)
        score[table.options.too_slow[options]] = -1.0
    score[options < 0] = -1.0
    best = np.argsort(-score, axis=1, kind="stable")
    flat = np.take_along_axis(options, best, axis=1).ravel()
    usable = np.take_along_axis(score, best, axis=1).ravel() >= 0
    position = np.repeat(order, options.shape[1])[usable]
    return Candidates(position, flat[usable], candidates.blocking, candidates.reserve)
