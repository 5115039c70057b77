"""Turns if moves are expensive: shares are met over a longer time, with few moves."""

from typing import Any

import numpy as np
import pytest

from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import Rates
from rota.core.decision_timing import AtEvents
from rota.core.selection import LOST, MAX_LOST_FRACTION, SelectionRules
from rota.model.commands import Suspend
from rota.model.events import TimerFired
from tests.unit.core.helpers import Bench, of_type
from tests.unit.core.test_shares import Given, ran

SLICE = 10.0
DEAR = MoveCosts(launch_seconds=0.4)
"""With these costs the margin of a job that should run half of the time is 50 s: five slices."""


def bench(
    cluster: str, shares: dict[tuple[Any, str, str], float], jobs: str, costs: MoveCosts | None = DEAR, **more: Any
) -> Bench:
    policy = Given(shares)
    policy.kinds = list(dict.fromkeys(jobs))  # type: ignore[attr-defined]
    rates = more.pop("rates", Rates(speeds={}))
    made = Bench(cluster, policy, rates=rates, costs=costs, decide=AtEvents(slice_seconds=SLICE), **more)
    for name in jobs:
        made.obey(made.submit(profile=name, steps=1e9))
    return made


def turn(made: Bench, until_s: float) -> int:
    """Slice by slice; returns the suspensions."""
    suspended = 0
    while made.now_s + SLICE <= until_s:
        at_s = made.now_s + SLICE
        suspended += len(of_type(made.obey(made.tell(TimerFired(at_s), at_s=at_s), steps=0.0), Suspend))
    return suspended


def test_dear_moves_are_few_and_shares_are_met() -> None:
    half = {("a", "", "V100"): 0.5, ("b", "", "V100"): 0.5}
    cheap, dear = bench("1xV100", half, "ab", None), bench("1xV100", half, "ab")
    moves, fewer = turn(cheap, 3000.0), turn(dear, 3000.0)
    assert moves >= 295, "without costs: every slice, as before"
    assert fewer <= 3000.0 / 90, "turns of about twice the margin of 50 s"
    assert ran(dear) == pytest.approx([1500.0, 1500.0], abs=70.0)


@pytest.mark.parametrize("shares", [(0.5, 0.3, 0.2), (0.9, 0.06, 0.04), (1 / 3, 1 / 3, 1 / 3)])
def test_time_is_in_proportion_to_shares(shares: tuple[float, ...]) -> None:
    wanted = {(name, "", "V100"): share for name, share in zip("abc", shares, strict=True)}
    made = bench("1xV100", wanted, "abc")
    turn(made, 6000.0)
    assert ran(made) == pytest.approx(np.array(shares) * 6000.0, abs=100.0)


def test_time_is_in_proportion_on_each_type() -> None:
    wanted = {("a", "", "V100"): 0.75, ("a", "", "K80"): 0.25, ("b", "", "V100"): 0.25, ("b", "", "K80"): 0.75}
    made = bench("1xV100 + 1xK80", wanted, "ab")
    moves = turn(made, 6000.0)
    received = made.state.jobs.table.received[:2, :2]
    assert received / received.sum(axis=1, keepdims=True) == pytest.approx(np.array([[0.75, 0.25], [0.25, 0.75]]), abs=0.03)
    assert moves < 150, "both move 4 times in 400 s at most; slice by slice it would be 300"


def test_a_job_that_has_never_run_need_not_wait_for_the_margin() -> None:
    half = {("a", "", "V100"): 0.5, ("b", "", "V100"): 0.5}
    made = bench("1xV100", half, "a")
    turn(made, 100.0)
    made.policy.kinds = ["a", "b"]  # type: ignore[attr-defined]
    made.obey(made.submit(profile="b", steps=1e9))
    turn(made, 120.0)
    assert ran(made)[1] > 0, "its first turn comes with the end of a slice"


def test_who_has_no_share_gives_way_at_the_end_of_its_slice() -> None:
    """Job a has a GPU only because it would idle; it has no margin there."""
    made = bench("1xV100", {("a", "", "V100"): 0.0, ("b", "", "V100"): 0.2}, "ab")
    turn(made, 1000.0)
    assert ran(made)[0] <= 2 * SLICE


def test_debts_of_all_are_forgiven_and_debts_of_one_are_not() -> None:
    """Two jobs are owed 80 s each by a GPU that cannot give them. A third comes, and is not behind them."""
    made = bench("1xV100", {("a", "", "V100"): 1 / 3}, "aa")
    made.state.jobs.table.deficit[:2, 0] = 80.0
    made.obey(made.submit(profile="a", steps=1e9))
    assert made.state.jobs.table.deficit[:3, 0].sum() == pytest.approx(0.0, abs=1e-6)
    made.state.jobs.table.deficit[:3, 0] = (90.0, 0.0, 0.0)
    made.obey(made.submit(profile="a", steps=1e9))
    deficit = made.state.jobs.table.deficit[:3, 0]
    assert deficit[0] - deficit[1] == pytest.approx(90.0), "who is owed more than others still is"
    free = bench("1xV100", {("a", "", "V100"): 1 / 3}, "aa", None)
    free.state.jobs.table.deficit[:2, 0] = 80.0
    free.obey(free.submit(profile="a", steps=1e9))
    assert free.state.jobs.table.deficit[:2, 0].tolist() == [80.0, 80.0], "where moves are free, all is as it was"


def test_a_job_that_is_slowed_down_where_it_is_has_no_margin() -> None:
    """Its GPUs are slow, or far apart: to be placed anew is good for it."""
    half = {("a", "", "V100"): 0.5, ("b", "", "V100"): 0.5}
    made, moves = bench("1xV100", half, "ab"), 0
    for _ in range(100):
        table = made.state.jobs.table
        table.rate[:2] = np.where(table.gpus_in_use[:2] > 0, 0.5, 0.0)  # as after a start on GPUs that are twice as slow
        moves += turn(made, made.now_s + SLICE)
    assert moves >= 95, "every slice"
    assert ran(made) == pytest.approx([500.0, 500.0], abs=2 * SLICE)


def test_the_margin_follows_from_the_cost() -> None:
    cost, share = np.array([14.0, 14.0, 14.0, 1.0, 1e6]), np.array([1.0, 0.5, 0.01, 0.5, 1.0])
    margin = SelectionRules().margin_seconds(cost, share, 3600.0)
    assert margin[0] == margin[1] == 14.0 / (2 * LOST)
    assert margin[2] == 14.0 / (2 * MAX_LOST_FRACTION), "who should run little has short turns, and loses two per cent at most"
    assert margin[3] == pytest.approx(margin[1] / 14)
    assert margin[4] == 1800.0, "turns are no longer than the horizon"
    assert SelectionRules().saves_moves and not SelectionRules(deficits_break_ties=True).saves_moves
