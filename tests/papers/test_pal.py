"""The simulator that was published with PAL, row by row: the same jobs, scores and rounds."""

import json
from typing import Any

import pytest

from rota.api import simulate
from tests.shared import SHARED, needs_shared

PLACERS = {
    "PAL": "pal:wide=false",
    "PMFirst": "pm-first",
    "Default-Packed-NS": "packed:sticky=false",
    "Default-Packed-S": "packed",
    "Default-Random-NS": "random:sticky=false",
}


def rows() -> list[dict[str, Any]]:
    path = SHARED / "expected/pal/results.json"
    return json.loads(path.read_text()) if path.is_file() else []


def asked_for(row: dict[str, Any]) -> bool:
    sticky = row["placement"] == "Default-Packed-S"
    return not row["replay_after_trace"] and row["placement"] in PLACERS and (not sticky or row["scheduler"] == "Fifo")


@needs_shared
@pytest.mark.parametrize(
    "row", [row for row in rows() if asked_for(row)], ids=lambda r: f"{r['trace']}-{r['scheduler']}-{r['placement']}"
)
def test_rows(row: dict[str, Any]) -> None:
    done = simulate(
        SHARED / "data/pal_variability/traces" / row["trace"],
        policy=row["scheduler"].lower(),
        placer=PLACERS[row["placement"]],
        cluster="16x(4xV100)",
        preset="blox",
        variability=SHARED / "expected/pal/pm_scores_64gpu_seed42.csv",
        seed=42,
        format="pal",
    ).summary
    within = 0.05 if "Random" in row["placement"] else 0.01
    assert done.mean_jct_seconds == pytest.approx(row["avg_jct"], rel=within)
    assert done.makespan_seconds == pytest.approx(row["makespan"], rel=within)


@needs_shared
@pytest.mark.parametrize("workload", [1, 2, 3])
def test_wide_jobs_with_moves_that_cost(workload: int) -> None:
    """`wide=true` is PAL with what its artifact leaves open; it must not cost anybody."""

    def mean_jct(placer: str) -> float:
        done = simulate(
            SHARED / "data/pal_variability/traces" / f"workload-{workload}.csv",
            policy="fifo",
            placer=placer,
            cluster="16x(4xV100)",
            preset="blox",
            variability=SHARED / "expected/pal/pm_scores_64gpu_seed42.csv",
            seed=42,
            format="pal",
            launch_seconds=5.0,
            checkpoint_seconds=6.0,
            restore_seconds=3.0,
        )
        return float(done.summary.mean_jct_seconds or 0.0)

    assert mean_jct("pal") < mean_jct("pal:wide=false")
