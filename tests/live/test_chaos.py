"""Thirteen faults, one of each kind; `make chaos` does twenty of each."""

from pathlib import Path

from tests.examples import rotated
from tests.live.chaos import MUST_BE_ZERO, run


def test_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path) -> None:
    found = run(tmp_path, faults=13, seed=rotated(3))
    assert found["faults"] == 13 and [sum(targets.values()) for targets in found["kinds"].values()] == [1] * 13, found
    assert {name: found[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0), found
