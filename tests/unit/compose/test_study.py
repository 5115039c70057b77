"""A study: every input of a simulation, described once."""

import dataclasses
import inspect
from pathlib import Path

import numpy as np
import pytest

import rota
from rota.api import prepare
from rota.beliefs.locality import Locality
from rota.compose.study import Study, make_study, read_field, study_fields, study_help
from rota.errors import OptionError
from rota.sim.physics import Physics

ROOT = Path(__file__).resolve().parents[3]


def test_every_field_is_described() -> None:
    assert list(study_help()) == list(study_fields())
    assert all(text and text.endswith(".") for text, _ in study_help().values())


def test_every_field_of_the_physics_is_one_of_a_study() -> None:
    assert {each.name for each in dataclasses.fields(Physics)} <= study_fields().keys()


def test_help_of_simulate_lists_and_types_every_field() -> None:
    for function in (rota.simulate, prepare):
        parameters = inspect.signature(function).parameters
        assert set(study_fields()) <= set(parameters)
        assert all(each.annotation is not inspect.Parameter.empty for each in parameters.values())
        for name, (text, _) in study_help().items():
            assert f"{name}: {text}" in (function.__doc__ or "")
    assert inspect.signature(rota.simulate).return_annotation is rota.Result
    assert "progress" in inspect.signature(rota.simulate).parameters


def test_every_flag_is_in_the_docs() -> None:
    page = (ROOT / "docs/commands.md").read_text()
    for name, field in study_fields().items():
        if field.metadata.get("flag", True):
            assert f"`--{name.replace('_', '-')}" in page, name


def test_it_is_frozen_and_its_keywords_have_names() -> None:
    study = Study("demo")
    with pytest.raises(dataclasses.FrozenInstanceError):
        study.policy = "las"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Study("demo", "las")  # type: ignore[misc]


def test_values_that_mean_the_same_are_the_same() -> None:
    one = Study("demo", where={"tenant": "a"}, node_mtbf_seconds=np.array([1.0, 2.0]))
    two = Study("demo", where=[("tenant", "a")], node_mtbf_seconds=[1, 2])
    assert one == two and one.filters == (("tenant", "a"),)


def test_what_json_holds_is_the_same_study() -> None:
    study = Study(
        "demo",
        policy="tiresias:thresholds=3250/7200",
        where={"tenant": "a"},
        window=(10, 20),
        wait_for_locality=True,
        launch_seconds=7.5,
        spread_penalty={"": 1.0, "vgg19": 1.7},
        node_repair_seconds=(10.0, 20.0),
    )
    assert make_study(study.plain()) == study
    assert Study("demo").plain() == {"trace": "demo"}, "defaults are left out"
    assert Study("demo", spread_penalty=Locality.of("1.2/1.1")).plain()["spread_penalty"] == "1.2/1.1"
    assert Study(Path("demo")).plain() == {"trace": "./demo"}, "a file, not the built-in trace"
    assert repr(Study("demo", seed=3)) == "Study(trace='demo', seed=3)"


def test_an_object_cannot_be_written_down() -> None:
    with pytest.raises(OptionError, match="cluster: 'Cluster' — is an object"):
        Study("demo", cluster=rota.Cluster.parse("4xV100")).plain()


def test_an_unknown_field_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"lanch_seconds: 4 — .* Closest: launch_seconds"):
        make_study({"trace": "demo", "lanch_seconds": 4})


@pytest.mark.parametrize(
    "name,text,value",
    [
        ("policy", "las", "las"),
        ("first", "20", 20),
        ("round_seconds", "360", 360.0),
        ("node_mtbf_seconds", "5e3", 5000.0),
        ("wait_for_locality", "true", True),
        ("window", "10:20", (10, 20)),
        ("where", "tenant=a", (("tenant", "a"),)),
        ("spread_penalty", "1.7", 1.7),
        ("spread_penalty", "1.2/1.1", "1.2/1.1"),
    ],
)
def test_fields_as_they_are_typed(name: str, text: str, value: object) -> None:
    assert read_field(name, text) == value


@pytest.mark.parametrize(
    "name,text",
    [("first", "1.5"), ("seed", "x"), ("launch_seconds", "soon"), ("window", "5"), ("where", "a"), ("drop_oversized", "2")],
)
def test_texts_that_a_field_does_not_take(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"^not .*\.$"):
        read_field(name, text)


def test_a_result_carries_its_study_and_the_study_gives_it_again() -> None:
    result = rota.simulate("demo", policy="srsf", first=30, launch_seconds=9)
    assert result.study == Study("demo", policy="srsf", first=30, launch_seconds=9)
    again = rota.simulate(**result.study.plain())
    assert again.record.finished_s.tolist() == result.record.finished_s.tolist() and again.params == result.params


def test_every_result_of_a_comparison_carries_its_own(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,gpus,duration,tenant\n0,1,60,a\n0,1,60,b\n")
    found = rota.compare(["fifo", "las+spread"], trace=path, where={"tenant": "b"}, cluster="2xV100", seeds=2)
    assert [(each.study.policy, each.study.seed) for each in found] == [
        ("fifo", 0),
        ("fifo", 1),
        ("las+spread", 0),
        ("las+spread", 1),
    ]
    assert all(each.study.filters == (("tenant", "b"),) and each.params["where"] == {"tenant": "b"} for each in found)
