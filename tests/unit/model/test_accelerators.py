"""The data sheets: complete, in order, and the basis of relative speeds."""

import dataclasses
from itertools import pairwise

import pytest

from rota.beliefs.rates import SPEEDS
from rota.model.accelerators import ACCELERATORS, REFERENCE, WITHOUT_FIGURES
from rota.model.cluster import canonical


def test_every_figure_is_there_and_sensible() -> None:
    assert {"K80", "M60", "P100", "V100", "T4", "A10", "A100", "H100", "H200", "B200"} <= set(ACCELERATORS)
    assert {"L4", "L40S", "A6000", "RTX4090", "MI300X"} <= set(ACCELERATORS)
    for name, card in ACCELERATORS.items():
        assert name == card.name == canonical(name), "as clusters spell it"
        figures = dataclasses.asdict(card)
        assert all(value > 0 for key, value in figures.items() if key not in ("name", "source")), name
        assert card.source.startswith(("NVIDIA, ", "AMD, ")), "where the figures were published"
        assert card.fp32_tflops <= card.tf32_tflops <= card.half_tflops


def test_tensor_cores_came_with_volta_and_took_single_precision_from_ampere_on() -> None:
    for card in ACCELERATORS.values():
        assert (card.half_tflops > card.fp32_tflops) == (card.year >= 2017), card.name
        halved = card.name == "RTX4090"  # a GeForce's tensor cores add up in single precision at half their rate
        assert (card.tf32_tflops > card.fp32_tflops) == (card.year >= 2020 and not halved), card.name


def test_flagships_get_faster_and_dearer() -> None:
    line = [ACCELERATORS[name] for name in ("K80", "P100", "V100", "A100", "H100", "H200", "B200")]
    for older, newer in pairwise(line):
        assert older.year < newer.year
        assert older.half_tflops <= newer.half_tflops
        assert older.bandwidth_gb_s < newer.bandwidth_gb_s
        assert older.dollars_per_hour < newer.dollars_per_hour


def test_no_type_is_both_known_and_without_figures() -> None:
    assert not set(WITHOUT_FIGURES) & set(ACCELERATORS)
    assert [canonical(name) for name in WITHOUT_FIGURES] == sorted(set(WITHOUT_FIGURES), key=WITHOUT_FIGURES.index)


def test_relative_speeds_are_bandwidths_over_a_v100() -> None:
    assert REFERENCE == "V100" and SPEEDS["V100"] == 1.0
    assert set(SPEEDS) == set(ACCELERATORS)
    for name, card in ACCELERATORS.items():
        assert SPEEDS[name] == pytest.approx(card.bandwidth_gb_s / 900.0, abs=0.005)
