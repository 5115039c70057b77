"""Wrong inputs that users typed: each gets one clear line, and nothing happens silently."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Rota

TRACE = "submit_time,gpus,duration\n0,1,600\n0,2,6000\n5,1,100\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(TRACE)
    return tmp_path


def test_a_misspelt_profile_is_named_with_the_closest(folder: Path, rota: Rota) -> None:
    (folder / "typo.csv").write_text("submit_time,gpus,steps,profile\n0,1,600,resnet-50/bs64\n1,1,600,resnet50/bs64\n")
    code, _, err = rota("sim", "--trace", "typo.csv")
    assert code == 0
    assert "1 job has an unknown profile: 'resnet-50/bs64' (closest: resnet50); assuming one step per second on a V100" in err
    code, out, _ = rota("check", "typo.csv")
    assert code == 0 and "1 job with a profile that is not in the catalogue: 'resnet-50/bs64' (closest: resnet50)" in out
    assert "catalogue" not in rota("check", "jobs.csv")[1]


@pytest.mark.slow
def test_nodes_that_fail_faster_than_any_job_can_save_end_the_simulation_soon(folder: Path, rota: Rota) -> None:
    code, _, err = rota("sim", "--trace", "jobs.csv", "--node-mtbf-seconds", "1", "--cluster", "12x(2xV100)")
    assert code == 1 and "Every node has failed 100 times on average, and no job has saved a step" in err
    assert "--node-mtbf-seconds 86400" in err


def test_failures_that_let_jobs_save_are_simulated_to_the_end(folder: Path, rota: Rota) -> None:
    flags = ("--node-mtbf-seconds", "400", "--node-repair-seconds", "10", "--checkpoint-every-seconds", "60")
    code, out, _ = rota("sim", "--trace", "jobs.csv", *flags, "-o", "json")
    assert code == 0 and json.loads(out)["summary"]["jobs"] == 3


@pytest.mark.parametrize("gpus", ["-1", "0", "-0.5"])
def test_too_few_gpus_are_answered_alike(folder: Path, rota: Rota, gpus: str) -> None:
    (folder / "few.csv").write_text(f"submit_time,gpus,duration\n0,{gpus},10\n")
    code, _, err = rota("sim", "--trace", "few.csv")
    assert (code, err) == (2, f"few.csv:2  gpus: '{gpus}' — must be at least 1.\nTry: give 1 or more, or take the row out\n")


def test_no_folder_is_made_silently(folder: Path, rota: Rota) -> None:
    for words in (
        ("sim", "--trace", "jobs.csv", "--html", "nosuch/x.html"),
        ("compare", "fifo", "--trace", "jobs.csv", "--html", "nosuch/x.html"),
        ("demo", "--html", "nosuch/x.html"),
        ("trace", "convert", "jobs.csv", "nosuch/x.csv"),
        ("trace", "generate", "nosuch/x.csv", "--jobs", "3"),
    ):
        code, out, err = rota(*words)
        assert (code, out) == (2, "") and "does not exist" in err and "Try: mkdir -p nosuch" in err
    assert not (folder / "nosuch").exists()


def test_what_a_policy_answered_is_named_by_its_check(folder: Path, rota: Rota) -> None:
    (folder / "one.py").write_text("class Mine:\n    def allocate(self, view):\n        return 1\n")
    code, out, _ = rota("policy", "check", "./one.py", "--seeds", "1")
    assert code == 1 and out.count("allocate answered with int") == 7
    assert "AttributeError" not in out and "conformance.py" not in out


@pytest.mark.slow
def test_a_policy_that_draws_its_answers_did_not_raise(folder: Path, rota: Rota) -> None:
    (folder / "draw.py").write_text(
        "import random\nimport rota\n\n\nclass Mine:\n    def allocate(self, view):\n"
        "        return rota.Ranking.by([random.random() for _ in range(len(view.jobs))])\n"
    )
    code, out, _ = rota("policy", "check", "./draw.py", "--seeds", "2")
    assert code == 1 and "called twice with one view, it answered differently (seed" in out
    assert "raised" not in out and "Violation" not in out
    assert "ok    recorded answers lead to the same decisions again" in out


def test_an_option_of_a_policy_is_varied_with_its_prefix(folder: Path, rota: Rota) -> None:
    code, _, err = rota("sweep", "tiresias", "--vary", "promote=0/8")
    assert code == 2 and err.endswith("Try: --vary policy.promote=A/B, if it is an option of a policy\n")


def test_policies_with_commas_between_them(folder: Path, rota: Rota) -> None:
    code, _, err = rota("compare", "fifo,srsf")
    assert (code, err) == (2, "policy: 'fifo,srsf' — has a comma.\nTry: separate them by spaces: fifo srsf\n")


def test_a_type_that_the_cluster_lacks_is_the_hint(folder: Path, rota: Rota) -> None:
    (folder / "h100.csv").write_text("submit_time,gpus,duration,accelerators\n0,1,600,H100\n")
    code, _, err = rota("sim", "--trace", "h100.csv")
    assert code == 2 and "1 job can never run on" in err and "line-2 requests 1 GPU of H100" in err
    assert err.endswith("Try: --drop-oversized leaves it out, or a --cluster with H100\n")
    (folder / "large.csv").write_text("submit_time,gpus,duration\n0,64,600\n0,64,600\n")
    code, _, err = rota("sim", "--trace", "large.csv")
    assert "2 jobs can never run" in err and err.endswith("leaves them out, or a --cluster that is larger\n")


def test_the_hint_for_a_missing_file_is_not_what_was_typed(folder: Path, rota: Rota) -> None:
    code, _, err = rota("policy", "check", "./mine.py:Mine")
    assert code == 2 and f"no such file in {folder}." in err and "Try: ./mine.py:Mine" not in err
    (folder / "mime.py").write_text("")
    assert "Closest: mime.py." in rota("policy", "check", "./mine.py:Mine")[2]


@pytest.mark.parametrize(("typed", "meant"), [("simulate", "sim"), ("comapre", "compare"), ("stat", "status"), ("job", "jobs")])
def test_a_command_that_does_not_exist(folder: Path, rota: Rota, typed: str, meant: str) -> None:
    assert rota(typed) == (2, "", f"No such command '{typed}'. Closest: {meant}.\nTry: rota {meant} --help\n")


def test_a_word_that_is_like_no_command(folder: Path, rota: Rota) -> None:
    assert rota("xyzzy") == (2, "", "No such command 'xyzzy'.\nTry: rota --help\n")


def test_equal_runs_are_not_repeated(folder: Path, rota: Rota) -> None:
    code, out, err = rota("compare", "fifo", "srsf", "--trace", "jobs.csv", "--seeds", "9000", "-o", "json")
    assert code == 0 and [len(each["seeds"]) for each in json.loads(out)] == [2, 2]
    assert "--seeds 9000 does nothing more than --seeds 2: both gave the same, and nothing here is random" in err
    for command in (("compare",), ("sweep", "--out", "o")):
        code, _, err = rota(command[0], "fifo", "--trace", "jobs.csv", "--seeds", "1000000", *command[1:])
        assert code == 2 and "must be from 1 to 10,000" in err


@pytest.mark.parametrize(
    "flags", [("--trace", "synthetic:jobs=5"), ("--trace", "jobs.csv", "--node-mtbf-seconds", "1e9")], ids=["trace", "failures"]
)
def test_what_chance_decides_runs_with_every_seed(folder: Path, rota: Rota, flags: tuple[str, ...]) -> None:
    code, out, _ = rota("compare", "fifo", "--seeds", "3", *flags, "-o", "json")
    assert code == 0 and len(json.loads(out)[0]["seeds"]) == 3


def test_all_nodes_leave(folder: Path, rota: Rota) -> None:
    (folder / "leave.yaml").write_text("nodes: [{accelerator: V100, gpus: 4, name: a}]\nevents: [{at: 1m, leave: a}]\n")
    code, _, err = rota("sim", "--trace", "jobs.csv", "--cluster", "leave.yaml")
    assert code == 1 and "3 jobs did not finish" in err and "since nodes left" in err
    assert err.endswith("Try: let some nodes stay, or others join: see `events` in the cluster file\n")


@pytest.mark.parametrize(
    "words", [("sweep", "fifo", "--vary", "trace.load=0.5/x", "--out", "o"), ("trace", "generate", "g.csv", "--jobs", "-3")]
)
def test_settings_that_were_not_typed_are_not_shown(folder: Path, rota: Rota, words: tuple[str, ...]) -> None:
    code, _, err = rota(*words)
    assert code != 0 and "must be a" in err and "longest_s" not in err and "tenants" not in err and "seed=7" not in err


def test_a_date_is_no_time_of_a_trace(folder: Path, rota: Rota) -> None:
    (folder / "iso.csv").write_text("submit_time,gpus,duration\n2026-01-01T00:00:00,1,600\n")
    code, _, err = rota("sim", "--trace", "iso.csv")
    assert code == 2 and "is a date." in err and "Try: write seconds since the start of the trace, such as 3600" in err


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["goodput", "ones", "optimus"])
def test_a_policy_that_resizes_jobs_of_one_size_says_so(folder: Path, rota: Rota, policy: str) -> None:
    _, _, err = rota("sim", "--trace", "jobs.csv", "--policy", policy)
    assert f"note: {policy} changes no sizes: every job here accepts one size only" in err
    assert "changes no sizes" not in rota("sim", "--trace", "ones:jobs=3", "--policy", policy)[2]
    assert "changes no sizes" not in rota("sim", "--trace", "jobs.csv", "--policy", "las")[2]


@pytest.mark.slow
def test_imports_are_not_part_of_the_time_to_solve(folder: Path) -> None:
    """In a process of its own, in which the solver has not been loaded yet."""
    import subprocess
    import sys

    root = Path(__file__).resolve().parents[3]
    code = (
        "import builtins, sys, time\n"
        "import rota.compose.solve as s\n"
        "from rota.compose.registry import make_placer, make_policy\n"
        "policy = make_policy('./budget.py:Budget:dollars_per_hour=5')\n"
        "loaded = set(sys.modules)\n"
        "allocate = type(policy).allocate\n"
        "def watched(self, view):\n"
        "    before = set(sys.modules)\n"
        "    answer = allocate(self, view)\n"
        "    print(sorted(m for m in set(sys.modules) - before if m.split('.')[0] in ('scipy', 'highspy', 'clarabel', 'rota')))\n"
        "    return answer\n"
        "type(policy).allocate = watched\n"
        "s.solve(s.read_instance('instance.json'), policy, make_placer('packed'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root / "examples", capture_output=True, text=True, timeout=300)
    assert done.stdout == "[]\n", done.stdout + done.stderr
