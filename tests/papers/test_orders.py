"""Measured reference results: FIFO and clairvoyant SRSF on pooled GPUs, decisions at every event, no overheads."""

import json

import pytest

import rota
from tests.shared import SHARED, needs_shared

ROWS = json.loads((SHARED / "expected/orders.json").read_text()) if (SHARED / "expected/orders.json").is_file() else []
CELLS = [(row, policy) for row in ROWS for policy in ("fifo", "srsf") if f"{policy}_mean_jct_s" in row]
"""The reference has no SRSF for the whole of Philly."""
LONG = ("philly all", "philly 6214e9 first 6000", "philly 6c71a0 first 6000")
"""Of the three clusters of Philly, one is in `make test`."""
PHILLY = SHARED / "data/philly/philly_82k_jobs.csv"


def simulate(row: dict[str, object], policy: str) -> rota.Result:
    words = str(row["trace"]).split()
    where, first = (), None
    if words[0] == "tiresias":
        path = SHARED / "data/tiresias/60_job.csv"
    else:
        path = PHILLY
        if words[1] != "all":
            where, first = (("cluster", words[1]),), int(words[3])
    cluster = f"{row['gpus']}xV100"
    return rota.simulate(path, policy=policy, cluster=cluster, preset="ideal", where=where, first=first, drop_oversized=True)


@needs_shared
@pytest.mark.parametrize(
    ("row", "policy"),
    [pytest.param(row, policy, marks=[pytest.mark.nightly] if row["trace"] in LONG else []) for row, policy in CELLS],
    ids=[f"{row['trace']} {policy}" for row, policy in CELLS],
)
def test_orders(row: dict[str, float], policy: str) -> None:
    result = simulate(row, policy).summary
    assert result.jobs == result.finished == row["jobs"]
    assert result.mean_jct_seconds == pytest.approx(row[f"{policy}_mean_jct_s"], rel=1e-3)
    assert result.makespan_seconds == pytest.approx(row[f"{policy}_makespan_s"], rel=1e-3)
    assert result.mean_jct_bound_seconds == pytest.approx(row["mean_jct_bound_s"], rel=1e-3)
    assert result.makespan_bound_seconds == pytest.approx(row["makespan_bound_s"], rel=1e-3)
    assert result.offered_load == pytest.approx(row["offered_load"], rel=1e-3)
