"""Length predictions: how long jobs still train, learned from finished ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.lengths import LEFT_OF_DONE, MIN_LEFT, USUAL_EPOCHS, epochs_left


def left(done: float, finished: list[float], usual: float = USUAL_EPOCHS) -> float:
    return float(epochs_left(np.array([done]), finished, usual)[0])


def test_an_empty_history_works() -> None:
    assert left(0.0, []) == USUAL_EPOCHS and left(10.0, []) == USUAL_EPOCHS - 10
    assert left(40.0, []) == pytest.approx(4.0), "a job that is longer than usual has a tenth of what it did left"


def test_what_is_left_is_the_mean_of_those_that_trained_longer() -> None:
    lengths = [10.0, 20.0, 60.0]
    assert left(0.0, lengths, usual=30.0) == pytest.approx((10 + 20 + 60 + 30) / 4)
    assert left(15.0, lengths, usual=30.0) == pytest.approx((20 + 60 + 30) / 3 - 15)
    assert left(20.0, lengths, usual=30.0) == pytest.approx((60 + 30) / 2 - 20), "one that took just so long has ended"
    assert left(50.0, lengths, usual=30.0) == pytest.approx(10.0)


def test_a_job_that_is_longer_than_all_others_has_something_left() -> None:
    assert left(70.0, [10.0, 60.0]) == pytest.approx(LEFT_OF_DONE * 70)
    assert left(3.0, [1.0, 2.0], usual=2.5) == MIN_LEFT


@given(st.lists(st.floats(0.1, 1e4), max_size=20), st.floats(0.1, 1e4), st.lists(st.floats(0.0, 2e4), min_size=1, max_size=9))
def test_jobs_are_foreseen_one_by_one_and_not_to_end_in_the_past(finished: list[float], usual: float, done: list[float]) -> None:
    found = epochs_left(np.array(done), finished, usual)
    assert (found >= 0).all() and np.isfinite(found).all()
    assert found.tolist() == [left(each, finished, usual) for each in done]
    longer = max([*finished, usual])
    assert all(each + more <= longer * (1 + 1e-9) for each, more in zip(done, found, strict=True) if each < longer)
