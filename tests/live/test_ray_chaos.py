"""A fault of each of most kinds on a real Ray cluster; `make ray-chaos` does twenty of each of all."""

from pathlib import Path

import pytest

pytest.importorskip("ray")

from tests.live.ray_chaos import MUST_BE_ZERO, run

pytestmark = pytest.mark.slow

KINDS = "raylet-killed,agent-killed,rank-killed,supervisor-killed,daemon-killed,head-restarted,node-frozen,partition-short"
"""The others take as long as a lease each, and need the machine for themselves."""


def test_nothing_is_lost_and_nothing_runs_twice_on_a_cluster(tmp_path: Path) -> None:
    found = run(tmp_path, faults=len(KINDS.split(",")), seed=3, only=KINDS)
    wanted = [kind for kind in KINDS.split(",") if found["namespaces"] or "partition" not in kind]
    assert set(found["kinds"]) == set(wanted), found
    assert {name: found[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0), found
