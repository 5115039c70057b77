"""Columns of a table, each declared once: the type of its values, their default, and how it is kept."""

from typing import Any, NamedTuple

import numpy.typing as npt


class ColumnSpec(NamedTuple):
    dtype: npt.DTypeLike
    default: Any
    """Value of a new row."""
    rare: bool
    """Whether most runs never write to the column. It has one read-only value until a run does."""
    per_share_column: bool
    """Whether a row has a value for each account instead of one."""
    old_name: str
    """Name of the column in snapshots of earlier versions; empty if it had no other."""


def column(
    dtype: npt.DTypeLike, default: Any = 0, *, rare: bool = False, per_share_column: bool = False, old_name: str = ""
) -> Any:
    """Declare a column in the body of a class, which then has it as an array in each instance."""
    return ColumnSpec(dtype, default, rare, per_share_column, old_name)


def columns_of(table: type) -> dict[str, ColumnSpec]:
    """Return the columns that a class and its bases declare, by name."""
    found: dict[str, ColumnSpec] = {}
    for kind in reversed(table.__mro__):
        found |= {name: value for name, value in vars(kind).items() if isinstance(value, ColumnSpec)}
    return found
