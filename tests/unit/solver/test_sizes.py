"""Elastic jobs: shares over sizes become steady ones with the same GPU time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rota.model.options import OptionRow, Options
from rota.solver.sizes import efficient, measured_by, steadied
from tests.examples import examples


def options_of(rates: dict[int, float], pool: int = 0) -> Options:
    return Options.of([OptionRow(0, pool, gpus * 1000, rate, 0.0) for gpus, rate in rates.items()], 1)


def test_a_size_that_brings_nothing_is_left_out() -> None:
    options = options_of({4: 2.0, 1: 1.0, 2: 1.9, 8: 2.0})
    assert options.gpus[efficient(options)].tolist() == [4, 1, 2]


def test_time_slices_of_a_large_size_become_a_small_one_all_the_time() -> None:
    options = options_of({1: 1.0, 2: 1.9, 4: 3.4})
    share = steadied(options, np.zeros(3, dtype=np.int64), np.arange(3), np.array([0.0, 0.0, 0.25]))
    assert share.tolist() == [1.0, 0.0, 0.0]
    share = steadied(options, np.zeros(3, dtype=np.int64), np.arange(3), np.array([0.5, 0.0, 0.25]))
    assert np.allclose(share, [0.5, 0.5, 0.0])


def test_where_only_the_large_size_pays_nothing_changes() -> None:
    options = options_of({1: 0.1, 2: 0.3, 4: 3.4})
    given_share = np.array([0.0, 0.0, 0.25])
    assert (steadied(options, np.zeros(3, dtype=np.int64), np.arange(3), given_share) == given_share).all()


@examples(200)
@given(
    st.lists(st.integers(1, 32), min_size=2, max_size=6, unique=True),
    st.lists(st.floats(0.0, 1.0), min_size=12, max_size=12),
    st.floats(0.2, 1.0),
)
def test_gpu_time_stays_and_no_job_gets_slower(counts: list[int], raw: list[float], power: float) -> None:
    counts = sorted(counts)
    rows = [OptionRow(0, pool, gpus * 1000, (1 + pool) * gpus**power, 0.0) for pool in (0, 1) for gpus in counts]
    options = Options.of(rows, 1)
    share = np.array(raw[: len(rows)])
    share = share / max(share.sum(), 1.0)
    new = steadied(options, np.zeros(len(rows), dtype=np.int64), np.arange(len(rows)), share)
    assert (new >= -1e-12).all() and new.sum() <= 1 + 1e-9
    assert new @ options.rate >= share @ options.rate - 1e-9
    for pool in (0, 1):
        mine = options.pool == pool
        assert np.isclose(new[mine] @ options.gpus[mine], share[mine] @ options.gpus[mine])
        used = np.flatnonzero(new[mine] > 1e-12)
        assert len(used) <= 2 and (len(used) < 2 or used[1] == used[0] + 1)


def test_of_two_batch_sizes_the_faster_is_used() -> None:
    rows = [OptionRow(0, 0, 1000, 1.0, 0.0, batch_size=64), OptionRow(0, 0, 1000, 1.5, 0.0, batch_size=128)]
    options = Options.of([*rows, OptionRow(0, 0, 2000, 2.5, 0.0, batch_size=128)], 1)
    assert efficient(options).tolist() == [1, 2]
    share = steadied(options, np.zeros(3, dtype=np.int64), np.arange(3), np.array([0.5, 0.0, 0.25]))
    assert np.allclose(share, [0.0, 1.0, 0.0])
    share = steadied(options, np.zeros(2, dtype=np.int64), np.arange(2), np.array([0.5, 0.0]))
    assert np.allclose(share, [0.0, 0.5])


def test_what_is_usual_is_measured_by_the_size_that_fits_now() -> None:
    options = Options.of([OptionRow(0, 0, 4000, 3.0, 0.0), OptionRow(0, 0, 1000, 1.0, 0.0), OptionRow(0, 0, 2000, 1.8, 0.0)], 1)
    assert measured_by(options, np.zeros(3, dtype=np.int64), np.arange(3)).tolist() == [True, False, False]
    assert measured_by(options, np.zeros(2, dtype=np.int64), np.array([1, 2])).tolist() == [False, True]
