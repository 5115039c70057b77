"""How the core picks jobs from an answer: service, deficits and kept grants."""

import numpy as np
import pytest

from rota.core.selection import MAX_DEFICIT_SLICES, SelectionRules
from rota.model.allocation import Allocation, Assignment, Ranking, Shares
from rota.model.units import FOREVER

NONE = np.array([], dtype=np.int64)
SHARES = Shares(option=NONE, share=np.array([]))
OTHERS: list[Allocation] = [Ranking(order=NONE), Assignment(position=NONE, option=NONE)]


def test_deficits_count_as_time_not_received_or_only_break_ties() -> None:
    received, deficit = np.array([100.0, 100.0]), np.array([30.0, -20.0])
    assert SelectionRules().had_seconds(received, deficit).tolist() == [70.0, 120.0]
    assert SelectionRules(deficits_break_ties=True).had_seconds(received, deficit).tolist() == [100.0, 100.0]


def test_what_only_breaks_ties_has_no_limit() -> None:
    assert SelectionRules().max_deficit_seconds(360.0) == MAX_DEFICIT_SLICES * 360.0
    assert SelectionRules(deficits_break_ties=True).max_deficit_seconds(360.0) == FOREVER


@pytest.mark.parametrize("allocation", OTHERS)
def test_a_steady_answer_lasts_and_only_goes_on(allocation: Allocation) -> None:
    usual, steady = SelectionRules(), SelectionRules(steady=True)
    assert not usual.lasts(allocation) and not usual.only_goes_on(allocation)
    assert steady.lasts(allocation) and steady.only_goes_on(allocation)


@pytest.mark.parametrize("selection", [SelectionRules(), SelectionRules(steady=True)])
def test_shares_are_drawn_from_again_in_any_case(selection: SelectionRules) -> None:
    assert selection.lasts(SHARES) and not selection.only_goes_on(SHARES)
