"""Faults in short runs: three that kill something, and in nightly runs one of each kind. `make chaos` does twenty of each."""

from pathlib import Path

import pytest

from tests.chaos.chaos import MUST_BE_ZERO, run
from tests.chaos.flows import AFTER
from tests.chaos.users import TRAINS
from tests.examples import rotated
from tests.stranger import root_only


@pytest.mark.parametrize(("faults", "only"), [(3, "killed"), pytest.param(13, "", marks=pytest.mark.nightly)])
def test_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path, faults: int, only: str) -> None:
    found = run(tmp_path, faults=faults, seed=rotated(3), only=only)
    assert found["faults"] == faults
    assert [sum(targets.values()) for targets in found["kinds"].values()] == [1] * faults, found
    assert all(only in kind for kind in found["kinds"])
    assert {name: found[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0), found


@root_only
def test_jobs_of_two_users_stay_theirs(public: Path) -> None:
    found = run(public, faults=3, seed=rotated(3), users=True)
    assert [sum(targets.values()) for targets in found["kinds"].values()] == [1] * 3, found
    assert found["jobs"] >= 2 * (len(TRAINS) + len(AFTER) + 2), "each user has a crowd and a flow with two arrays"
    assert {name: found[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0), found
