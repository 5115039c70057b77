"""Ten faults at seeded moments; `make chaos` does two hundred."""

from pathlib import Path

import pytest

from tests.live.chaos import SAVED_EVERY, run

pytestmark = pytest.mark.slow


def test_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path) -> None:
    found = run(tmp_path, faults=10, seed=3)
    assert found["faults"] == 10 and all(found["by_target"].values()), found
    assert found["jobs_lost"] == 0 and found["ran_twice"] == 0, found
    assert found["steps_lost_max"] <= SAVED_EVERY, found
