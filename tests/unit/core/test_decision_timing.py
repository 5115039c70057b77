"""When the core decides: rounds, turns, and what may not be written."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.beliefs.move_costs import MemoryCosts, MoveCosts
from rota.core.decision_timing import AtEvents, AtRounds, DecisionTiming, WholeSteps
from rota.core.settings import Settings
from rota.errors import OptionError
from rota.model.events import TimerFired
from rota.model.units import FOREVER
from tests.unit.core.helpers import Bench

lengths = st.sampled_from([0.1, 1.1, 59.9, 300.3, 360.0]) | st.floats(1e-3, 1e5)
instants = st.sampled_from([0.0, 360.0, 719.9]) | st.floats(0.0, 1e9)


@given(lengths, instants, st.booleans())
@settings(derandomize=True)
def test_rounds_begin_at_multiples(seconds: float, now_s: float, at_events: bool) -> None:
    rounds = AtRounds(round_seconds=seconds, at_events=at_events)
    first_s = rounds.first_round_s(now_s)
    rounding = 1e-9 * seconds + 1e-12 * now_s
    assert first_s == round(first_s / seconds) * seconds
    assert -rounding <= first_s - now_s <= seconds + rounding, "not in the past, and the first that comes"


@given(lengths, instants, instants)
@settings(derandomize=True)
def test_the_next_round_is_after_now_and_late_ones_are_skipped(seconds: float, next_round_s: float, now_s: float) -> None:
    rounds = AtRounds(round_seconds=seconds)
    found_s = rounds.next_round_s(next_round_s, now_s, FOREVER)
    assert found_s > now_s, "a round that begins now would begin again and again"
    if now_s < next_round_s:
        assert found_s == next_round_s, "a plan made between rounds does not move the next"
    else:
        assert found_s - now_s <= 2 * seconds + now_s * 1e-12 and found_s == round(found_s / seconds) * seconds


def test_rounds_of_whole_steps_follow_each_other() -> None:
    rounds = WholeSteps(round_seconds=360.0)
    assert rounds.first_round_s(17.0) == 17.0, "the first begins with the first job"
    assert rounds.next_round_s(17.0, 17.0, 350.5) == 350.5, "the next when all have done their steps"
    assert rounds.steps_per_round(np.array([1.0, 0.03, 0.001])).tolist() == [360.0, 10.0, 1.0]


def test_a_round_of_whole_steps_waits_for_a_job_that_is_moved() -> None:
    """A move takes as long as the job itself takes to save and load, also where others move for nothing."""
    costs = MoveCosts(memory=MemoryCosts(save=1.0, load=0.5))
    bench = Bench("4xV100", costs=costs, decide=WholeSteps(round_seconds=60.0))
    bench.obey(bench.submit(steps=100.0, least_gib=6.0))
    assert bench.state.cycle.until_s == 69.0, "it starts"
    bench.obey(bench.tell(TimerFired(69.0), at_s=69.0))
    assert bench.state.cycle.until_s == 100.0, "it goes on, with 31 steps to do"


def test_who_has_done_its_whole_steps_rests() -> None:
    elapsed, steps, rate = np.array([360.0, 360.0]), np.array([10.0, 100.0]), np.array([0.03125, 1.0])
    assert WholeSteps(round_seconds=360.0).worked_seconds(elapsed, steps, rate).tolist() == [320.0, 100.0]
    for each in (AtEvents(), AtRounds(round_seconds=360.0)):
        assert each.worked_seconds(elapsed, steps, rate).tolist() == [360.0, 360.0]


@pytest.mark.parametrize(
    ("decide", "at_events", "turn_seconds", "begins_s"),
    [
        (AtEvents(), True, 360.0, FOREVER),
        (AtEvents(slice_seconds=20.0), True, 20.0, FOREVER),
        (AtRounds(round_seconds=60.0), False, 60.0, 100.0),
        (AtRounds(round_seconds=60.0, at_events=True), True, 60.0, 100.0),
        (WholeSteps(round_seconds=60.0), False, 60.0, 100.0),
    ],
)
def test_what_each_answers(decide: DecisionTiming, at_events: bool, turn_seconds: float, begins_s: float) -> None:
    assert (decide.at_events, decide.turn_seconds, decide.round_begins_s(100.0)) == (at_events, turn_seconds, begins_s)


@pytest.mark.parametrize("decide", [AtEvents(), AtRounds(round_seconds=60.0), WholeSteps(round_seconds=60.0)])
def test_the_policy_is_asked_at_most_so_often(decide: DecisionTiming) -> None:
    assert decide.may_ask_s(10.0) == 10.0 and decide.may_ask_s(-FOREVER) == -FOREVER
    assert dataclasses.replace(decide, solve_every_seconds=1920.0).may_ask_s(10.0) == 1930.0


@pytest.mark.parametrize(
    ("kind", "values", "field"),
    [
        (AtRounds, {"round_seconds": -1.0}, "round_seconds"),
        (AtRounds, {"round_seconds": 0.0}, "round_seconds"),
        (AtRounds, {"round_seconds": math.nan}, "round_seconds"),
        (AtRounds, {"round_seconds": math.inf}, "round_seconds"),
        (WholeSteps, {"round_seconds": 0.0}, "round_seconds"),
        (AtEvents, {"slice_seconds": 0.0}, "slice_seconds"),
        (AtEvents, {"slice_seconds": math.nan}, "slice_seconds"),
        (AtEvents, {"solve_every_seconds": -1.0}, "solve_every_seconds"),
        (WholeSteps, {"round_seconds": 360.0, "solve_every_seconds": math.nan}, "solve_every_seconds"),
    ],
)
def test_lengths_that_make_no_sense_are_refused(kind: type, values: dict[str, float], field: str) -> None:
    with pytest.raises(OptionError) as error:
        kind(**values)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (AtRounds, {}),
        (WholeSteps, {}),
        (WholeSteps, {"round_seconds": 360.0, "at_events": True}),
        (AtEvents, {"at_events": False}),
        (AtEvents, {"round_seconds": 360.0}),
        (AtRounds, {"round_seconds": 360.0, "slice_seconds": 60.0}),
    ],
)
def test_what_does_not_go_together_cannot_be_written(kind: type, values: dict[str, Any]) -> None:
    """Rounds have a length, whole steps no decisions between rounds, and slices are for where there are no rounds."""
    with pytest.raises(TypeError):
        kind(**values)


@pytest.mark.parametrize("later", [AtRounds(round_seconds=60.0), AtRounds(round_seconds=60.0, at_events=True)])
def test_a_scheduler_that_is_given_rounds_while_jobs_wait_begins_one_at_once(later: DecisionTiming) -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(at_s=130.0))
    plans = bench.state.cycle.plans
    bench.core.settings = Settings(decide=later)
    bench.obey(bench.tell(TimerFired(150.0), at_s=150.0))
    assert bench.state.cycle.plans > plans and bench.state.cycle.next_round_s == 180.0
