"""Every field of a study is either one that a live scheduler takes too, or one of simulations alone."""

import inspect
from collections.abc import Iterator
from typing import Any

import click
import pytest
import typer

import rota
from rota.cli.main import make_app
from rota.compose.live_fields import HEALTH, LIVE, REMEMBERED_FIELDS, SIMULATED
from rota.compose.study import study_fields
from rota.core.settings import Settings
from rota.experiments.grid import Grid
from rota.profiles.variability_files import describe_variability, read_variability
from rota.traces.synthetic import open_trace


def commands() -> Iterator[tuple[str, click.Command]]:
    def below(command: Any, words: list[str]) -> Iterator[tuple[str, click.Command]]:
        yield " ".join(words), command
        for name, each in getattr(command, "commands", {}).items():
            yield from below(each, [*words, name])

    return below(typer.main.get_command(make_app([])), [])


def flags(command: str) -> dict[str, Any]:
    return {each.name: each for each in dict(commands())[command].params}


def test_a_field_is_live_or_of_simulations_alone() -> None:
    assert not set(LIVE) & set(SIMULATED)
    assert {*LIVE, *SIMULATED} == set(study_fields()), "put a new field of Study into LIVE or into SIMULATED"
    assert {*REMEMBERED_FIELDS, "policy", "placer"} == {*LIVE, *HEALTH} and all(SIMULATED.values())
    assert not set(HEALTH) & set(study_fields()), "flags of health checks are no fields of a study"


def test_up_has_the_flags_of_sim_that_are_live_and_no_other() -> None:
    up, sim = flags("up"), flags("sim")
    assert set(LIVE) <= set(up) and not set(SIMULATED) & set(up)
    for name in LIVE:
        for fact in ("opts", "help", "metavar", "is_flag", "multiple"):
            assert getattr(up[name], fact) == getattr(sim[name], fact), (name, fact)
        assert up[name].default in (None, False), "what is not given is as the home had it"


def test_the_same_seed_is_the_default_everywhere() -> None:
    usual = study_fields()["seed"].default
    found = {words: each.default for words, command in commands() for each in command.params if each.name == "seed"}
    assert len(found) > 4 and set(found.values()) == {usual}, found
    assert Settings().seed == usual, "a live scheduler has no flag for it"
    for function in (rota.simulate, rota.sweep, rota.compare, read_variability, describe_variability, Grid):
        parameters = inspect.signature(function).parameters
        if "seed" in parameters:
            assert parameters["seed"].default == usual, function


@pytest.mark.parametrize("name", ["synthetic:jobs=20", "gavel:jobs=20", "sia:jobs=20", "tiresias:jobs=20", "gandiva:jobs=40"])
def test_a_generated_trace_has_the_same_seed_by_default(name: str) -> None:
    usual = study_fields()["seed"].default
    same, other = (open_trace(f"{name},seed={seed}").arrivals for seed in (usual, usual + 1))
    assert open_trace(name).arrivals == same != other
