"""Whole runs of Gavel's own traces against what Gavel measured: the cheap rows on every run, the others in the benchmarks."""

import json
from typing import Any

import pytest

from rota.api import simulate
from tests.shared import SHARED, needs_shared

GAVEL = SHARED / "expected" / "gavel"
POLICIES = {
    "isolated": "isolated",
    "fifo_perf": "fifo",
    "allox": "allox",
    "max_min_fairness": "max-min-fairness:type_aware=false",
    "max_min_fairness_perf": "max-min-fairness",
    "max_min_fairness_water_filling_perf": "max-min-fairness:water_filling=true",
    "max_min_fairness_packed": "max-min-fairness:colocation=true",
    "finish_time_fairness": "finish-time-fairness:type_aware=false",
    "finish_time_fairness_perf": "finish-time-fairness",
    "min_total_duration": "makespan:type_aware=false",
    "min_total_duration_perf": "makespan",
    "max_sum_throughput_perf": "max-throughput",
    "max_sum_throughput_normalized_by_cost_perf": "min-cost",
    "max_sum_throughput_normalized_by_cost_perf_SLOs": "min-cost:slo=true",
    "max_sum_throughput_normalized_by_cost_packed_SLOs": "min-cost:slo=true,colocation=true",
}
EXACT = ("isolated", "fifo_perf", "allox")
"""No program to solve: nothing but ties can differ."""

CHEAP = [
    ("multi_s0", "fifo_perf"),
    ("multi_s0", "finish_time_fairness_perf"),
    ("multi_s0", "max_min_fairness_perf"),
    ("phys_max_min_fairness", "finish_time_fairness_perf"),
    ("phys_max_min_fairness", "max_min_fairness"),
    ("phys_max_min_fairness", "max_min_fairness_perf"),
    ("phys_minimize_makespan", "fifo_perf"),
    ("phys_minimize_makespan", "min_total_duration"),
    ("phys_minimize_makespan", "min_total_duration_perf"),
    ("single_s2", "allox"),
    ("single_s2", "fifo_perf"),
    ("single_s2", "isolated"),
    ("single_s2", "max_min_fairness_perf"),
    ("single_s2", "max_min_fairness_packed"),
    ("single_s2", "max_sum_throughput_perf"),
    ("single_s2", "min_total_duration_perf"),
    ("slo_s4", "max_sum_throughput_normalized_by_cost_perf"),
    ("slo_s4", "max_sum_throughput_normalized_by_cost_perf_SLOs"),
]


def measured(name: str, policy: str) -> dict[str, Any]:
    rows = json.loads((GAVEL / "results.json").read_text())
    (row,) = [row for row in rows if (row["name"], row["policy"], row["solver"]) == (name, policy, "ECOS")]
    assert row["num_jobs"] >= 90
    found: dict[str, Any] = row
    return found


def cluster_of(row: dict[str, Any]) -> str:
    """One GPU a server is a pool without nodes."""
    terms = []
    for name, gpus in row["cluster_spec"].items():
        per = row["num_gpus_per_server"][name]
        if gpus:
            terms.append(f"{gpus}x{name.upper()}" if per == 1 else f"{gpus // per}x({per}x{name.upper()})")
    return " + ".join(terms)


@needs_shared
@pytest.mark.parametrize(("name", "policy"), CHEAP, ids=["-".join(row) for row in CHEAP])
def test_a_run_comes_out_as_gavels_or_better(name: str, policy: str) -> None:
    row = measured(name, policy)
    run = simulate(
        GAVEL / "traces" / row["trace"],
        policy=POLICIES[policy],
        cluster=cluster_of(row),
        preset="gavel",
        profile=SHARED / "data" / "gavel" / "simulation_throughputs.json",
        format="gavel",
    )
    assert run.summary.finished == row["num_jobs"]
    far = 0.01 if policy in EXACT else 0.03
    if policy.startswith("min_total_duration"):
        ours, theirs = run.summary.makespan_seconds, row["makespan"]
    else:
        ours, theirs = run.summary.mean_jct_seconds, row["avg_jct"]
    assert ours is not None and ours <= theirs * (1 + far)
    if policy in EXACT:
        assert ours >= theirs * (1 - far), "and no better either: it is the same schedule"
    if policy == "fifo_perf":  # nothing is solved and nothing drawn: each single job ends when it did
        assert {str(n): job["jct_seconds"] for n, job in enumerate(run.jobs)} == pytest.approx(row["jct"], rel=1e-6)
