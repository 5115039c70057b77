"""When a live job counts as started."""

from hypothesis import given
from hypothesis import strategies as st

from rota.agent.attempt_files import AttemptStatus
from rota.live.starts import MAX_USUAL_SECONDS, PATIENCE, USUAL_SECONDS, StartDetector

RUNS = AttemptStatus(
    job=1,
    attempt=1,
    sequence=1,
    state="running",
    steps_done=0.0,
    steps_total=None,
    steps_saved=0.0,
    outcome=None,
    exit_code=None,
    started_s=100.0,
    ended_s=None,
    stop_reason=None,
    problem=None,
)


def test_with_its_first_step_however_late_that_is_told() -> None:
    starts = StartDetector()
    assert starts.began_s(RUNS, 105.0) is None
    assert starts.began_s(RUNS._replace(began_s=112.5), 190.0) == 112.5


def test_without_steps_with_its_process() -> None:
    assert StartDetector().began_s(RUNS._replace(began_s=100.0), 100.1) == 100.0


def test_not_before_it_has_a_process() -> None:
    assert StartDetector().began_s(RUNS._replace(state="starting", started_s=None), 1e6) is None


def test_one_that_ended_without_a_step_had_started_with_its_process() -> None:
    assert StartDetector().began_s(RUNS._replace(state="ended", ended_s=101.0), 101.0) == 100.0


def test_a_first_step_is_not_waited_for_for_ever() -> None:
    starts = StartDetector()
    end_s = 100.0 + PATIENCE * USUAL_SECONDS
    assert starts.began_s(RUNS, end_s - 0.1) is None
    assert starts.began_s(RUNS, end_s) == 100.0, "it may be suspended now, and what it waited is no price of moving"
    assert starts.patience_seconds == PATIENCE * USUAL_SECONDS, "nor is it usual"


@given(st.lists(st.floats(0.0, 1e4), max_size=60))
def test_patience_follows_what_is_usual_within_bounds(seconds: list[float]) -> None:
    starts = StartDetector()
    for each in seconds:
        starts.began_s(RUNS._replace(began_s=100.0 + each), 1e6)
    assert PATIENCE * USUAL_SECONDS <= starts.patience_seconds <= PATIENCE * MAX_USUAL_SECONDS
    if seconds and min(seconds) > USUAL_SECONDS and max(seconds) < MAX_USUAL_SECONDS:
        assert PATIENCE * min(seconds) * 0.999 <= starts.patience_seconds <= PATIENCE * max(seconds) * 1.001
