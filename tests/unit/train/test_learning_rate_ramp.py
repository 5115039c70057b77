"""The learning rate follows the batch size in a straight line, up to a ceiling."""

from hypothesis import given
from hypothesis import strategies as st

from rota.train.learning_rate_ramp import HIGHEST_FACTOR, RateRamp


def test_it_rises_over_an_epoch_and_stays() -> None:
    ramp = RateRamp().towards(128, 32, step=100, epoch_steps=10)
    assert [ramp.at(step) for step in (100, 105, 109, 110, 500)] == [1.0, 2.5, 3.7, 4.0, 4.0]


def test_it_falls_as_well() -> None:
    up = RateRamp().towards(128, 32, 0, 10)
    down = up.towards(32, 32, 5, 10)
    assert (down.at(5), down.at(10), down.at(15)) == (2.5, 1.75, 1.0)


def test_it_does_not_begin_anew_without_a_change() -> None:
    ramp = RateRamp().towards(64, 32, 0, 10)
    assert ramp.towards(64, 32, 7, 10) is ramp
    assert RateRamp().towards(32, 32, 7, 10) == RateRamp()


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 50)), max_size=8), st.integers(1, 100))
def test_it_never_jumps_and_never_passes_the_ceiling(changes: list[tuple[int, int]], usual: int) -> None:
    ramp, step = RateRamp(), 0
    for batch_size, later in changes:
        before = ramp.at(step)
        ramp = ramp.towards(batch_size, usual, step, 20)
        assert ramp.at(step) == before, "a change begins where the rate was"
        step += later
        assert 0 < ramp.at(step) <= max(HIGHEST_FACTOR, 1.0)
    assert ramp.at(step + 20) == ramp.target
