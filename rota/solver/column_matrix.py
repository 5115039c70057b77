"""Sparse matrices by column, in the layout that Clarabel and HiGHS read. SciPy's classes do the same; to load and to make them
takes longer than most programs take to solve."""

from dataclasses import dataclass

import numpy as np

from rota.model.units import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMatrix:
    """A sparse matrix: the entries of each column, in order of their rows. Clarabel finds the fields by these names."""

    data: Floats
    """Values of the entries."""
    indices: Ints
    """Row of each entry."""
    indptr: Ints
    """Offsets into the entries: column c has those from indptr[c] to indptr[c + 1]."""
    shape: tuple[int, int]
    """Number of rows and of columns."""
    has_canonical_format: bool = True
    """Whether the entries are in order, with one for each position."""

    @classmethod
    def of(cls, row: Ints, column: Ints, value: Floats, shape: tuple[int, int]) -> "ColumnMatrix":
        """Build a matrix from triplets in any order. Values at the same position are added."""
        position = column * shape[0] + row
        order = position.argsort(kind="stable")
        position, value = position[order], value[order]
        first = np.flatnonzero(np.diff(position, prepend=-1))
        if len(first) < len(position):
            position, value = position[first], np.add.reduceat(value, first)
        indptr = position.searchsorted(np.arange(shape[1] + 1) * shape[0])
        return cls(value, position % shape[0] if shape[0] else position, indptr, shape)

    @property
    def column(self) -> Ints:
        """Column of each entry."""
        return np.repeat(np.arange(self.shape[1]), np.diff(self.indptr))

    def __matmul__(self, x: Floats) -> Floats:
        """Return the product with a vector."""
        weights = self.data * x[self.column]
        return np.bincount(self.indices, weights=weights, minlength=self.shape[0]).astype(np.float64, copy=False)
