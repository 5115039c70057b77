"""Presets: what `ideal` and the default say about speed, and when each decides."""

from typing import Any

import pytest

from rota.compose.prepare import prepare_study
from rota.compose.presets import MEASURED, preset
from rota.compose.study import Study
from rota.core.decision_timing import AtEvents, AtRounds, DecisionTiming, WholeSteps
from rota.model.cluster import Cluster
from rota.model.job import JobSpec
from rota.profiles.catalogue import Catalogue
from rota.sim.physics import Physics

CLUSTER = Cluster.parse("2x(2xV100) + 2x(2xK80)")


def rate(physics: Physics, profile: str, kind: str, levels: int) -> float:
    gpus = CLUSTER.node_first[:2] if kind == "V100" else CLUSTER.node_first[2:4]
    return physics.rate(JobSpec(profile=profile, gpus=2), CLUSTER, gpus, levels)


def test_ideal_runs_every_type_like_a_v100_and_spreading_is_free() -> None:
    ideal = Physics(**preset("ideal").physics)
    known = Catalogue().rate("vgg19", "V100", 2)
    assert known is not None
    for kind in ("V100", "K80"):
        for levels in (0, 1):
            assert rate(ideal, "vgg19", kind, levels) == known[0]
            assert rate(ideal, "", kind, levels) == 1.0
    assert not ideal.layout_matters([JobSpec(profile="vgg19", gpus=2)], CLUSTER)


def test_by_default_types_differ_and_gangs_feel_the_network() -> None:
    assert preset(None) is MEASURED
    physics = Physics(**MEASURED.physics)
    assert rate(physics, "vgg19", "K80", 0) < rate(physics, "vgg19", "V100", 0)
    assert rate(physics, "vgg19/bs1", "V100", 1) < rate(physics, "vgg19/bs1", "V100", 0)
    assert rate(physics, "", "V100", 1) == rate(physics, "", "V100", 0) == 1.0
    assert rate(physics, "", "K80", 0) == pytest.approx(0.27)


EVERY = {"solve_every_seconds": 1920.0}


@pytest.mark.parametrize(
    ("name", "given", "decide", "facts"),
    [
        (None, {}, AtEvents(), ("events", None)),
        (None, {"decide": "events", "round_seconds": 60.0}, AtEvents(), ("events", None)),
        (None, {"round_seconds": 60.0}, AtRounds(round_seconds=60.0), ("rounds", 60.0)),
        (None, {"decide": "rounds", "round_seconds": 60.0}, AtRounds(round_seconds=60.0), ("rounds", 60.0)),
        (None, {"decide": "both", "round_seconds": 60.0}, AtRounds(round_seconds=60.0, at_events=True), ("both", 60.0)),
        ("ideal", {}, AtEvents(), ("events", None)),
        ("blox", {}, AtRounds(round_seconds=360.0), ("rounds", 360.0)),
        ("blox", {"decide": "both"}, AtRounds(round_seconds=360.0, at_events=True), ("both", 360.0)),
        ("gavel", {}, WholeSteps(round_seconds=360.0, **EVERY), ("rounds", 360.0)),
        ("gavel", {"decide": "rounds"}, WholeSteps(round_seconds=360.0, **EVERY), ("rounds", 360.0)),
        ("gavel", {"round_seconds": 60.0}, WholeSteps(round_seconds=60.0, **EVERY), ("rounds", 60.0)),
        ("gavel", {"decide": "events"}, AtEvents(**EVERY), ("events", None)),
        ("gavel", {"decide": "both"}, AtRounds(round_seconds=360.0, at_events=True, **EVERY), ("both", 360.0)),
    ],
)
def test_flags_and_presets_say_when_it_decides(
    name: str | None, given: dict[str, Any], decide: DecisionTiming, facts: tuple[str, float | None]
) -> None:
    ready = prepare_study(Study(trace="synthetic:jobs=3", policy="fifo", cluster="4xV100", preset=name, **given))
    assert ready.setup.settings.decide == decide
    assert (ready.params["decide"], ready.params["round_seconds"]) == facts
    assert ready.physics.whole_steps_seconds == (decide.round_seconds if isinstance(decide, WholeSteps) else 0.0)
