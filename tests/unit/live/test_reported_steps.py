"""Reported steps: at most the requested number counts."""

import math

import pytest

from rota.agent.attempt_files import AttemptStatus
from rota.live.reported_steps import within_requested
from rota.live.requests import shown_spec
from rota.server.answers import JsonAnswer
from rota.wire.spec import MAX_STEPS, Spec
from rota.wire.submission import Submission
from tests.unit.live.test_history import left


def status() -> AttemptStatus:
    return left(None, 1.0, 0.0)


def job(steps: int | None) -> Submission:
    return Submission(Spec(run="x", steps=steps), "ana", "/", {})


@pytest.mark.parametrize(
    ("steps", "done", "saved", "counts", "problem"),
    [
        (100, 40.0, 30.0, (40.0, 30.0), None),
        (100, 100.0, 100.0, (100.0, 100.0), None),
        (100, 120.0, 90.0, (100.0, 90.0), "it reported 120 steps; 100 were requested, and no more count"),
        (100, 1e308, 1e308, (100.0, 100.0), "it reported 1e+308 steps; 100 were requested, and no more count"),
        (None, 1e9, 0.0, (1e9, 0.0), None),
        (None, 1e308, 0.0, (1e15, 0.0), "it reported 1e+308 steps; a job has at most 1e+15, and no more count"),
    ],
)
def test_no_more_steps_count_than_were_requested(
    steps: int | None, done: float, saved: float, counts: tuple[float, float], problem: str | None
) -> None:
    found = within_requested(status()._replace(steps_done=done, steps_saved=saved), lambda number: job(steps))
    assert (found.steps_done, found.steps_saved) == counts and found.steps_problem == problem


def test_the_total_that_a_job_reports_is_limited_too() -> None:
    found = within_requested(status()._replace(steps_done=1.0, steps_total=1e308), lambda number: job(None))
    assert (found.steps_total, found.steps_problem) == (float(MAX_STEPS), None)


def test_a_process_that_the_scheduler_does_not_know_is_taken_as_it_is() -> None:
    def unknown(number: int) -> Submission:
        raise KeyError(number)

    assert within_requested(status(), unknown) == status()


def test_deadlines_are_told_as_dates() -> None:
    sent = Submission(Spec(run="x", deadline="2030-03-17T18:46:40+01:00"), "ana", "/", {})
    assert shown_spec(sent, "x")["deadline"] == "2030-03-17T17:46:40Z" and shown_spec(job(1), "x")["deadline"] is None


def test_numbers_that_json_does_not_know_are_left_out() -> None:
    assert JsonAnswer([{"a": math.inf, "b": [1.5, math.nan]}]).body == b'[{"a":null,"b":[1.5,null]}]'
