"""Completion in real shells, against a real server with a daemon in memory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Rota
from tests.unit.server.standin import Served

TYPE = """
eval "$(rota completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_rota_completion rota
printf '%s\\n' "${COMPREPLY[@]}"
"""


def shell(*words: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PATH": path})


def proposed(*words: str) -> list[str]:
    """Type the words in bash, press the tabulator, and return what is proposed."""
    done = shell("bash", "--norc", "-c", TYPE, "-", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.slow
def test_commands_flags_and_names_of_policies() -> None:
    assert proposed("rota", "sub") == ["submit"]
    assert proposed("rota", "sim", "--pol") == ["--policy"]
    assert proposed("rota", "sim", "--policy", "ti") == ["tiresias"]
    assert proposed("rota", "compare", "fifo", "gavel+p") == ["gavel+packed", "gavel+pal", "gavel+pm-first"]
    assert "pal" in proposed("rota", "sim", "--placer", "p")
    assert "blox" in proposed("rota", "sim", "--preset", "")
    assert proposed("rota", "policy", "s") == ["show", "set", "solve"]
    assert proposed("rota", "jobs", "-o", "c") == ["csv"]


@pytest.mark.slow
def test_unfinished_jobs_and_nothing_that_a_shell_could_evaluate(served: Served, rota: Rota) -> None:
    for name in ("resnet", "$(touch owned)", "twice", "twice", "a b", "'; touch owned; '"):
        assert rota("submit", "--name", name, "--", "x")[0] == 0
    rota("submit", "--name", "over", "--", "x")
    rota("cancel", "over")
    assert proposed("rota", "cancel", "") == ["resnet", "2", "3", "4", "5", "6"]
    assert proposed("rota", "logs", "r") == ["resnet"]
    assert proposed("rota", "why", "1") == ["1"]
    assert proposed("rota", "wait", "resnet", "r") == []
    assert not Path("owned").exists()


@pytest.mark.slow
def test_without_a_scheduler_it_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_HOME", str(tmp_path / "none"))
    assert proposed("rota", "cancel", "") == []
    (tmp_path / "broken.yaml").write_text("submit: {gpu: 1}\n")
    monkeypatch.setenv("ROTA_CONFIG", str(tmp_path / "broken.yaml"))
    assert proposed("rota", "submit", "--gpu") == ["--gpus", "--gpu-memory"]


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_the_script_of_another_shell(rota: Rota, name: str, tmp_path: Path) -> None:
    code, out, err = rota("completion", name)
    assert (code, err) == (0, "") and f"_ROTA_COMPLETE=complete_{name}" in out
    assert out.startswith("#compdef rota" if name == "zsh" else "complete --command rota")
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    script = tmp_path / "script"
    script.write_text(out)
    assert shell(program, "-n", str(script)).returncode == 0
    if name == "fish":
        assert shell(program, "-c", f"source {script}; complete -C 'rota sub'").stdout.startswith("submit")


def test_an_unknown_shell(rota: Rota) -> None:
    code, _, err = rota("completion", "fsh")
    assert code == 2 and "Closest: fish" in err
    assert '"shell": "bash"' in rota("completion", "bash", "-o", "json")[1]
