"""Vectors that are linear in the shares, and what can be required of them: limits, the smallest entry, the largest."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.errors import OptionError
from rota.model.units import Floats, Ints


class Linear:
    """A vector whose entries are linear in the shares: an offset, and triplets (row, column, value). It consists of plain arrays,
    since for most programs a matrix class would cost more than the solver."""

    def __init__(self, row: Ints, column: Ints, value: Floats, offset: Floats) -> None:
        self.row, self.column, self.value, self.offset = row, column, value, offset

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Let this class do NumPy's arithmetic: `weights * vector`, `weights @ vector` and others."""
        turned = _TURNED.get(function.__name__) if method == "__call__" and len(inputs) == 2 and not options else None
        if turned is None or isinstance(inputs[0], Linear):
            raise not_linear(f"numpy.{function.__name__}")
        return getattr(self, turned)(inputs[0])

    def __len__(self) -> int:
        return len(self.offset)

    def __mul__(self, factor: Any) -> "Linear":
        if isinstance(factor, Linear):
            raise not_linear("a product of two variables")
        by = np.broadcast_to(np.asarray(factor, dtype=float), self.offset.shape)
        return Linear(self.row, self.column, self.value * by[self.row], self.offset * by)

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> "Linear":
        if isinstance(factor, Linear):
            raise not_linear("a variable divided by another")
        return self * (1.0 / np.asarray(factor, dtype=float))

    def __rtruediv__(self, number: Any) -> "Linear":
        raise not_linear("a number divided by a variable")

    def __pow__(self, power: Any) -> "Linear":
        raise not_linear("a power of a variable")

    def __abs__(self) -> "Linear":
        raise not_linear("the absolute value of a variable")

    def __bool__(self) -> bool:
        raise not_linear("a question about the value of a variable")

    def __matmul__(self, other: Any) -> "Linear":
        if isinstance(other, Linear):
            raise not_linear("a product of two variables")
        return self.__rmatmul__(other)

    def __neg__(self) -> "Linear":
        return self * -1.0

    def __add__(self, other: "Linear | float | Floats") -> "Linear":
        if not isinstance(other, Linear):
            return Linear(self.row, self.column, self.value, self.offset + np.asarray(other, dtype=float))
        one, two = _as_long(self, other), _as_long(other, self)
        return Linear(
            np.concatenate((one.row, two.row)),
            np.concatenate((one.column, two.column)),
            np.concatenate((one.value, two.value)),
            one.offset + two.offset,
        )

    __radd__ = __add__

    def __sub__(self, other: "Linear | float | Floats") -> "Linear":
        return self + (other if isinstance(other, Linear) else np.asarray(other, dtype=float)) * -1.0

    def __rsub__(self, other: "float | Floats") -> "Linear":
        return self * -1.0 + other

    def __getitem__(self, rows: Ints) -> "Linear":
        """Return some of the entries, by number or by a mask."""
        rows = np.asarray(rows)
        if rows.dtype == bool:
            rows = rows.nonzero()[0]
        number = np.full(len(self), -1, dtype=np.int64)
        number[rows] = np.arange(len(rows))
        kept = number[self.row] >= 0
        return Linear(number[self.row[kept]], self.column[kept], self.value[kept], self.offset[rows])

    def __rmatmul__(self, weights: Any) -> "Linear":
        """Return the weighted sum of the entries."""
        by: Floats = np.asarray(weights, dtype=float)
        return Linear(np.zeros_like(self.row), self.column, self.value * by[self.row], np.array([by @ self.offset]))

    def sum(self) -> "Linear":
        return np.ones(len(self)) @ self

    def __le__(self, other: Any) -> "Limit":
        return Limit(self - other)

    def __ge__(self, other: Any) -> "Limit":
        return Limit(other - self)

    def at(self, x: Floats) -> Floats:
        """Return the value of the vector for given shares."""
        value: Floats = np.bincount(self.row, weights=self.value * x[self.column], minlength=len(self)) + self.offset
        return value


_TURNED = {
    "multiply": "__rmul__",
    "add": "__radd__",
    "subtract": "__rsub__",
    "matmul": "__rmatmul__",
    "divide": "__rtruediv__",
    "less_equal": "__ge__",
    "greater_equal": "__le__",
}
"""The method that does the same as each NumPy function with the array on the left."""


def not_linear(what: str) -> OptionError:
    """Return the error for an expression that a linear program cannot contain."""
    return OptionError(
        "is not linear in the shares. A program has only linear objectives and limits.",
        field="program",
        value=what,
        hint="multiply variables by numbers only; least(...) and greatest(...) for fairness",
    )


def _as_long(vector: Linear, other: Linear) -> Linear:
    """Extend a vector of one entry to the length of another."""
    count = len(other)
    if len(vector) == count or count == 1:
        return vector
    if len(vector) != 1:
        raise OptionError(
            "cannot combine vectors of different lengths.",
            field="program",
            value=f"{len(vector)} and {count}",
            hint=".sum() makes one number",
        )
    row = np.repeat(np.arange(count), len(vector.row))
    return Linear(row, np.tile(vector.column, count), np.tile(vector.value, count), np.repeat(vector.offset, count))


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """A constraint: every entry of the vector is at most 0."""

    over: Linear


@dataclass(frozen=True, slots=True, eq=False)
class Extreme:
    """The smallest entry of a vector, or its largest, for max-min objectives."""

    of: Linear
    largest: bool = False


def least(vector: Linear) -> Extreme:
    """The smallest entry, to be maximised."""
    return Extreme(vector)


def greatest(vector: Linear) -> Extreme:
    """The largest entry, to be minimised."""
    return Extreme(vector, largest=True)


def stacked(a: Linear, b: Linear) -> Linear:
    """Append the entries of one vector to those of another."""
    return Linear(
        np.concatenate((a.row, b.row + len(a))),
        np.concatenate((a.column, b.column)),
        np.concatenate((a.value, b.value)),
        np.concatenate((a.offset, b.offset)),
    )
