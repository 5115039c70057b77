"""The log's line about an end: how far the attempt was, and how much of its work is lost."""

import pytest

from rota.agent.attempt_files import AttemptStatus
from rota.agent.outcome import end_text, length_text, lost_seconds

RAN = AttemptStatus(
    1, 1, 2, "ended", pid=7, started_s=1000.0, ended_s=1200.0, outcome="yielded", stop_reason="suspend", exit_code=-15
)
"""200 s, without a word of its steps."""


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (RAN, "suspended after 3m20s, 3m20s of work lost"),
        (RAN._replace(parked_seconds=150.0), "suspended after 50s, 50s of work lost"),
        (RAN._replace(exit_code=75), "suspended after 3m20s, no work lost"),
        (RAN._replace(stop_reason="lease"), "suspended after 3m20s, 3m20s of work lost (lease over)"),
        (RAN._replace(outcome="lost", stop_reason="kill", exit_code=-9), "killed after 3m20s, 3m20s of work lost"),
        (RAN._replace(outcome="lost", stop_reason=None, problem="no power"), "lost after 3m20s, 3m20s of work lost: no power"),
        (RAN._replace(stepped_s=1199.0, steps_done=96.0), "suspended at step 96, 96 steps lost (3m20s of work)"),
        (
            RAN._replace(stepped_s=1199.0, steps_done=96.0, steps_saved=90.0, safe_seconds=188.0),
            "suspended at step 96, 6 steps lost (12s of work)",
        ),
        (RAN._replace(stepped_s=1199.0, steps_done=96.0, steps_saved=96.0, exit_code=1), "suspended at step 96, 0 steps lost"),
        (
            RAN._replace(stepped_s=1199.0, steps_done=96.0, exit_code=1, saving_problem="save raised OSError: no"),
            "suspended at step 96, 96 steps lost (3m20s of work) (its state could not be saved: save raised OSError: no)",
        ),
    ],
)
def test_an_end_in_words(status: AttemptStatus, said: str) -> None:
    assert end_text(status) == said


def test_what_was_never_started_has_lost_nothing() -> None:
    assert lost_seconds(RAN._replace(started_s=None)) == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.42, "0.4s"), (9.96, "10s"), (59.6, "1m0s"), (200.0, "3m20s"), (3250.0, "54m10s"), (7800.0, "2h10m")]
)
def test_lengths(seconds: float, text: str) -> None:
    assert length_text(seconds) == text
