"""Steps per second of live jobs: right to the step, and never across a change of conditions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.agent.attempt_files import AttemptStatus
from rota.agent.gpu_use import GpuUse
from rota.live.step_rates import FIRST_SECONDS, LATER_SECONDS, MIN_STEPS, StepRates
from rota.model.events import Measured
from tests.unit.live.test_starts import RUNS

HERE = RUNS._replace(gpus_text="n1:0", began_s=100.0)


def at(status: AttemptStatus, steps: float, moment_s: float) -> AttemptStatus:
    return status._replace(steps_done=steps, stepped_s=moment_s)


def began(*parts: AttemptStatus) -> dict[tuple[int, int], float]:
    return {(part.job, part.attempt): part.began_s for part in parts if part.began_s is not None}


def look(rates: StepRates, *parts: AttemptStatus) -> Measured | None:
    """A look, and what it completes."""
    rates.look(parts, began(*parts))
    return rates.measured(1e6)


def rates_of(measured: Measured | None) -> dict[int, tuple[float, float]]:
    """Of each job since when, and its rate."""
    if measured is None:
        return {}
    found = zip(measured.since_s.tolist(), measured.rate.tolist(), strict=True)
    return dict(zip(measured.jobs.tolist(), found, strict=True))


def test_from_step_to_step_and_not_from_look_to_look() -> None:
    rates = StepRates()
    assert look(rates, HERE) is None, "it has told no step"
    assert look(rates, at(HERE, 1, 100.0)) is None
    assert look(rates, at(HERE, 4, 100.0 + FIRST_SECONDS)) is None, "too few steps"
    found = look(rates, at(HERE, 9, 104.0))
    assert found is not None and rates_of(found) == {1: (100.0, 2.0)}
    assert all(math.isnan(each[0]) for each in (found.utilization, found.peak_gib, found.least_gib)) and found.at_s == 1e6
    assert found.attempts.tolist() == [1]


def test_later_windows_are_longer_and_follow_each_other() -> None:
    rates = StepRates()
    for steps, moment_s in ((1, 100.0), (11, 105.0)):
        found = look(rates, at(HERE, steps, moment_s))
    assert rates_of(found) == {1: (100.0, 2.0)}
    assert look(rates, at(HERE, 25, 104.0 + LATER_SECONDS)) is None
    assert rates_of(look(rates, at(HERE, 41, 120.0))) == {1: (105.0, 2.0)}


def test_a_partner_begins_and_leaves() -> None:
    rates, partner = StepRates(), HERE._replace(job=2, attempt=3, began_s=110.0)
    look(rates, at(HERE, 1, 100.0))
    starting = partner._replace(began_s=None)
    assert look(rates, at(HERE, 19, 109.0), starting) is None, "while it starts nobody is measured"
    assert look(rates, at(HERE, 20, 109.9), at(partner, 1, 110.0)) is None, "a step from before it came says nothing"
    look(rates, at(HERE, 21, 110.5), at(partner, 2, 111.0))
    found = rates_of(look(rates, at(HERE, 31, 115.5), at(partner, 7, 116.0)))
    assert found == {1: (110.5, 2.0), 2: (110.0, 1.0)}
    stopping = at(partner, 9, 118.0)._replace(stop_reason="suspend")
    assert look(rates, at(HERE, 91, 145.5), stopping) is None, "while it saves nobody is measured"
    gone = stopping._replace(state="ended", ended_s=146.0)
    assert look(rates, at(HERE, 92, 145.8), gone) is None
    look(rates, at(HERE, 93, 146.5))
    assert rates_of(look(rates, at(HERE, 113, 150.5))) == {1: (146.5, 5.0)}


def test_who_has_other_gpus_is_no_company() -> None:
    rates, other = StepRates(), HERE._replace(job=2, gpus_text="n1:1", began_s=None)
    look(rates, at(HERE, 1, 100.0), other)
    assert rates_of(look(rates, at(HERE, 11, 105.0), other)) == {1: (100.0, 2.0)}


def test_steps_that_count_again_begin_a_window() -> None:
    rates = StepRates()
    look(rates, at(HERE, 50, 100.0))
    look(rates, at(HERE, 40, 101.0))
    assert rates_of(look(rates, at(HERE, 50, 106.0))) == {1: (101.0, 2.0)}


@given(
    st.lists(st.floats(2.0, 40.0), min_size=1, max_size=8),
    st.floats(0.5, 9.0),
    st.floats(0.2, 0.9),
    st.floats(0.3, 1.7),
)
def test_every_measurement_is_of_one_company(stretches: list[float], alone: float, share: float, every: float) -> None:
    """A partner comes and goes; steps fall where they fall, and looks too. What is measured is one of the two true rates."""
    rates, now_s, progress, begun_s = StepRates(), 100.0, 0.0, 100.0
    steps, step_s, look_s = 0.0, 100.0, 100.0
    before: AttemptStatus | None = None
    for number, seconds in enumerate(stretches):
        together = number % 2 == 1
        pace = alone * share if together else alone
        partner = HERE._replace(job=2, attempt=number, began_s=now_s) if together else None
        while look_s < now_s + seconds:
            done = progress + pace * (look_s - now_s)
            if math.floor(done) > steps:
                steps = float(math.floor(done))
                step_s = now_s + (steps - progress) / pace
            parts = [at(HERE, steps, step_s), *([partner] if partner else []), *([before] if before else [])]
            for since_s, rate in rates_of(look(rates, *parts)).values():
                assert since_s >= begun_s - 1e-9 and rate == pytest.approx(pace, rel=1e-6)
            before, look_s = None, look_s + every
        progress, now_s, begun_s = progress + pace * seconds, now_s + seconds, now_s + seconds
        before = partner._replace(state="ended", ended_s=now_s) if partner else None


def test_few_steps_are_waited_for() -> None:
    rates = StepRates()
    for step in range(MIN_STEPS):
        assert look(rates, at(HERE, 1 + step, 100.0 + 60 * step)) is None
    assert rates_of(look(rates, at(HERE, 5, 340.0))) == {1: (100.0, pytest.approx(1 / 60))}


def test_what_is_parked_on_its_gpus_keeps_no_job_from_being_measured() -> None:
    rates, other = StepRates(), HERE._replace(job=2)
    sleeping = at(other, 50, 111.0)._replace(state="parked", parked_s=112.0)
    assert look(rates, at(HERE, 1, 111.5), sleeping) is None, "they were together until it fell asleep"
    look(rates, at(HERE, 2, 112.5), sleeping)
    assert rates_of(look(rates, at(HERE, 12, 117.5), sleeping)) == {1: (112.5, 2.0)}


def used(at_s: float, utilization: float = math.nan, gib: float = math.nan) -> dict[tuple[int, int], GpuUse]:
    return {(1, 1): GpuUse(at_s, utilization, gib)}


def looked(rates: StepRates, status: AttemptStatus, use: dict[tuple[int, int], GpuUse]) -> Measured | None:
    rates.look([status], began(status), use)
    return rates.measured(1e6)


def figures(measured: Measured | None) -> tuple[float, ...]:
    assert measured is not None
    return tuple(each.item(0) for each in (measured.utilization, measured.peak_gib, measured.least_gib))


def test_utilisation_and_memory_over_the_same_window() -> None:
    rates = StepRates()
    rates.look([at(HERE, 1, 100.0)], began(HERE), used(99.5, 0.1, 50.0))  # before its window: it was starting
    for moment_s, busy, gib in ((101.0, 0.8, 4.0), (101.0, 0.0, 9.0), (102.0, math.nan, 6.0), (103.0, 0.4, math.nan)):
        rates.look([at(HERE, 5, 102.0)], began(HERE), used(moment_s, busy, gib))
    found = looked(rates, at(HERE, 9, 104.0), used(103.5, 0.6, 5.0))
    assert rates_of(found) == {1: (100.0, 2.0)}
    assert figures(found) == pytest.approx((0.6, 6.0, 4.0)), (
        "no reading twice, none from before, and what is not known counts nowhere"
    )
    for moment_s in (106.0, 110.0):
        rates.look([at(HERE, 20, moment_s)], began(HERE), used(moment_s, 0.2, 3.0))
    assert figures(looked(rates, at(HERE, 39, 119.0), {})) == pytest.approx((0.2, 3.0, 3.0)), "the next window begins anew"


def test_memory_of_a_job_that_tells_no_steps_when_it_grows() -> None:
    rates = StepRates()
    found = looked(rates, HERE, used(101.0, 0.9, 10.0))
    assert found is not None and math.isnan(found.rate[0]) and found.peak_gib[0] == 10.0 and found.since_s[0] == 101.0
    assert looked(rates, HERE, used(102.0, 0.9, 10.2)) is None, "hardly more"
    assert figures(looked(rates, HERE, used(103.0, 0.9, 12.0)))[1] == 12.0
    silent = HERE._replace(began_s=None)
    assert looked(StepRates(), silent, used(101.0, 0.9, 10.0)) is None, "it has not started yet"
