"""Step times over GPUs and batch size: the model, and its fit to measurements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.step_time import StepMeasurement, StepTime, fit

MADE_UP = StepTime(0.02, 0.003, 0.04, 0.002, 0.15, 0.01, overlap=2.0, most_local=64.0)

seconds = st.floats(1e-4, 1.0)
models = st.builds(
    StepTime, seconds, seconds, seconds, seconds, seconds, seconds, overlap=st.floats(1.0, 10.0), most_local=st.floats(1.0, 200.0)
)


@given(models, st.integers(1, 64), st.booleans(), st.integers(1, 20_000), st.integers(1, 20_000))
def test_a_step_with_more_examples_takes_as_long_at_least(model: StepTime, gpus: int, spans: bool, one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert model.seconds(gpus, small, spans) <= model.seconds(gpus, large, spans) * (1 + 1e-9)


@given(models, st.integers(2, 64), st.integers(1, 20_000))
def test_gradients_cost_something(model: StepTime, gpus: int, batch: int) -> None:
    alone = StepTime(model.compute, model.per_example, 0.0, 0.0, 0.0, 0.0, model.overlap, model.most_local)
    assert model.seconds(gpus, batch, False) >= alone.seconds(gpus, batch, False) * (1 - 1e-12)
    assert model.seconds(1, batch, False) == model.seconds(1, batch, True) == alone.seconds(1, batch, True)


def test_by_hand() -> None:
    assert MADE_UP.seconds(1, 32, False) == pytest.approx(0.02 + 0.003 * 32)
    computing, exchanging = 0.02 + 0.003 * 32, 0.04 + 2 * 0.002
    assert MADE_UP.seconds(4, 128, False) == pytest.approx((computing**2 + exchanging**2) ** 0.5)
    assert MADE_UP.seconds(4, 2, False) == MADE_UP.seconds(4, 4, False), "no GPU has less than one example"


def test_what_exceeds_the_memory_of_a_gpu_is_gathered_in_several_passes() -> None:
    """Each pass computes; gradients are exchanged after the last."""
    one = 0.02 + 0.003 * 50
    assert MADE_UP.seconds(1, 150, False) == pytest.approx(3 * one)
    assert MADE_UP.seconds(2, 300, True) == pytest.approx(2 * one + (one**2 + 0.15**2) ** 0.5)
    assert MADE_UP.seconds(1, 64, False) == pytest.approx(0.02 + 0.003 * 64), "what just fits is one pass"


def test_the_fit_recovers_what_was_made_up() -> None:
    cells = [(gpus, gpus > 4, local) for gpus in (1, 2, 3, 4, 8, 12, 16) for local in (4, 8, 16, 32, 64)]
    seen = [StepMeasurement(gpus, spans, local, MADE_UP.seconds(gpus, gpus * local, spans)) for gpus, spans, local in cells]
    found = fit(seen)
    assert found.error < 0.01 and found.most_local == 64
    assert found.per_example == pytest.approx(MADE_UP.per_example, rel=0.1)
    for gpus, spans, local in [(4, False, 48), (8, True, 24), (1, False, 10), (32, True, 16), (16, True, 512 / 16)]:
        assert found.seconds(gpus, gpus * local, spans) == pytest.approx(MADE_UP.seconds(gpus, gpus * local, spans), rel=0.05)


def test_noise_in_what_was_measured_is_its_error() -> None:
    rng = np.random.default_rng(3)
    cells = [(gpus, gpus > 4, local) for gpus in (1, 2, 4, 8, 16) for local in (4, 8, 16, 32, 64)]
    noisy = [
        StepMeasurement(gpus, spans, local, MADE_UP.seconds(gpus, gpus * local, spans) * np.exp(0.1 * rng.standard_normal()))
        for gpus, spans, local in cells
    ]
    assert 0.03 < fit(noisy).error < 0.12


def test_one_batch_size_is_enough_to_fit_something() -> None:
    found = fit([StepMeasurement(1, False, 8.0, 0.1), StepMeasurement(2, False, 8.0, 0.15)])
    assert found.seconds(1, 8, False) == pytest.approx(0.1, rel=0.05)
    assert found.seconds(2, 16, False) == pytest.approx(0.15, rel=0.05)
