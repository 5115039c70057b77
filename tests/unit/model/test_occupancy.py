"""Which job has which fraction of which GPU."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.occupancy import FRACTIONAL, FREE, Occupancy
from rota.model.units import MILLI, Ints
from tests.examples import examples


def gpus(*numbers: int) -> Ints:
    return np.array(numbers, dtype=np.int64)


def empty(count: int) -> Occupancy:
    return Occupancy(np.full(count, FREE, dtype=np.int64))


def test_whole_gpus_are_a_column() -> None:
    held = empty(3)
    held.take(7, gpus(0, 2))
    assert held.holder.tolist() == [7, FREE, 7] and not held.gpu_fractions
    assert held.free.tolist() == [False, True, False] and [held.room(gpu) for gpu in range(3)] == [0, MILLI, 0]
    assert held.holders(gpus(0, 1)) == {7} and held.held(7, gpus(0, 1, 2)).tolist() == [True, False, True]
    held.release(7, gpus(0, 2))
    assert held.free.all()


def test_parts_are_rows_beside_it() -> None:
    held = empty(2)
    held.take(1, gpus(0), 500)
    held.take(2, gpus(0), 250)
    assert held.holder.tolist() == [FRACTIONAL, FREE] and held.room(0) == 250 and held.shared == [0]
    assert held.holders(gpus(0, 1)) == {1, 2} and held.held(2, gpus(0)).tolist() == [True]
    held.resize(2, gpus(0), 500)
    assert held.room(0) == 0
    held.release(1, gpus(0))
    assert held.gpu_fractions == {0: ((2, 500),)} and held.shared == []
    held.resize(2, gpus(0), MILLI)
    assert held.holder.tolist() == [2, FREE] and not held.gpu_fractions


def test_a_copy_is_independent() -> None:
    held = empty(1)
    held.take(1, gpus(0), 500)
    twin = held.copy()
    twin.take(2, gpus(0), 500)
    assert held.room(0) == 500 and twin.room(0) == 0 and held != twin and held == held.copy()


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.sampled_from([100, 250, 500, MILLI]), st.booleans()), max_size=60)
)
@examples(300)
def test_it_agrees_with_a_plain_table(acts: list[tuple[int, int, int, bool]]) -> None:
    """Never more than a whole GPU, whatever comes and goes."""
    held, plain = empty(4), [dict[int, int]() for _ in range(4)]
    for job, gpu, size, comes in acts:
        if comes and job not in plain[gpu] and sum(plain[gpu].values()) + size <= MILLI:
            held.take(job, gpus(gpu), size)
            plain[gpu][job] = size
        elif not comes:
            held.release(job, gpus(gpu))
            plain[gpu].pop(job, None)
        for number, parts in enumerate(plain):
            assert held.room(number) == MILLI - sum(parts.values()) and held.holders(gpus(number)) == set(parts)
        assert set(held.gpu_fractions) == {number for number in range(4) if held.holder[number] == FRACTIONAL}


@pytest.mark.parametrize("size", [250, MILLI])
def test_releasing_what_was_never_taken_changes_nothing(size: int) -> None:
    held = empty(1)
    held.take(1, gpus(0), size)
    held.release(9, gpus(0))
    assert held.holders(gpus(0)) == {1} and held.room(0) == MILLI - size
