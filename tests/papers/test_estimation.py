"""Estimates for unprofiled jobs, on Gavel's table (Narayanan et al., OSDI'20, section 6 of the paper)."""

import functools

import pytest

from rota.beliefs.estimate import Estimator
from rota.beliefs.rates import Rates
from rota.profiles.estimate_error import ACROSS_NODES, COLOCATED, EVERY, EXCLUSIVE, EstimateErrorLine, left_out
from rota.profiles.measured_rates import read_measured
from tests.shared import SHARED

GAVEL = SHARED / "data" / "gavel" / "simulation_throughputs.json"

pytestmark = pytest.mark.skipif(not GAVEL.is_file(), reason="the reference data folder is not beside the checkout")


@functools.cache
def table() -> Rates:
    return read_measured(GAVEL)


@functools.cache
def totals(hide: float) -> dict[str, EstimateErrorLine]:
    return {line.what: line for line in left_out(table(), hide, seed=0).lines if line.accelerator == EVERY}


def test_what_was_measured_is_what_is_said() -> None:
    rates = table()
    known = Estimator(rates)
    for name in {profile for profile, _, _ in rates.table}:
        assert known.nearest(name) == (name, 1.0)
    for key, both in rates.pairs.items():
        assert known.colocated_rates(*key) == (both, 0.0)
    for (profile, kind, gpus), rate in rates.table.items():
        assert known.rate(profile, kind, gpus) == (rate, 0.0)


def test_a_new_name_with_every_cell_measured_is_found() -> None:
    rates, name = table(), "LM (batch size 20)"
    known = Estimator(rates)
    for (profile, kind, gpus), rate in rates.table.items():
        if profile == name:
            known = known.observed("mine", kind, gpus, 3 * rate)
    assert known.nearest("mine") == (name, pytest.approx(1.0))


@pytest.mark.parametrize(
    ("hide", "alone", "apart", "shared"), [(0.4, 1.15, 1.12, 1.10), (0.7, 1.20, 1.15, 1.13), (0.9, 1.35, 1.30, 1.18)]
)
def test_better_than_the_naive_guess(hide: float, alone: float, apart: float, shared: float) -> None:
    lines = totals(hide)
    assert set(lines) == {EXCLUSIVE, ACROSS_NODES, COLOCATED}
    for what, most in ((EXCLUSIVE, alone), (ACROSS_NODES, apart), (COLOCATED, shared)):
        line = lines[what]
        assert line.cells >= 70 and line.misjudged <= 0.1 * line.cells
        assert line.typical_factor is not None and line.naive_typical_factor is not None
        assert line.typical_factor <= most, line
        assert line.typical_factor - 1 < 0.7 * (line.naive_typical_factor - 1), line
        assert line.p90_factor is not None and line.naive_p90_factor is not None and line.p90_factor < line.naive_p90_factor, line


@pytest.mark.parametrize("hide", [0.4, 0.7, 0.9])
def test_the_spread_is_honest(hide: float) -> None:
    """Of rates alone; that of a pair contains that of the rate alone, so it is larger than the error of the ratio."""
    for what in (EXCLUSIVE, ACROSS_NODES):
        line = totals(hide)[what]
        assert line.said_spread is not None and line.typical_factor is not None
        assert 0.6 < line.said_spread / (line.typical_factor - 1) < 2, line


def test_more_measured_is_better() -> None:
    for what in (EXCLUSIVE, ACROSS_NODES, COLOCATED):
        factors = [totals(hide)[what].typical_factor or 0 for hide in (0.4, 0.7, 0.9)]
        assert factors == sorted(factors), what
