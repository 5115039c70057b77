"""Presets: what `ideal` and the default say about speed."""

import pytest

from rota.compose.presets import MEASURED, preset
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
