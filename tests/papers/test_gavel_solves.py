"""Single solves of Gavel's stored instances: our objectives against those Gavel reached, to 1e-4 or better."""

import json
from dataclasses import replace
from typing import Any

import pytest

from rota.compose.registry import make_placer, make_policy
from rota.compose.solve import Instance, read_instance, solve
from tests.shared import SHARED, needs_shared

GAVEL = SHARED / "expected" / "gavel"
PROFILE = SHARED / "data" / "gavel" / "simulation_throughputs.json"
POLICIES = {
    "max_min_fairness_perf": ("max-min-fairness", "max_min"),
    "max_min_fairness_water_filling_perf": ("max-min-fairness:water_filling=true", "max_min"),
    "max_min_fairness_packed": ("max-min-fairness:colocation=true", "max_min"),
    "max_min_fairness_water_filling_perf_hier": ("hierarchical", "max_min"),
    "finish_time_fairness_perf": ("finish-time-fairness", "ftf_max_rho"),
    "min_total_duration_perf": ("makespan", "makespan"),
}
CHEAP = [
    *((policy, f"inst_n{count}.json") for policy in POLICIES for count in (32, 128)),
    ("max_min_fairness_perf", "inst_n512.json"),
    ("max_min_fairness_perf", "inst_n2048.json"),
    ("max_min_fairness_packed", "inst_n256.json"),
    ("max_min_fairness_perf", "inst_n128_multi.json"),
    ("max_min_fairness_water_filling_perf", "inst_n128_multi.json"),
    ("max_min_fairness_water_filling_perf", "inst_n128_prio.json"),
    ("max_min_fairness_water_filling_perf", "inst_n512_prio.json"),
    ("max_min_fairness_perf", "inst_n512_multi_prio.json"),
    ("max_min_fairness_water_filling_perf_hier", "inst_n512.json"),
    ("finish_time_fairness_perf", "inst_n128_multi.json"),
    ("finish_time_fairness_perf", "inst_n512.json"),
    ("min_total_duration_perf", "inst_n128_multi.json"),
    ("min_total_duration_perf", "inst_n512.json"),
]


def reached(policy: str, instance: str, name: str) -> float:
    rows = json.loads((GAVEL / "solve.json").read_text())
    (row,) = [r for r in rows if (r["policy"], r["instance"], r["solver"]) == (policy, instance, "ECOS")]
    value: float = row["objective"][name]
    return value


def asked(policy: str, instance: str) -> Instance:
    found = read_instance(GAVEL / "solve" / instance, PROFILE if "packed" in policy else None)
    return found


@needs_shared
@pytest.mark.parametrize(("policy", "instance"), CHEAP, ids=["-".join(row) for row in CHEAP])
def test_an_objective_is_gavels_or_better(policy: str, instance: str) -> None:
    ours, name = POLICIES[policy]
    expected = reached(policy, instance, name)
    found = solve(asked(policy, instance), make_policy(ours), make_placer("packed"))
    assert found.objective is not None
    if name == "max_min" and "hier" not in policy:
        assert found.objective == pytest.approx(expected, rel=1e-4)
    elif name == "max_min":
        assert found.objective >= expected * (1 - 1e-3)
    else:
        assert found.objective <= expected * (1 + 1e-4), "the lower the better"


@needs_shared
def test_shares_of_an_instance_can_be_had() -> None:
    instance = asked("max_min_fairness_packed", "inst_n32.json")
    found = solve(instance, make_policy("max-min-fairness:colocation=true"), make_placer("packed"))
    time: dict[int, float] = {}
    used: dict[str, float] = {}
    for row in found.shares:
        used[row["accelerator"]] = used.get(row["accelerator"], 0.0) + row["share"]
        for job in row["jobs"]:
            time[job] = time.get(job, 0.0) + row["share"]
    assert max(time.values()) <= 1 + 1e-4
    gpus = dict(zip(instance.cluster.pools, instance.cluster.pool_gpus.tolist(), strict=True))
    assert all(used[name] <= gpus[name] + 1e-3 for name in used)


@needs_shared
def test_the_same_instance_with_every_job_twice_on_twice_the_gpus_is_no_different() -> None:
    from rota.model.cluster import Cluster

    one = asked("", "inst_n32.json")
    nodes = [replace(node, gpus=2 * node.gpus) for node in one.cluster.nodes]
    two: Any = replace(one, cluster=Cluster.of(nodes), jobs=one.jobs * 2)
    for policy in ("max-min-fairness", "makespan"):
        first, second = (solve(asked_, make_policy(policy), make_placer("packed")).objective for asked_ in (one, two))
        assert first == pytest.approx(second, rel=1e-4)
