"""Statistical efficiency: a larger batch does more training in a step, and less with each example."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.efficiency import Efficiency, fitted_noise

CURVE = {64: 1000.0, 128: 550.0, 256: 330.0, 512: 230.0}
"""Steps to the same result: twice the batch never halves them."""

KNOWN = Efficiency(curves={"net": CURVE}, noise={"other": 900.0})

sizes = st.integers(1, 100_000)


@pytest.mark.parametrize("model", ["net", "other"])
@given(sizes, sizes)
def test_a_larger_batch_is_never_free_progress(model: str, one: int, other: int) -> None:
    small, large = sorted((one, other))
    first, second = (KNOWN.progress(model, size) for size in (small, large))
    assert first <= second * (1 + 1e-12), "a step with more examples does as much at least"
    assert second / large <= first / small * (1 + 1e-12), "and no example does more"


def test_a_curve_says_how_many_steps_a_step_replaces() -> None:
    assert KNOWN.progress("net", 512) / KNOWN.progress("net", 64) == pytest.approx(1000 / 230)
    between = KNOWN.progress("net", 180) / KNOWN.progress("net", 64)
    assert 1000 / 550 < between < 1000 / 330
    assert KNOWN.progress("net", 16) == 16, "below the smallest every example counts in full"
    assert KNOWN.progress("net", 4096) == KNOWN.progress("net", 512), "beyond the largest nothing is gained"
    assert KNOWN.sizes("net") == (64, 128, 256, 512) and KNOWN.sizes("other") == ()


def test_of_a_model_that_nothing_is_known_of_each_example_counts_in_full() -> None:
    assert not KNOWN.knows("stranger") and KNOWN.knows("net") and KNOWN.knows("other")
    assert KNOWN.progress("stranger", 4096) == 4096


@given(st.floats(20.0, 50_000.0), st.integers(8, 200))
def test_the_noise_scale_of_a_made_up_curve_is_found_again(noise: float, smallest: int) -> None:
    curve = {smallest * 2**n: (noise + smallest * 2**n) / (smallest * 2**n) for n in range(8)}
    found = fitted_noise(curve)
    model = Efficiency(noise={"net": found})
    for size, steps in curve.items():
        said = model.progress("net", smallest) / model.progress("net", size)
        assert said == pytest.approx(steps / curve[smallest], rel=0.02)


def test_one_batch_size_says_nothing_of_others() -> None:
    assert fitted_noise({64: 1000.0}) == math.inf
    assert Efficiency(noise={"net": math.inf}).progress("net", 512) == 512


def test_what_a_scheduler_believes_is_one_number_for_each_model() -> None:
    believed = KNOWN.modelled()
    assert not believed.curves and set(believed.noise) == {"net", "other"} and believed.noise["other"] == 900.0
    for size in CURVE:
        true, said = (known.progress("net", size) / known.progress("net", 64) for known in (KNOWN, believed))
        assert said == pytest.approx(true, rel=0.1)
