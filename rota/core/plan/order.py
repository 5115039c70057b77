"""Draw: what an answer means to the mechanism: which jobs are tried by which options, in which order, and how long that holds."""

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
    """A job that has GPUs may move to others where that pays."""
    blind: bool
    """All types count the same."""


@dataclass(slots=True, eq=False)
class Candidates:
    """(position, option) pairs in the order they are tried; a job stands in it once per option it may run by.

    Where an option shares GPUs, a unit is complete when both its sides have had their turn."""

    position: Ints
    option: Ints | None
    """None: each job stands there once. It takes its only option, or with a preference the best of its options with room."""
    blocking: bool = False
    """No job may overtake the first that fits nowhere."""
    reserve: bool = False
    """Others may overtake the first that fits nowhere only if they do not delay it."""
    preference: Preference | None = None
    """How each job chooses when its turn comes, where that was left open."""


def draw(allocation: Allocation, table: CandidateTable) -> Candidates:
    """Who may run by which option, best first."""
    if isinstance(allocation, Ranking):
        return _by_rank(allocation, table)
    if isinstance(allocation, Shares):
        return Candidates(*by_shares(allocation, table))
    assert isinstance(allocation, Assignment)
    return Candidates(allocation.position, allocation.option)


def holds_seconds(allocation: Allocation, granted: Bools, table: CandidateTable) -> float:
    """How long an answer holds, given who may run. A job that is still starting neither runs nor waits."""
    held = FOREVER
    if isinstance(allocation, Ranking) and not granted.all():  # while all run, no change of rank changes anything
        if allocation.run_seconds is not None:
            held = float(allocation.run_seconds[granted & table.running].min(initial=held))
        if allocation.wait_seconds is not None:
            held = float(allocation.wait_seconds[~granted].min(initial=held))
    elif isinstance(allocation, Shares):
        ends = not granted.all()
        if not ends:  # where all run, some may still have to run elsewhere now and then
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
        candidates.preference = Preference(ranking.preempt or table.upgrades, ranking.blind)
        if not table.options.elastic:
            return expand_options(candidates, table)
    return candidates


def expand_options(candidates: Candidates, table: CandidateTable) -> Candidates:
    """The same with each job's options in its order of preference, by the steps they bring over the horizon, the price of moving
    paid first. Blind: in any order of types, and a job that runs stays, unless it hardly does."""
    order, preference = candidates.position, candidates.preference
    if preference is None:
        return candidates
    options = table.options.by_kind[table.kind[order]]
    rate, may_move = table.options.rate[options], preference.may_move
    if preference.blind:
        rate = 1.0 + table.pool_order(blind=True)[table.options.pool[options]].astype(np.float64)
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
