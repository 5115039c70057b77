"""What is said of how a job left."""

from dataclasses import replace

import pytest

from rota.agent.orders import IncarnationStatus
from rota.live.history import _UNSAVED, JobRecord, _how, _parking
from rota.live.requests import submitted_job
from rota.wire.spec import Spec


def left(exit_code: int | None, done: float, saved: float, stepped_s: float | None = 1.0) -> IncarnationStatus:
    return IncarnationStatus(
        job=1,
        incarnation=1,
        sequence=2,
        state="ended",
        steps_done=done,
        steps_total=None,
        steps_saved=saved,
        outcome="yielded",
        exit_code=exit_code,
        started_s=0.0,
        ended_s=9.0,
        asked="suspend",
        problem="",
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
def test_how_it_left(part: IncarnationStatus, said: str) -> None:
    assert _how(part) == said


@pytest.mark.parametrize(
    ("way", "before", "saves", "said"),
    [
        ("sleep", "node: later", True, "sleep: so it is"),
        ("exit", "node: later", True, "exit: so it is"),
        ("exit", "node: later", False, "stay: it does not save its state, and can't be parked: so it is"),
        ("exit", f"node: {_UNSAVED}", True, f"stay: {_UNSAVED}"),
        ("sleep", f"stay: {_UNSAVED}", True, f"sleep: {_UNSAVED}"),
    ],
)
def test_how_it_is_parked_is_what_its_node_found(way: str, before: str, saves: bool, said: str) -> None:
    spec = Spec.model_validate({"run": ["x"], "checkpoint": {"saves": saves}})
    record = JobRecord(1, submitted_job(spec, "me", "/", {}), 0.0, parking=before)
    part = replace(left(None, 0, 0), park_way=way, park_why="so it is")
    assert _parking(record, part) == said
