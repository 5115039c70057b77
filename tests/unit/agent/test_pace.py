"""The point from which the rate of a job is measured, with fake sequences of reports."""

import math

import pytest

from rota.agent.pace import MAX_SECONDS, Pace


def run(reports: list[tuple[float, float]]) -> tuple[Pace, float]:
    """After these (second, steps); and the steps per second since then."""
    pace = Pace()
    for at_s, steps in reports:
        pace = pace.stepped(steps, at_s)
    at_s, steps = reports[-1]
    assert pace.since_s is not None
    return pace, (steps - pace.since_steps) / (at_s - pace.since_s) if at_s > pace.since_s else math.nan


def test_the_time_before_the_first_step_is_not_part_of_it() -> None:
    """A start of a minute, then fifty steps a second."""
    pace, rate = run([(60.0, 1.0), (60.5, 26.0)])
    assert (pace.since_s, pace.since_steps) == (60.0, 1.0) and rate == pytest.approx(50.0)


def test_one_report_says_nothing() -> None:
    assert math.isnan(run([(60.0, 50.0)])[1])


def test_first_steps_that_are_slow_are_left_behind() -> None:
    """Ten steps of a second each while kernels are compiled, then ten a second."""
    slow = [(float(at), float(at)) for at in range(1, 11)]
    fast = [(10.0 + at / 10, 10.0 + at) for at in range(1, 600)]
    _, rate = run(slow + fast[:50])
    assert rate < 8.0, "five seconds later they still count"
    _, rate = run(slow + fast)
    assert rate == pytest.approx(10.0)


def test_a_job_that_becomes_slower_is_slower_after_a_few_minutes() -> None:
    before = [(float(at), 100.0 * at) for at in range(1, 3600)]
    after = [(3600.0 + at, 360_000.0 + 10 * at) for at in range(1, int(2 * MAX_SECONDS) + 2)]
    _, rate = run(before + after)
    assert rate == pytest.approx(10.0)


def test_the_past_that_counts_is_short() -> None:
    pace, _ = run([(float(at), float(at)) for at in range(10_000)])
    assert pace.since_s is not None and MAX_SECONDS <= 9_999 - pace.since_s <= 2 * MAX_SECONDS


def test_one_that_goes_back_begins_again() -> None:
    pace, _ = run([(1.0, 100.0), (2.0, 200.0), (3.0, 90.0)])
    assert (pace.since_s, pace.since_steps) == (3.0, 90.0)
