"""`rota submit`, against a real server with a daemon in memory."""

import json
import sys
from pathlib import Path

import pytest

from rota.cli.main import COMMANDS
from rota.wire.client import PASSED_ON
from rota.wire.set_by_rota import SET_BY_ROTA
from tests.unit.cli.conftest import Rota
from tests.unit.server.standin import Served


def test_a_command_of_several_words_is_a_vector(served: Served, rota: Rota) -> None:
    code, out, err = rota("submit", "--gpus", "4", "--accelerator", "A100,v100", "--", "python", "train.py", "--gpus", "9", "--")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first == "Job 1  job-1   4 GPUs, any of A100 V100"
    assert second == "  follow   rota logs -f 1     why   rota why 1     stop   rota cancel 1"
    spec, user, workdir, env = served.daemon.sent[1]
    assert spec.run == ["python", "train.py", "--gpus", "9", "--"] and spec.gpus == 4
    assert (user, workdir) == ("ana", str(Path.cwd())) and set(env) <= set(PASSED_ON)


def test_one_word_with_blanks_goes_to_bash(served: Served, rota: Rota) -> None:
    assert rota("submit", "--", "python train.py && echo done")[0] == 0
    assert served.daemon.sent[1][0].run == "python train.py && echo done"
    assert rota("submit", "--", "nvidia-smi")[0] == 0
    assert served.daemon.sent[2][0].run == ["nvidia-smi"]
    assert rota("submit", "--", "job.yaml")[0] == 0
    assert served.daemon.sent[3][0].run == ["job.yaml"]


def test_a_spec_and_flags_that_win(served: Served, rota: Rota) -> None:
    Path("resnet.yaml").write_text(
        "run: torchrun train.py\nname: resnet50\ngpus: 2\nsteps: 450_000\nweight: 1\n"
        "deadline: 2030-01-01 09:00:00\ncheckpoint: {dir: ckpt, grace: 30s}\nenv: {EPOCHS: 90}\n"
    )
    code, out, _ = rota("submit", "resnet.yaml", "--gpus", "4", "--weight", "2.5", "--progress", r"step (\d+)", "-o", "json")
    row = json.loads(out)
    assert code == 0 and (row["id"], row["name"], row["gpus"], row["phase"]) == (1, "resnet50", 4, "queued")
    spec = served.daemon.sent[1][0]
    assert (spec.gpus, spec.steps, spec.weight, spec.progress) == (4, 450_000, 2.5, r"step (\d+)")
    assert spec.checkpoint.grace == 30 and spec.env == {"EPOCHS": 90} and spec.deadline and spec.deadline.hour == 9
    assert "450,000 steps" in rota("submit", "resnet.yaml")[1]


def test_a_key_submits_once(served: Served, rota: Rota) -> None:
    first, again = (rota("submit", "--key", "nightly-7", "--", "python", "train.py") for _ in range(2))
    assert first == again and first[0] == 0 and len(served.daemon.rows) == 1
    assert rota("submit", "--", "python", "train.py")[1].startswith("Job 2 ")
    code, _, err = rota("submit", "--key", "nightly-7", "--", "python", "other.py")
    assert code == 2 and "idempotency_key: 'nightly-7' — another job was submitted with this key" in err


def test_a_script(served: Served, rota: Rota) -> None:
    Path("train.sh").write_text("echo hello\n")
    assert rota("submit", "train.sh", "--steps", "10")[0] == 0
    assert served.daemon.sent[1][0].run == ["bash", "train.sh"] and served.daemon.rows[1].name == "train"
    Path("unnamed.yaml").write_text("run: x\n")
    assert rota("submit", "unnamed.yaml", "--name", "other")[0] == 0
    assert served.daemon.rows[2].name == "other"


def test_a_script_with_directives_and_arguments(served: Served, rota: Rota) -> None:
    Path("train.sh").write_text(
        "#!/bin/bash\n#SBATCH --gpus=4 --job-name=net\n#SBATCH --mem=8G --tmp=9G\n#ROTA weight: 2\necho $1\n"
    )
    code, out, err = rota("submit", "train.sh", "90", "--gpus", "2", "--", "--lr", "0.1")
    assert code == 0 and out.startswith("Job 1  net   2 GPUs")
    assert err == "note: train.sh:3  --tmp: ignored. Rota does not count disk space.\n"
    spec = served.daemon.sent[1][0]
    assert spec.run == ["bash", "train.sh", "90", "--lr", "0.1"] and (spec.gpus, spec.weight, spec.memory) == (2, 2, 8)
    code, out, err = rota("submit", "train.sh", "-o", "json")
    assert json.loads(out)["gpus"] == 4 and "note: " in err
    Path("train.sh").write_text("#SBATCH --begin=now\n")
    code, out, err = rota("submit", "train.sh")
    assert (code, out) == (2, "") and err.startswith("train.sh:1  --begin: 'now' — cannot be honoured") and "Try: " in err
    Path("train.sh").write_text("#\n#SBATCH --gpus=99\n")
    assert "train.sh:2  gpus: 99 — UNSATISFIABLE" in rota("submit", "train.sh")[2]
    assert len(served.daemon.rows) == 2


def test_a_python_script(served: Served, rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    Path("train.py").write_text("print('trains')\n")
    assert rota("submit", "train.py", "--gpus", "1", "--", "--epochs", "3")[0] == 0
    spec = served.daemon.sent[1][0]
    assert spec.run == [str(Path(sys.prefix) / "bin/python"), "train.py", "--epochs", "3"] and spec.name == "train"
    assert rota("submit", "nowhere.py")[2].startswith("nowhere.py — there is no such script.")


def test_an_unknown_flag_after_a_script_may_be_meant_for_the_script(rota: Rota) -> None:
    code, out, err = rota("submit", "--gpus", "2", "train.py", "a b", "--epochs=3")
    assert (code, out) == (2, "") and err == (
        "--epochs — is not a flag of rota submit; arguments of a script follow --.\n"
        "Try: rota submit --gpus 2 train.py -- 'a b' --epochs=3\n"
    )
    assert rota("submit", "--epochs", "3", "train.py")[2].startswith("No such option: --epochs")


def test_the_map_from_slurm_names_what_exists(rota: Rota) -> None:
    rows = json.loads(rota("slurm", "-o", "json")[1])
    commands = [each["rota"].split() for each in rows if each["kind"] == "command"]
    assert len(commands) > 10 and all(words[0] == "rota" and words[1] in COMMANDS for words in commands)
    assert {each["rota"] for each in rows if each["kind"] == "variable"} <= set(SET_BY_ROTA)
    text = rota("slurm")[1]
    assert all(each["slurm"] in text and each["rota"] in text for each in rows)


def test_the_home_is_part_of_the_commands_to_type_next(served: Served, rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_HOME")
    _, out, _ = rota("submit", "--home", str(served.home), "--", "x")
    assert f"rota why --home {served.home} 1" in out


BAD_SUBMISSIONS: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
    ("run: x\ngpu: 4\n", (), ("job.yaml:2", "unknown field 'gpu'", "Closest: gpus")),
    ("name: x\n", (), ("job.yaml:1", "needs 'run'")),
    ("run: x\ncheckpoint:\n  dir: c\n  grace: soon\n", (), ("job.yaml:4", "checkpoint.grace", "'soon'")),
    ("run: x\n\ngpus: 99\n", (), ("job.yaml:3", "gpus: 99", "UNSATISFIABLE")),
    ("run: x\ngpus: 1\n", ("--gpus", "99"), ("gpus: 99", "UNSATISFIABLE")),
    ("run: x\naccelerators:\n  - A100\n  - 'V 100'\n", (), ("job.yaml:2", "accelerators", "'V 100'")),
    ("run: x\nweight: .inf\n", (), ("job.yaml:2", "weight", "finite")),
    ("run: x\nenv: {a: &b c}\n", (), ("job.yaml:2", "anchors")),
    ("- run\n", (), ("job.yaml:1", "not a mapping")),
    ("", (), ("job.yaml", "empty")),
    ("run: x\n", ("--gpus", "two"), ("--gpus", "'two'")),
    ("run: x\n", ("--weight", "nan"), ("--weight", "finite")),
    ("run: x\n", ("--steps", "0"), ("steps",)),
    ("run: x\n", ("--progress", "("), ("progress", "regular expression")),
    ("run: x\n", ("--dry-run",), ("--dry-run", "No such option")),
    ("run: x\n", ("-o", "yaml"), ("-o", "yaml")),
    ("run: x\n", ("--", "y"), ("two jobs",)),
]


@pytest.mark.parametrize(("text", "flags", "expected"), BAD_SUBMISSIONS)
def test_a_submission_that_cannot_be(
    served: Served, rota: Rota, text: str, flags: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    Path("job.yaml").write_text(text)
    code, out, err = rota("submit", "job.yaml", *flags)
    assert (code, out) == (2, ""), err
    problem, hint = err.rstrip("\n").split("\n")
    assert hint.startswith("Try: ") and len(hint) > len("Try: ")
    for part in expected:
        assert part in problem, err
    if flags[:1] == ("--gpus",):
        assert "job.yaml" not in problem
    assert served.daemon.rows == {}


def test_after_and_max_run_time(served: Served, rota: Rota) -> None:
    after = ("--after", "412", "--after", "failed:vit:1", "--after", "a:b")
    code, _, err = rota("submit", *after, "--max-run-time", "90m", "--", "x")
    assert (code, err) == (0, "")
    spec = served.daemon.sent[1][0]
    assert [(each.job, str(each.when)) for each in spec.awaited] == [(412, "ok"), ("vit:1", "failed"), ("a:b", "ok")]
    assert spec.max_run_time == 5400.0
    for wrong in (("--after", "ended:"), ("--max-run-time", "soon"), ("--max-run-time", "0")):
        code, out, err = rota("submit", *wrong, "--", "x")
        assert (code, out) == (2, "") and wrong[0].strip("-").replace("-", "_") in err.replace("-", "_"), err
