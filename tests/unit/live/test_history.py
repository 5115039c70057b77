"""What is said of how a job left."""

import pytest

from rota.agent.orders import IncarnationStatus
from rota.live.history import _how


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
        (left(1, 8, 5), ": it left with exit code 1, and what it did since it last saved is lost"),
        (left(-15, 0, 0, None), ": it left with SIGTERM, and what it did since it last saved is lost"),
        (left(None, 8, 5), ""),
    ],
)
def test_how_it_left(part: IncarnationStatus, said: str) -> None:
    assert _how(part) == said
