"""The history's sentences about how a job ended."""

from typing import Any

import pytest

from rota.agent.attempt_files import AttemptStatus
from rota.agent.pace import Pace
from rota.live.attempt_rate import quiet_seconds, step_rate
from rota.live.history import _how
from rota.live.job_record import UNSAVED, JobRecord
from rota.live.parking_text import parking_of
from rota.wire.spec import Spec
from rota.wire.submission import Submission, encode_submission


def left(exit_code: int | None, done: float, saved: float, stepped_s: float | None = 1.0) -> AttemptStatus:
    return AttemptStatus(
        job=1,
        attempt=1,
        sequence=2,
        state="ended",
        steps_done=done,
        steps_total=None,
        steps_saved=saved,
        outcome="yielded",
        exit_code=exit_code,
        started_s=0.0,
        ended_s=9.0,
        stop_reason="suspend",
        problem=None,
        stepped_s=stepped_s,
    )


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (left(75, 8, 8), ": it saved its state and left with exit code 75"),
        (left(1, 8, 8), ": it saved its state and left with exit code 1"),
        (left(1, 8, 5), ": it left with exit code 1, and 9.0s of work is lost"),
        (left(-15, 0, 0, None), ": it left with SIGTERM, and 9.0s of work is lost"),
        (left(None, 8, 5), ""),
    ],
)
def test_how_it_left(part: AttemptStatus, said: str) -> None:
    assert _how(part) == said


@pytest.mark.parametrize(
    ("way", "before", "saves", "said"),
    [
        ("sleep", ("node", "later"), True, ("sleep", "so it is")),
        ("exit", ("node", "later"), True, ("exit", "so it is")),
        ("exit", ("node", "later"), False, ("stay", "it does not save its state, and can't be parked: so it is")),
        ("exit", ("node", UNSAVED), True, ("stay", UNSAVED)),
        ("sleep", ("stay", UNSAVED), True, ("sleep", UNSAVED)),
    ],
)
def test_how_it_is_parked_is_what_its_node_found(way: str, before: tuple[str, str], saves: bool, said: tuple[str, str]) -> None:
    spec = Spec.model_validate({"run": ["x"], "checkpoint": {"saves": saves}})
    record = JobRecord(1, Submission(spec, "me", "/", {}), 0.0, park_method=before[0], park_reason=before[1])
    part = left(None, 0, 0)._replace(park_method=way, park_reason="so it is")
    assert parking_of(record, part) == said


def running(done: float, stepped_s: float, paced: tuple[float, float] | None, **changes: Any) -> AttemptStatus:
    """At step `done`, started at 0, its first step at 60 s; `paced`: since when its pace is measured, and from which step."""
    status = left(None, done, 0.0, stepped_s)._replace(
        state="running", ended_s=None, stop_reason=None, outcome=None, began_s=60.0
    )
    return status._replace(pace=Pace(60.0, *paced) if paced is not None else Pace(), **changes)


def test_the_rate_of_a_job_is_without_its_start() -> None:
    assert step_rate(running(26, 60.5, (60.0, 1.0)), 60.7) == pytest.approx(50.0)
    assert step_rate(running(1, 60.0, (60.0, 1.0)), 60.2) is None, "one step says nothing"


def test_after_a_resume_or_a_resize_earlier_steps_say_nothing() -> None:
    assert step_rate(running(26, 60.5, None, start_sequence=7), 60.7) is None
    assert step_rate(running(30, 100.5, (100.0, 27.0), start_sequence=7), 100.6) == pytest.approx(6.0)


def test_a_supervisor_of_an_earlier_version_says_only_when_it_began() -> None:
    assert step_rate(running(51, 61.0, None), 61.2) == pytest.approx(51.0)


def test_a_job_that_stalls_becomes_slower() -> None:
    part = running(501, 70.0, (60.0, 1.0))
    assert step_rate(part, 85.0) == pytest.approx(50.0)
    assert step_rate(part, 160.0) == pytest.approx(5.0)
    assert step_rate(part) == pytest.approx(50.0), "when it ends, that it was quiet at last is not known"


def test_what_it_has_done_since_its_last_report_is_no_longer_left() -> None:
    part = running(501, 70.0, (60.0, 1.0))
    assert quiet_seconds(part, 72.0) == pytest.approx(2.0)
    assert quiet_seconds(part, 160.0) == 0.0 == quiet_seconds(None, 160.0), "one that stalls does nothing"


def test_an_empty_text_of_an_earlier_version_is_none() -> None:
    sent = encode_submission(Submission(Spec(run="x"), "me", "/", {}))
    written = {"submitted_s": 1.0, "phase": "running", "problem": "", "parking_problem": "", "steps_problem": "it reported 9"}
    record = JobRecord.of(3, sent, written)
    assert (record.name, record.phase, record.problem, record.parking_problem) == ("job-3", "running", None, None)
    before = "sleep: it was told to stop and left without saving, so where it can't be parked it is left running from now on"
    old = JobRecord.of(3, sent, written | {"parking": before})
    assert (old.park_method, old.park_reason) == ("sleep", UNSAVED)
    assert record.steps_problem == "it reported 9" and JobRecord.of(3, sent, record.to_plain()) == record


@pytest.mark.parametrize(
    ("written", "method", "reason"),
    [
        ("exit: its spec has park: false", "exit", "its spec has park: false"),
        (f"stay: {UNSAVED}", "stay", UNSAVED),
        ("", None, None),
    ],
)
def test_method_and_reason_of_parking_were_one_text(written: str, method: str | None, reason: str | None) -> None:
    sent = encode_submission(Submission(Spec(run="x"), "me", "/", {}))
    record = JobRecord.of(3, sent, {"submitted_s": 1.0, "parking": written})
    assert (record.park_method, record.park_reason) == (method, reason)
    assert "parking" not in record.to_plain() and JobRecord.of(3, sent, record.to_plain()) == record
