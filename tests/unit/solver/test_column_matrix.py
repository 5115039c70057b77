"""Matrices by column: the layout is SciPy's, to the last entry."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from rota.solver.column_matrix import ColumnMatrix

ENTRIES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(-3, 3)), max_size=30)


@given(ENTRIES)
def test_triplets_in_any_order_give_the_layout_of_scipy(entries: list[tuple[int, int, int]]) -> None:
    row, column, value = (np.array([entry[part] for entry in entries], dtype=np.int64) for part in range(3))
    found = ColumnMatrix.of(row, column, value.astype(float), shape=(5, 6))
    wanted = sp.csc_matrix((value.astype(float), (row, column)), shape=(5, 6))
    assert found.data.tolist() == wanted.data.tolist()
    assert found.indices.tolist() == wanted.indices.tolist()
    assert found.indptr.tolist() == wanted.indptr.tolist()
    assert found.column.tolist() == wanted.tocoo().col.tolist()
    x = np.arange(6.0)
    assert (found @ x).tolist() == (wanted @ x).tolist()


def test_a_matrix_without_rows_has_no_entries() -> None:
    none = np.empty(0, dtype=np.int64)
    assert ColumnMatrix.of(none, none, np.empty(0), shape=(0, 3)).indptr.tolist() == [0, 0, 0, 0]
