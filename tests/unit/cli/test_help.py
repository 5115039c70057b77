"""The help of every command names values by their flags, not by their types in Python."""

import re
import sys
from pathlib import Path

import pytest
import typer

from rota.cli.main import main, make_app
from rota.traces.synthetic import BUILT_IN, GENERATED
from tests.unit.cli.conftest import Rota


def commands() -> list[list[str]]:
    def below(command: object, words: list[str]) -> list[list[str]]:
        each = getattr(command, "commands", {})
        return [words, *(found for name in each for found in below(each[name], [*words, name]))]

    return below(typer.main.get_command(make_app([])), [])


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_no_type_is_named(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["rota", *words, "--help"])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr().out
    assert stop.value.code == 0 and printed.startswith("Usage: rota")
    assert not re.search(r"<\w+(\[\w+\])?>|list\[|\bNoneType\b|\{\w+\}", printed), printed


def test_a_value_is_called_by_its_flag(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["rota", "compare", "--help"])
    with pytest.raises(SystemExit):
        main()
    printed = capsys.readouterr().out
    assert "rota compare [OPTIONS] POLICIES..." in printed and "--cluster CLUSTER" in printed and "--seeds N" in printed


def test_where_to_go_next(rota: Rota) -> None:
    code, out, _ = rota("help", "next")
    assert code == 0
    for door in ("Compare policies", "Run my training script", "Write a policy", "Set up a cluster"):
        assert door in out
    for page in re.findall(r"docs/[\w-]+\.md", out):
        assert (Path(__file__).parents[3] / page).exists(), page


def test_help_of_a_command_and_of_one_that_is_not_there(rota: Rota) -> None:
    assert rota("help", "down")[1] == rota("down", "--help")[1]
    code, _, err = rota("help", "nonsense")
    assert code == 2 and "No such command 'nonsense'" in err


def test_the_help_of_sim_names_every_generated_trace(rota: Rota) -> None:
    help = " ".join(rota("sim", "--help")[1].split("--trace TRACE")[1].split("--policy")[0].split())
    assert all(re.search(rf"\b{name}\b", help) for name in (*GENERATED, *BUILT_IN)), help
