"""One option for each job within the GPUs of each pool: never too much, and close to the best."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.solver.knapsack import choose
from tests.examples import examples

OPTIONS = st.tuples(st.integers(0, 2), st.integers(1, 8), st.floats(-1.0, 10.0))
"""Pool, GPUs, value."""
JOBS = st.lists(st.lists(OPTIONS, max_size=4), min_size=1, max_size=6)


def columns(jobs: list[list[tuple[int, int, float]]], pools: int) -> tuple[np.ndarray, ...]:
    rows = [(job, pool % pools, gpus, value) for job, options in enumerate(jobs) for pool, gpus, value in options]
    job, pool, gpus = (np.array([row[at] for row in rows], dtype=np.int64) for at in range(3))
    return job, pool, gpus, np.array([row[3] for row in rows], dtype=np.float64)


def best(job: np.ndarray, pool: np.ndarray, gpus: np.ndarray, value: np.ndarray, capacity: np.ndarray, jobs: int) -> float:
    """By trying everything."""
    found = 0.0
    for picked in itertools.product(*([-1, *np.flatnonzero(job == each).tolist()] for each in range(jobs))):
        rows = np.array([row for row in picked if row >= 0], dtype=np.int64)
        if (np.bincount(pool[rows], gpus[rows], len(capacity)) <= capacity).all():
            found = max(found, float(value[rows].sum()))
    return found


@examples(150)
@given(JOBS, st.lists(st.integers(0, 12), min_size=1, max_size=3))
@pytest.mark.slow
def test_within_the_capacity_and_close_to_the_best(jobs: list[list[tuple[int, int, float]]], there: list[int]) -> None:
    capacity = np.array(there)
    job, pool, gpus, value = columns(jobs, len(capacity))
    fits = gpus <= capacity[pool]
    job, pool, gpus, value = job[fits], pool[fits], gpus[fits], value[fits]
    chosen = choose(job, pool, gpus, value, capacity, len(jobs))
    taken = chosen[chosen >= 0]
    assert chosen.shape == (len(jobs),) and (job[taken] == np.flatnonzero(chosen >= 0)).all(), "each has an option of its own"
    assert (np.bincount(pool[taken], gpus[taken], len(capacity)) <= capacity).all()
    assert (value[taken] > 0).all()
    most, found = best(job, pool, gpus, value, capacity, len(jobs)), float(value[taken].sum())
    assert found <= most * (1 + 1e-9)
    largest = float(value.max(initial=0.0))
    if len(capacity) == 1:
        assert found >= most - largest - 1e-9, "no answer is better by more than one option"
    assert found >= 0.5 * most - 1e-9


@pytest.mark.slow
def test_it_is_close_to_the_best_on_average() -> None:
    """The worst cases are small; what matters is what it does on a hundred instances."""
    rng = np.random.default_rng(7)
    parts = []
    for pools in (1, 2, 3):
        for _ in range(40):
            jobs = [
                [(int(rng.integers(pools)), int(gpus), float(gpus ** rng.uniform(0.3, 1.0))) for gpus in (1, 2, 4, 8)]
                for _ in range(5)
            ]
            job, pool, gpus, value = columns(jobs, pools)
            capacity = rng.integers(8, 14, pools)
            chosen = choose(job, pool, gpus, value, capacity, len(jobs))
            parts.append(float(value[chosen[chosen >= 0]].sum()) / best(job, pool, gpus, value, capacity, len(jobs)))
    assert np.mean(parts) > 0.97 and min(parts) > 0.8


def test_nothing_to_choose() -> None:
    none = np.array([], dtype=np.int64)
    assert choose(none, none, none, np.array([]), np.array([4]), 3).tolist() == [-1, -1, -1]
    one = np.array([0])
    assert choose(one, one, np.array([5]), np.array([1.0]), np.array([4]), 1).tolist() == [-1]
    assert choose(one, one, np.array([1]), np.array([0.0]), np.array([4]), 1).tolist() == [-1], "worth nothing"


def test_the_same_input_gives_the_same_choice() -> None:
    job, pool = np.repeat(np.arange(20), 3), np.tile([0, 1, 1], 20)
    gpus, value = np.tile([1, 2, 4], 20), np.tile([1.0, 1.5, 2.0], 20)
    first, second = (choose(job, pool, gpus, value, np.array([8, 24]), 20) for _ in range(2))
    assert (first == second).all() and (first >= 0).sum() >= 12


@pytest.mark.parametrize("capacity", [3, 7, 16])
def test_what_is_left_goes_to_those_that_gain_most(capacity: int) -> None:
    """Equal jobs with falling gains: sizes differ by one step at most."""
    gpus, gain = np.array([1, 2, 4]), np.array([1.0, 1.6, 2.2])
    job = np.repeat(np.arange(4), 3)
    chosen = choose(job, np.zeros(12, dtype=np.int64), np.tile(gpus, 4), np.tile(gain, 4), np.array([capacity]), 4)
    sizes = sorted(int(np.tile(gpus, 4)[each]) for each in chosen if each >= 0)
    assert sizes == {3: [1, 1, 1], 7: [1, 2, 2, 2], 16: [4, 4, 4, 4]}[capacity]
