"""A fault of each of most kinds on a real Ray cluster; `make ray-chaos` does twenty of each of all."""

from pathlib import Path

import pytest

pytest.importorskip("ray")

from tests.chaos.ray_chaos import MUST_BE_ZERO, run
from tests.examples import rotated

pytestmark = pytest.mark.nightly

KINDS = (
    "raylet-killed,agent-killed,rank-killed,supervisor-killed,daemon-killed,head-restarted,journal-restarted,node-frozen,"
    "partition-short"
)
"""The others take as long as a lease each, and need the machine for themselves."""


def test_nothing_is_lost_and_nothing_runs_twice_on_a_cluster(tmp_path: Path) -> None:
    found = run(tmp_path, faults=len(KINDS.split(",")), seed=rotated(3), only=KINDS)
    wanted = set(KINDS.split(","))
    wanted -= set() if found["namespaces"] else {"partition-short"}
    wanted -= set() if found["postgres"] else {"journal-restarted"}
    assert set(found["kinds"]) == wanted, found
    assert {name: found[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0), found
