"""The examples in the documentation do what they say."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from rota.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["rota", *shlex.split(command)[1:]])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_the_policy_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("docs/policies.md", "python")
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(code)
    commands = [line for block in blocks("docs/policies.md", "sh") for line in block.splitlines() if line.startswith("rota ")]
    assert len(commands) == 2
    for command in commands:
        assert run(command.replace("philly-like", "demo"), monkeypatch) == 0
    assert "./mine.py:Mine" in capsys.readouterr().out


def test_the_readmes_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs.csv").write_text("submit_time,gpus,duration\n0,1,60\n5,4,120\n")
    (policy,) = blocks("docs/policies.md", "python")
    Path("mine.py").write_text(policy)
    commands = [line for line in "\n".join(blocks("README.md", "sh")).splitlines() if line.startswith(".venv/bin/rota ")]
    assert len(commands) == 4
    for command in commands:
        assert run(command, monkeypatch) == 0, command
    assert "offered load" in capsys.readouterr().out


def test_the_readmes_python(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("README.md", "python")
    exec(compile(code, "README.md", "exec"), {})
    assert "JCT mean" in capsys.readouterr().out


def test_the_readmes_table_is_what_the_demo_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown = next(block for block in blocks("README.md", "text") if block.startswith("POLICY"))
    assert run("rota demo", monkeypatch) == 0
    printed = capsys.readouterr().out

    def cells(text: str) -> list[list[str]]:
        return [line.split() for line in text.strip().splitlines()]

    assert cells(printed) == cells(shown)
