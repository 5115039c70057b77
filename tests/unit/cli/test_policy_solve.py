"""`rota policy solve`: the three shapes of its output, and bad files."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Rota

SMALL = {
    "cluster_spec": {"v100": 1},
    "worker_types": ["v100"],
    "jobs": [
        {"job_type": name, "scale_factor": 1, "num_steps_remaining": 100, "time_since_start": 0, "throughputs": [rate]}
        for name, rate in (("a", 2.0), ("b", 3.0))
    ],
}


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL))
    return path


def test_a_table_for_people(rota: Rota, instance: Path) -> None:
    code, out, err = rota("policy", "solve", "small.json")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("objective 0.5, solved in ") and lines[0].endswith(" ms")
    assert lines[1] == "prices V100 0.5"
    assert lines[2].split() == ["JOBS", "ACCELERATOR", "SHARE"]
    assert [line.split() for line in lines[3:]] == [["0", "V100", "0.5000"], ["1", "V100", "0.5000"]]


def test_json_for_programs(rota: Rota, instance: Path) -> None:
    code, out, _ = rota("policy", "solve", "small.json", "--policy", "max-throughput", "-o", "json")
    found = json.loads(out)
    assert code == 0 and set(found) >= {"objective", "solve_seconds", "shares", "prices"}
    assert found["objective"] == pytest.approx(3.0, abs=1e-4)
    assert 2.0 <= found["prices"]["V100"] <= 3.0, "a second one would run the slower job"
    most = max(found["shares"], key=lambda row: row["share"])
    assert most["jobs"] == [1] and most["accelerator"] == "V100"


def test_csv_for_tables(rota: Rota, instance: Path) -> None:
    code, out, _ = rota("policy", "solve", "small.json", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0 and [row["jobs"] for row in rows] == ["0", "1"]
    assert [float(row["share"]) for row in rows] == pytest.approx([0.5, 0.5], abs=1e-4)


def test_a_pair_is_named_by_both(rota: Rota, instance: Path) -> None:
    pairs = [{"jobs": ["a", "b"], "accelerator": "v100", "gpus": 1, "rates": [1.9, 2.9]}]
    instance.write_text(json.dumps({**SMALL, "pairs": pairs}))
    _, out, _ = rota("policy", "solve", "small.json", "--policy", "max-throughput:colocation=true", "-o", "csv")
    rows = {row["jobs"]: float(row["share"]) for row in csv.DictReader(io.StringIO(out))}
    assert rows["0+1"] == pytest.approx(1.0, abs=1e-3)


def test_a_ranking_has_no_objective_of_its_own(rota: Rota, instance: Path) -> None:
    code, out, _ = rota("policy", "solve", "small.json", "--policy", "fifo")
    assert code == 0 and out.startswith("objective none of its own")
    _, out, _ = rota("policy", "solve", "small.json", "--policy", "fifo", "-o", "json")
    assert json.loads(out)["objective"] is None and json.loads(out)["prices"] is None


@pytest.mark.parametrize("policy", ["allox", "finish-time-fairness", "makespan", "fifo", "max-min-fairness"])
def test_json_is_json_even_where_somebody_gets_nothing(rota: Rota, instance: Path, policy: str) -> None:
    """Whoever gets nothing ends never: such an objective must not be written as a word that JSON does not have."""
    instance.write_text(json.dumps({**SMALL, "jobs": SMALL["jobs"] * 3}))
    code, out, err = rota("policy", "solve", "small.json", "--policy", policy, "-o", "json")

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    assert (code, err) == (0, "")
    json.loads(out, parse_constant=refuse)


BAD = {
    "not json": ("{", ("small.json", "JSON")),
    "empty": ("", ("small.json",)),
    "a list": ("[]", ("small.json",)),
    "no key": (json.dumps({k: v for k, v in SMALL.items() if k != "jobs"}), ("small.json", "jobs")),
    "wrong types": (json.dumps({**SMALL, "jobs": 3}), ("small.json",)),
    "no number": (json.dumps({**SMALL, "cluster_spec": {"v100": "x"}}), ("small.json", "x")),
    "no gpus": (json.dumps({**SMALL, "cluster_spec": {}}), ("GPU",)),
    "too few rates": (json.dumps({**SMALL, "worker_types": ["v100", "k80"]}), ("small.json",)),
    "a gang of none": (json.dumps({**SMALL, "jobs": [{**SMALL["jobs"][0], "scale_factor": 0}]}), ("gpus", "0")),
    "a weight of none": (json.dumps({**SMALL, "jobs": [{**SMALL["jobs"][0], "priority_weight": 0}]}), ("weight", "0")),
    "half a pair": (
        json.dumps({**SMALL, "pairs": [{"jobs": ["a"], "accelerator": "v100", "gpus": 1, "rates": [1]}]}),
        ("small.json",),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_clear_line_and_a_next_step(rota: Rota, instance: Path, name: str) -> None:
    text, parts = BAD[name]
    instance.write_text(text)
    code, out, err = rota("policy", "solve", "small.json")
    assert (code, out) == (2, ""), err
    problem, try_line = err.rstrip("\n").split("\n")
    assert try_line.startswith("Try: ") and all(part in problem for part in parts)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("absent.json",), ("absent.json",)),
        ((".",), (".",)),
        (("small.json", "--policy", "max-min-fairnes"), ("max-min-fairness",)),
        (("small.json", "--policy", "max-min-fairness:face=side"), ("face", "side", "centre")),
        (("small.json", "--policy", "hierarchical:tenants=absent.yaml"), ("absent.yaml",)),
        (("small.json", "--policy", "allox:alpha=none"), ("alpha", "none")),
        (("small.json", "--profile", "absent.json"), ("absent.json",)),
        (("small.json", "-o", "yaml"), ("yaml",)),
    ],
)
def test_bad_words_are_too(rota: Rota, instance: Path, words: tuple[str, ...], parts: tuple[str, ...]) -> None:
    code, out, err = rota("policy", "solve", *words)
    assert (code, out) == (2, ""), err
    assert "\nTry: " in err and all(part in err for part in parts)


def test_allox_says_that_gangs_are_not_for_it(rota: Rota, instance: Path) -> None:
    instance.write_text(json.dumps({**SMALL, "jobs": [{**SMALL["jobs"][0], "scale_factor": 2}]}))
    code, out, err = rota("policy", "solve", "small.json", "--policy", "allox")
    assert code == 0 and not err and "job 0: allox matches jobs of one GPU" in out
