"""The commands as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import rota as package
from tests.examples import scaled
from tests.unit.cli.test_bad_input import rota

SUMMARY = [
    "jobs",
    "finished",
    "mean_jct_seconds",
    "median_jct_seconds",
    "p95_jct_seconds",
    "p99_jct_seconds",
    "geomean_jct_seconds",
    "makespan_seconds",
    "mean_queueing_seconds",
    "mean_first_run_seconds",
    "mean_feedback_seconds",
    "p95_feedback_seconds",
    "utilization",
    "offered_load",
    "mean_jct_bound_seconds",
    "makespan_bound_seconds",
    "gap_to_jct_bound",
    "finish_time_fairness_p95",
    "suspensions",
    "migrations",
    "lost_gpu_seconds",
    "cost_dollars",
    "slo_violations",
    "plans",
    "decisions",
    "decision_seconds",
    "simulated_in_seconds",
    "peak_memory_mb",
]


def test_sim_json_is_the_contract_and_nothing_else(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = rota(capsys, monkeypatch, "sim", "--trace", "demo", "--policy", "tiresias", "-o", "json", "--per-job")
    assert code == 0
    value = json.loads(out)
    assert set(value) == {"summary", "jobs", "params"}
    assert set(SUMMARY) <= set(value["summary"])
    assert value["summary"]["finished"] == value["summary"]["jobs"] == len(value["jobs"])
    assert value["summary"]["cost_dollars"] > 0
    assert value["summary"]["mean_jct_bound_seconds"] <= value["summary"]["mean_jct_seconds"]
    assert value["params"]["policy"] == "tiresias"


@pytest.mark.slow
def test_same_seed_same_result(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        "sim",
        "--trace",
        "demo",
        "--policy",
        "las+random",
        "--seed",
        "3",
        "--node-mtbf-seconds",
        "40000",
        "-o",
        "json",
        "--per-job",
    )
    first, second = (json.loads(rota(capsys, monkeypatch, *words)[1]) for _ in range(2))
    assert first["jobs"] == second["jobs"]
    assert first["summary"]["lost_gpu_seconds"] > 0


def test_sim_table_shows_bound_and_load(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = rota(capsys, monkeypatch, "sim", "--trace", "demo", "--policy", "srsf")
    assert code == 0
    assert "offered load" in out and "no schedule beats mean JCT" in out and "srsf" in out


@pytest.mark.slow
def test_compare_lists_one_object_per_policy(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = rota(capsys, monkeypatch, "compare", "fifo", "srsf+spread", "-o", "json")
    assert code == 0
    fifo, srsf = json.loads(out)
    assert srsf["params"]["placer"] == "spread"
    assert srsf["summary"]["mean_jct_seconds"] < fifo["summary"]["mean_jct_seconds"]


def test_oversized_jobs_are_dropped_only_when_asked_and_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("submit_time,gpus,duration\n0,1,10\n1,99,10\n")
    _, out, _ = rota(capsys, monkeypatch, "sim", "--trace", str(trace), "--drop-oversized", "-o", "json")
    value = json.loads(out)
    assert value["summary"]["jobs"] == 1 and value["params"]["skipped"] == 1


def test_policy_list_and_show(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = rota(capsys, monkeypatch, "policy", "list", "-o", "json")
    names = {row["name"] for row in json.loads(out)}
    assert {"fifo", "sjf", "srtf", "srsf", "las", "tiresias", "gittins", "packed", "spread", "random"} <= names
    _, out, _ = rota(capsys, monkeypatch, "policy", "show", "tiresias", "-o", "json")
    shown = json.loads(out)
    assert [row["option"] for row in shown["options"]] == ["thresholds", "promote", "service"]
    assert all(row["about"] for row in shown["options"])


@pytest.mark.parametrize("name", ["fifo", "fifo:backfill=true", "sjf", "srtf", "srsf", "las", "tiresias:promote=4", "gittins"])
@pytest.mark.slow
def test_policy_check_passes_for_the_built_in_ones(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    code, out, _ = rota(capsys, monkeypatch, "policy", "check", name, "--seeds", str(scaled(4)), "-o", "json")
    assert code == 0 and all(row["holds"] for row in json.loads(out))


BAD_POLICIES = {
    "twice": "import numpy as np, rota\nclass P:\n    def allocate(self, v):\n"
    "        return rota.Ranking(order=np.zeros(len(v.jobs), dtype=int))\n",
    "raises": "class P:\n    def allocate(self, v): return 1 / 0\n",
    "forgetful": "import random, rota\nclass P:\n    def allocate(self, v):\n"
    "        return rota.Ranking.by([random.random() for _ in range(len(v.jobs))])\n",
    "writes": "import rota\nclass P:\n    def allocate(self, v):\n        v.jobs._table.attained[:] = 0\n"
    "        return rota.Ranking.by(v.jobs.gpus)\n",
    "starves": "import rota\nclass P:\n    def allocate(self, v):\n        return rota.Ranking(order=v.jobs.ids[:0])\n",
}


@pytest.mark.parametrize("name", BAD_POLICIES)
@pytest.mark.slow
def test_policy_check_finds_what_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    (tmp_path / "mine.py").write_text(BAD_POLICIES[name])
    code, out, _ = rota(capsys, monkeypatch, "policy", "check", f"{tmp_path}/mine.py:P", "--seeds", "3")
    assert code == 1 and "FAIL" in out


@pytest.mark.slow
def test_a_users_file_with_options_works(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nimport rota\n\n@dataclass(frozen=True)\nclass Mine:\n    power: float = 1.0\n\n"
        "    def allocate(self, view):\n        return rota.Ranking.by(view.jobs.seconds_left * view.jobs.gpus**self.power)\n"
    )
    _, out, _ = rota(capsys, monkeypatch, "sim", "--trace", "demo", "--policy", f"{tmp_path}/mine.py:Mine:power=1", "-o", "json")
    _, reference, _ = rota(capsys, monkeypatch, "sim", "--trace", "demo", "--policy", "srsf", "-o", "json")
    mine, srsf = json.loads(out)["summary"], json.loads(reference)["summary"]
    assert mine["mean_jct_seconds"] == srsf["mean_jct_seconds"]


def test_the_installed_command_runs() -> None:
    command = Path(sys.executable).parent / "rota"
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"rota {package.__version__}"


@pytest.mark.parametrize("words", [(), ("policy",), ("trace",)])
def test_nothing_asked_for_shows_the_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    code, out, err = rota(capsys, monkeypatch, *words)
    assert code == 0 and err == "" and out.startswith("Usage: rota") and "\nCommands:" in out


@pytest.mark.slow
def test_a_guess_is_told_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    note = "note: TPU9 is an unknown accelerator type; assuming the speed of a V100.\n"
    for words in (("sim",), ("compare", "fifo", "srsf"), ("sweep", "fifo", "--out", str(tmp_path / "out"))):
        code, out, err = rota(capsys, monkeypatch, *words, "--trace", "demo", "--cluster", "24xTPU9")
        assert code == 0 and err == note and "note:" not in out
    code, _, err = rota(capsys, monkeypatch, "sim", "--trace", "demo", "--cluster", "24xH1000")
    assert code == 2 and "Closest: H100." in err
    site = tmp_path / "site.yaml"
    site.write_text("nodes: [{accelerator: H1000, gpus: 8}]\n")
    code, _, err = rota(capsys, monkeypatch, "check", str(site))
    assert code == 2 and "Closest: H100." in err


def test_jobs_tell_whose_they_are_and_where_they_ran(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "submit_time,gpus,steps,profile,user,tenant,accelerators\n"
        "0,1,500,resnet50/bs64,ana,vision/a,K80\n1,1,500,resnet50/bs64,bo,speech,V100\n"
    )
    words = ("sim", "--trace", str(path), "--cluster", "1xV100 + 1xK80", "--per-job", "-o")
    _, out, _ = rota(capsys, monkeypatch, *words, "json")
    names = ("user", "tenant", "profile", "ran_on")
    assert [tuple(job[name] for name in names) for job in json.loads(out)["jobs"]] == [
        ("ana", "vision/a", "resnet50/bs64", "K80"),
        ("bo", "speech", "resnet50/bs64", "V100"),
    ]
    _, out, _ = rota(capsys, monkeypatch, *words, "csv")
    assert out.splitlines()[0].split(",")[:7] == ["id", "name", "user", "tenant", "profile", "gpus", "ran_on"]


def test_a_job_that_moved_has_run_on_two_types(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("sim", "--trace", "demo", "--policy", "las", "--per-job", "-o", "json")
    _, out, _ = rota(capsys, monkeypatch, *words)
    ran = {job["ran_on"] for job in json.loads(out)["jobs"]}
    assert "V100" in ran and any("|" in each for each in ran) and all(ran)
