"""One allocation of a stored instance: the answer, and errors in a file that is not an instance."""

import json
from pathlib import Path
from typing import Any

import pytest

from rota.compose.registry import make_placer, make_policy
from rota.compose.solve import SolveResult, read_instance, solve
from rota.errors import InputError, RotaError

SMALL: dict[str, Any] = {
    "cluster_spec": {"v100": 1, "p100": 1, "k80": 1},
    "worker_types": ["v100", "p100", "k80"],
    "jobs": [
        {"job_type": "a", "scale_factor": 1, "num_steps_remaining": 100, "time_since_start": 0, "throughputs": [2, 1, 0.5]},
        {"job_type": "b", "scale_factor": 1, "num_steps_remaining": 100, "time_since_start": 0, "throughputs": [3, 2, 1]},
    ],
}


def changed(**changes: Any) -> dict[str, Any]:
    return {**SMALL, **changes}


def job(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**SMALL["jobs"][0], **changes}.items() if value is not ...}


def ask(tmp_path: Path, instance: Any, policy: str = "max-min-fairness") -> SolveResult:
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(instance))
    return solve(read_instance(path), make_policy(policy), make_placer("packed"))


def shares(found: SolveResult) -> dict[tuple[tuple[int, ...], str], float]:
    """Those that matter: an interior point leaves a little everywhere."""
    return {(tuple(row["jobs"]), row["accelerator"]): row["share"] for row in found.shares if row["share"] > 1e-5}


def test_the_objective_and_the_shares(tmp_path: Path) -> None:
    found = ask(tmp_path, SMALL, "max-throughput")
    assert found.objective == pytest.approx(4.0, abs=1e-4)  # either may have the V100: 2 + 2 or 3 + 1
    assert found.prices is not None and list(found.prices) == ["V100", "P100", "K80"]
    assert found.prices["K80"] == pytest.approx(0.0, abs=1e-4)
    per_job = {n: sum(x for (jobs, _), x in shares(found).items() if n in jobs) for n in (0, 1)}
    assert per_job == pytest.approx({0: 1.0, 1: 1.0}, abs=1e-4)
    assert found.solve_seconds >= 0


def test_jobs_keep_the_numbers_of_the_file_whatever_their_age(tmp_path: Path) -> None:
    """The scheduler sees them oldest first."""
    jobs = [job(job_type=name, time_since_start=age) for name, age in (("a", 5), ("b", 500), ("c", 50))]
    found = ask(tmp_path, changed(jobs=jobs, cluster_spec={"v100": 1}, worker_types=["v100", "p100", "k80"]), "fifo")
    assert shares(found) == {((1,), "V100"): 1.0}


def test_two_jobs_of_one_type_that_were_measured_differently_stay_different(tmp_path: Path) -> None:
    jobs = [job(), job(throughputs=[1, 5, 0.5]), job()]
    found = ask(tmp_path, changed(jobs=jobs), "max-throughput:face=vertex")
    assert shares(found)[(1,), "P100"] == pytest.approx(1.0)


def test_a_type_without_gpus_may_be_listed_or_not(tmp_path: Path) -> None:
    for spec in ({"v100": 2, "p100": 0, "k80": 0}, {"v100": 2}):
        found = ask(tmp_path, changed(cluster_spec=spec))
        assert shares(found) == pytest.approx({((0,), "V100"): 1.0, ((1,), "V100"): 1.0}, abs=1e-4)


def test_a_gang_wider_than_a_pool_gets_a_share_as_an_average(tmp_path: Path) -> None:
    """Gavel's case: two GPUs of each type asked for where there is one; shares are averages, so half the time on two."""
    jobs = [job(scale_factor=2), SMALL["jobs"][1]]
    found = ask(tmp_path, changed(jobs=jobs))
    assert found.objective == pytest.approx(1.421053, abs=1e-4)
    assert {n for jobs, _ in shares(found) for n in jobs} == {0, 1}
    used: dict[str, float] = {}
    for (who, where), share in shares(found).items():
        used[where] = used.get(where, 0.0) + share * (2 if who == (0,) else 1)
    assert max(used.values()) <= 1 + 1e-5


def test_pairs_of_the_instance_are_packed(tmp_path: Path) -> None:
    pairs = [{"jobs": ["a", "b"], "accelerator": name, "gpus": 1, "rates": rates} for name, rates in (("v100", [2, 3]),)]
    one = changed(cluster_spec={"v100": 1}, pairs=pairs)
    found = ask(tmp_path, one, "max-min-fairness:colocation=true")
    assert shares(found) == pytest.approx({((0, 1), "V100"): 1.0}, abs=1e-3)
    assert ask(tmp_path, one).objective == pytest.approx(0.5, abs=1e-4)


def test_tenants_of_the_instance_are_served(tmp_path: Path) -> None:
    jobs = [job(entity="e0"), job(entity="e0"), job(entity="e1")]
    one = changed(jobs=jobs, cluster_spec={"v100": 1}, entity_weights={"e0": 1, "e1": 3})
    found = shares(ask(tmp_path, one, "hierarchical"))
    assert found == pytest.approx({((0,), "V100"): 0.125, ((1,), "V100"): 0.125, ((2,), "V100"): 0.75}, abs=1e-3)
    queue = shares(ask(tmp_path, {**one, "entity_policies": {"e0": "fifo"}}, "hierarchical"))
    assert queue == pytest.approx({((0,), "V100"): 0.25, ((2,), "V100"): 0.75}, abs=1e-3)


def test_a_deadline_counts_from_now(tmp_path: Path) -> None:
    jobs = [job(deadline_seconds=100, num_steps_remaining=150, time_since_start=1000), SMALL["jobs"][1]]
    one = changed(jobs=jobs, cluster_spec={"v100": 1}, dollars_per_hour={"v100": 1.0})
    found = shares(ask(tmp_path, one, "min-cost:slo=true"))
    assert found[(0,), "V100"] == pytest.approx(0.75, abs=1e-3)


def test_nobody_at_all(tmp_path: Path) -> None:
    assert ask(tmp_path, changed(jobs=[])).shares == []


@pytest.mark.parametrize("policy", ["fifo", "srsf", "las", "isolated", "allox", "sjf"])
def test_any_policy_can_be_asked(tmp_path: Path, policy: str) -> None:
    found = ask(tmp_path, SMALL, policy)
    assert found.shares and all(0 < row["share"] <= 1 for row in found.shares)


WRONG: dict[str, tuple[Any, str]] = {
    "a list": ([], ""),
    "a number": (3, ""),
    "null": (None, ""),
    "no cluster": ({k: v for k, v in SMALL.items() if k != "cluster_spec"}, "cluster_spec"),
    "no types": ({k: v for k, v in SMALL.items() if k != "worker_types"}, "worker_types"),
    "no jobs": ({k: v for k, v in SMALL.items() if k != "jobs"}, "jobs"),
    "cluster is a list": (changed(cluster_spec=[1, 2]), ""),
    "no GPU": (changed(cluster_spec={"v100": 0}), ""),
    "empty cluster": (changed(cluster_spec={}), ""),
    "negative GPUs": (changed(cluster_spec={"v100": -4}), ""),
    "half a GPU": (changed(cluster_spec={"v100": 0.5}), ""),
    "GPUs in words": (changed(cluster_spec={"v100": "many"}), "many"),
    "types are a number": (changed(worker_types=3), ""),
    "types not in the cluster": (changed(worker_types=["a100", "h100", "b200"]), ""),
    "jobs are a number": (changed(jobs=3), ""),
    "a job is a number": (changed(jobs=[3]), ""),
    "a job is null": (changed(jobs=[None]), ""),
    "no throughputs": (changed(jobs=[job(throughputs=...)]), "throughputs"),
    "too few throughputs": (changed(jobs=[job(throughputs=[1, 2])]), ""),
    "throughputs in words": (changed(jobs=[job(throughputs=["fast", 1, 1])]), "fast"),
    "endless throughputs": (changed(jobs=[job(throughputs=[float("inf"), 1, 1])]), ""),
    "no GPUs asked for": (changed(jobs=[job(scale_factor=0)]), ""),
    "more GPUs than there ever were": (changed(jobs=[job(scale_factor=10**9)]), ""),
    "steps in words": (changed(jobs=[job(num_steps_remaining="all")]), "all"),
    "negative steps": (changed(jobs=[job(num_steps_remaining=-5)]), ""),
    "steps that are no number": (changed(jobs=[job(num_steps_remaining=float("nan"))]), ""),
    "no age": (changed(jobs=[job(time_since_start=...)]), "time_since_start"),
    "an age that is no number": (changed(jobs=[job(time_since_start=float("nan"))]), ""),
    "weight zero": (changed(jobs=[job(priority_weight=0)]), ""),
    "negative weight": (changed(jobs=[job(priority_weight=-1)]), ""),
    "weight that is no number": (changed(jobs=[job(priority_weight=float("nan"))]), ""),
    "tenants are a list": (changed(entity_weights=[1, 2]), ""),
    "tenant of weight zero": (changed(entity_weights={"e": 0}), ""),
    "tenants that are last in first out": (changed(entity_policies={"e": "lifo"}), "lifo"),
    "pairs without rates": (changed(pairs=[{"jobs": ["a", "b"], "accelerator": "v100", "gpus": 1}]), "rates"),
    "pairs of one": (changed(pairs=[{"jobs": ["a"], "accelerator": "v100", "gpus": 1, "rates": [1]}]), ""),
    "pairs with one rate": (changed(pairs=[{"jobs": ["a", "b"], "accelerator": "v100", "gpus": 1, "rates": [1]}]), ""),
    "prices in words": (changed(dollars_per_hour={"v100": "dear"}), "dear"),
    "prices below zero": (changed(dollars_per_hour={"v100": -1}), ""),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("policy", ["max-min-fairness:colocation=true"])
def test_a_file_that_is_no_instance_is_an_error_in_words(tmp_path: Path, name: str, policy: str) -> None:
    instance, part = WRONG[name]
    with pytest.raises(RotaError) as raised:
        ask(tmp_path, instance, policy)
    assert isinstance(raised.value, InputError), "what was given is wrong, not the solver"
    assert part in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize("text", ["", "{", "{'jobs': []}", "\ufeff{}", "[1,]"])
def test_a_file_that_is_not_json_says_where(tmp_path: Path, text: str) -> None:
    path = tmp_path / "instance.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"instance\.json"):
        read_instance(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.json"):
        read_instance(tmp_path / "absent.json")
    with pytest.raises(InputError):
        read_instance(tmp_path)
