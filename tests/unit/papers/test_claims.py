"""When a claim holds, and what a curve shows."""

import pytest

from rota.papers.claims import claim, geomean, largest_gain, sustained, unjudged


@pytest.mark.parametrize(
    ("paper", "measured", "holds"),
    [(3.5, 3.5, True), (3.5, 3.0, True), (3.5, 2.99, False), (1.4, 1.32, True), (1.4, 1.31, False), (1.2, 1.0, False)],
)
def test_a_claim_holds_from_four_fifths_of_the_gain(paper: float, measured: float, holds: bool) -> None:
    assert claim("it", paper=paper, measured=measured).holds is holds


@pytest.mark.parametrize(("measured", "holds"), [(40, True), (32, True), (31.9, False), (-5, False)])
def test_of_what_is_saved_none_is_nothing(measured: float, holds: bool) -> None:
    assert claim("it", paper=40, measured=measured, unit="%").holds is holds


@pytest.mark.parametrize(("measured", "holds"), [(1.0, True), (1.4, True), (1.49, True), (1.51, False)])
def test_where_less_is_better(measured: float, holds: bool) -> None:
    assert claim("it", paper=1.4, measured=measured, below=True).holds is holds


def test_what_cannot_be_compared_is_shown_and_not_judged() -> None:
    found = unjudged("it", paper=28.0, measured=17.0, unit="%", note="nobody knows what it means")
    assert (found.measured, found.holds, found.note) == (17.0, None, "nobody knows what it means")


def test_geometric_means() -> None:
    assert geomean([0.5, 2.0]) == pytest.approx(1.0)
    assert geomean([]) is None


def test_a_direction_without_a_number() -> None:
    assert claim("it", paper=1.0, measured=1.01, above=True).holds is True
    assert claim("it", paper=1.0, measured=1.0, above=True).holds is False


def test_what_was_not_measured_is_not_judged() -> None:
    found = claim("it", paper=2.0, measured=None)
    assert found.holds is None and found.note
    assert found.to_dict() == {"name": "it", "paper": 2.0, "measured": None, "unit": "x", "holds": None, "note": found.note}


def test_the_largest_gain_and_where() -> None:
    assert largest_gain({1: 10, 2: 30, 3: 90}, {1: 10, 2: 10, 4: 1}) == (3.0, 2)
    assert largest_gain({1: 10}, {2: 10}) is None
    assert largest_gain({1: 10, 2: 4}, {1: 0, 2: 2}) == (2.0, 2), "nothing is not a divisor"


def test_how_far_a_curve_goes() -> None:
    curve = {1.0: 10.0, 2.0: 20.0, 3.0: 60.0}
    assert sustained(curve, 40) == 2.5
    assert sustained(curve, 100) == 3.0, "it never gets there"
    assert sustained(curve, 5) is None
    assert sustained({}, 5) is None
