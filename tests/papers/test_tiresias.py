"""Tiresias (NSDI'19): discretised 2D-LAS and 2D-Gittins against measured references, costs switched off."""

import json
import re

import pytest

import rota
from tests.shared import SHARED, needs_shared


def rows(name: str) -> list[dict[str, object]]:
    path = SHARED / "expected" / name
    return json.loads(path.read_text()) if path.is_file() else []


@needs_shared
@pytest.mark.parametrize("row", rows("two_das.json"), ids=lambda row: f"{row['trace'][-16:-4]} {row['policy']}")
def test_two_das(row: dict[str, object]) -> None:
    kind, thresholds = re.match(r"2d-(\w+) \[([\d,]+)\]", str(row["policy"])).groups()  # type: ignore[union-attr]
    limits = thresholds.replace(",", "/")
    policy = f"tiresias:thresholds={limits}"
    if kind == "gittins":
        policy = f"gittins:thresholds={limits},delta=3250,history={SHARED / 'data/tiresias/yarn-gput1000.csv'}"
    result = rota.simulate(
        SHARED / "expected" / str(row["trace"]), policy=policy, cluster=f"{row['gpus']}xV100", preset="ideal"
    ).summary
    assert result.finished == 1500
    assert result.mean_jct_seconds == pytest.approx(row["mean_jct_s"], rel=0.05 if kind == "gittins" else 0.005)
    assert result.makespan_seconds == pytest.approx(row["makespan_s"], rel=0.05 if kind == "gittins" else 0.005)
    if kind == "las":
        assert result.suspensions == pytest.approx(row["preemptions"], rel=0.05)


@needs_shared
@pytest.mark.parametrize("row", rows("tiresias.json"), ids=lambda row: row["schedule"])
def test_the_authors_simulator(row: dict[str, object]) -> None:
    policy = {
        "dlas-gpu": "tiresias:thresholds=3250/7200",
        "dlas": "tiresias:thresholds=3250/7200,service=seconds",
        "fifo": "fifo",
    }
    result = rota.simulate(
        SHARED / "data/tiresias/60_job.csv", policy=policy[str(row["schedule"])], cluster="4x(4xV100)", preset="ideal"
    ).summary
    assert result.mean_jct_seconds == pytest.approx(row["avg_jct"], rel=0.01)
    assert result.median_jct_seconds == pytest.approx(row["median_jct"], rel=0.01)
    assert result.p95_jct_seconds == pytest.approx(row["p95_jct"], rel=0.01)
    assert result.makespan_seconds == pytest.approx(row["makespan"], rel=0.01)
    assert result.suspensions == row["preemptions"]
