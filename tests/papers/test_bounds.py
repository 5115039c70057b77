"""Bounds and offered load of public traces on pooled equal GPUs, against the measured reference rows."""

import csv
import json
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.report.bounds import bounds
from rota.sim.physics import Physics

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
ROWS = SHARED / "expected" / "orders.json"
PHILLY = SHARED / "data" / "philly" / "philly_82k_jobs.csv"
SIXTY = SHARED / "data" / "tiresias" / "60_job.csv"

TRACES = ["philly 6214e9 first 6000", "philly b436b2 first 6000", "philly 6c71a0 first 6000", "philly all", "tiresias 60_job"]

pytestmark = pytest.mark.skipif(not ROWS.exists(), reason="the folder of reference results is not beside the project")


@cache
def rows() -> dict[str, dict[str, Any]]:
    return {row["trace"]: row for row in json.loads(ROWS.read_text(encoding="utf-8"))}


@cache
def philly() -> list[tuple[float, int, float, str]]:
    """(submission, GPUs, seconds, virtual cluster), in the order of the file."""
    with PHILLY.open(encoding="utf-8", newline="") as file:
        return [
            (
                (datetime.fromisoformat(row["timestamp"]) - datetime(2017, 1, 1)).total_seconds(),
                int(row["num_gpus"]),
                float(row["duration"]),
                row["cluster"],
            )
            for row in csv.DictReader(file)
        ]


def tiresias() -> list[tuple[float, int, float, str]]:
    with SIXTY.open(encoding="utf-8", newline="") as file:
        return [(float(r["submit_time"]), int(r["num_gpu"]), float(r["duration"]), "") for r in csv.DictReader(file)]


def read(trace: str, gpus: int) -> list[Arrival]:
    """`philly HASH first N`, `philly all` or `tiresias 60_job`; trace order is (submission, line)."""
    words = trace.split()
    found = philly() if words[0] == "philly" else tiresias()
    if "first" in words:
        found = [row for row in found if row[3] == words[1]]
    fitting = sorted((row for row in found if row[1] <= gpus), key=lambda row: row[0])
    if "first" in words:
        fitting = fitting[: int(words[-1])]
    return [Arrival(submitted_s, JobSpec(gpus=n, steps=seconds)) for submitted_s, n, seconds, _ in fitting]


def test_every_reference_row_is_checked() -> None:
    assert sorted(rows()) == sorted(TRACES)


@pytest.mark.parametrize("trace", TRACES)
def test_bounds_match_the_reference(trace: str) -> None:
    expected = rows()[trace]
    arrivals = read(trace, expected["gpus"])
    assert len(arrivals) == expected["jobs"]
    found = bounds(arrivals, Cluster.parse(f"{expected['gpus']}xGPU"), Physics())
    names = {
        "bound_run_time_s": found.run_time_seconds,
        "bound_srpt_s": found.srpt_seconds,
        "bound_busy_time_s": found.busy_time_seconds,
        "mean_jct_bound_s": found.mean_jct_seconds,
        "makespan_bound_s": found.makespan_seconds,
        "offered_load": found.offered_load,
    }
    assert names == {name: pytest.approx(expected[name], rel=1e-3) for name in names}
