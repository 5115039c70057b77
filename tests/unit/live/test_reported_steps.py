"""Jobs that report more steps than there are, and jobs in a home that this version would not take."""

import math
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from rota.agent.orders import AttemptStatus
from rota.live.queued_requests import NewJob
from rota.live.reported_steps import within_requested
from rota.live.requests import asked_for, submitted_job, to_job_spec
from rota.model.events import Progressed
from rota.server.answers import JsonAnswer
from rota.wire.job_filter import JobFilter
from rota.wire.spec import MAX_STEPS, Spec
from rota.wire.submitted import SubmittedJob
from tests.unit.live.test_daemon import ended, running, submit
from tests.unit.live.test_history import left

LIAR = "for i in 1 2 3; do echo step 1{}; sleep 0.3; done"


def status() -> AttemptStatus:
    return left(None, 1.0, 0.0)


def job(steps: int | None) -> SubmittedJob:
    return submitted_job(Spec(run="x", steps=steps), "ana", "/", {})


@pytest.mark.parametrize(
    ("steps", "done", "saved", "counts", "problem"),
    [
        (100, 40.0, 30.0, (40.0, 30.0), ""),
        (100, 100.0, 100.0, (100.0, 100.0), ""),
        (100, 120.0, 90.0, (100.0, 90.0), "it reported 120 steps; 100 were requested, and no more count"),
        (100, 1e308, 1e308, (100.0, 100.0), "it reported 1e+308 steps; 100 were requested, and no more count"),
        (None, 1e9, 0.0, (1e9, 0.0), ""),
        (None, 1e308, 0.0, (1e15, 0.0), "it reported 1e+308 steps; a job has at most 1e+15, and no more count"),
    ],
)
def test_no_more_steps_count_than_were_requested(
    steps: int | None, done: float, saved: float, counts: tuple[float, float], problem: str
) -> None:
    found = within_requested(replace(status(), steps_done=done, steps_saved=saved), lambda number: job(steps))
    assert (found.steps_done, found.steps_saved) == counts and found.steps_problem == problem


def test_the_total_that_a_job_reports_is_limited_too() -> None:
    found = within_requested(replace(status(), steps_done=1.0, steps_total=1e308), lambda number: job(None))
    assert (found.steps_total, found.steps_problem) == (float(MAX_STEPS), "")


def test_a_process_that_the_scheduler_does_not_know_is_taken_as_it_is() -> None:
    def unknown(number: int) -> SubmittedJob:
        raise KeyError(number)

    assert within_requested(status(), unknown) == status()


@pytest.mark.parametrize(("steps", "most"), [(12, 12.0), (None, 1e15)])
def test_a_job_that_lies_about_its_steps(tmp_path: Path, steps: int | None, most: float) -> None:
    """As it runs, and as it is told when it has ended; the scheduler learns no rate that could not be."""
    with running(tmp_path, "1xV100") as daemon:
        number = submit(daemon, LIAR.format("0" * 300), steps=steps, progress=r"step (\d+)")
        row = ended(daemon, number)
        assert row.phase == "finished" and row.steps_done is not None and row.steps_done <= most
        assert "it reported 1e+300 steps" in row.steps_problem
        assert daemon.jobs(JobFilter(everything=True))[0].steps_problem == row.steps_problem
        events = [event for entry in daemon.journal.entries() for event in entry.events if isinstance(event, Progressed)]
        assert events and all(event.steps_done.max() <= most for event in events)
        assert math.isfinite(daemon.scheduler.state.now_s)
    with running(tmp_path, "1xV100") as daemon:
        assert "it reported 1e+300 steps" in daemon.job(str(number)).steps_problem, "also after a restart"


def test_a_job_of_an_earlier_version_can_be_shown(tmp_path: Path) -> None:
    """Earlier versions took deadlines that no date can say, and any number of steps."""
    with running(tmp_path, "1xV100") as daemon:
        submit(daemon, ["sleep", "300"])
        old = replace(job(10), deadline_at=253402387139.0, steps=int(1e308), grace_seconds=1e308, name="old")
        old = replace(old, batch_size=2**62, batch_sizes=(2**62,))
        done: Future[int] = Future()
        daemon._items.put(NewJob(old, to_job_spec(old, daemon.clock()), "exit: it saves", done))
        number = done.result(60)
        row = daemon.job(str(number))
        assert row.spec is not None and row.spec["deadline"] == "253402387139 seconds since 1970"
        for found in (row, daemon.jobs(), daemon.why(number), daemon.status()):
            assert JsonAnswer(found).body
        daemon.cancel(number)
        daemon.cancel(1)
        ended(daemon, 1)
    with running(tmp_path, "1xV100") as daemon:
        assert daemon.job("old").steps_total == 1e308


def test_deadlines_are_told_as_dates() -> None:
    deadline = replace(job(1), deadline_at=1900000000.0)
    assert asked_for(deadline)["deadline"] == "2030-03-17T17:46:40Z" and asked_for(job(1))["deadline"] is None


def test_numbers_that_json_does_not_know_are_left_out() -> None:
    assert JsonAnswer([{"a": math.inf, "b": [1.5, math.nan]}]).body == b'[{"a":null,"b":[1.5,null]}]'
