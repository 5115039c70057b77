"""Decorators for small records that are made once and never changed.

A frozen dataclass takes five times as long to make as an ordinary one, and a simulation makes millions. These are therefore
ordinary at run time, and frozen only for the type checker, which refuses code that changes one.
"""

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(eq_default=False, frozen_default=True)
def value(kind: type[T]) -> type[T]:
    """A record with NumPy columns. It is equal only to itself."""
    make: Any = dataclass(slots=True, eq=False)
    made: type[T] = make(kind)
    return made


@dataclass_transform(eq_default=False, frozen_default=True, kw_only_default=True)
def keyword_column_value(kind: type[T]) -> type[T]:
    """A record with NumPy columns whose fields are given by keyword. It is equal only to itself."""
    make: Any = dataclass(slots=True, eq=False, kw_only=True)
    made: type[T] = make(kind)
    return made


@dataclass_transform(frozen_default=True, kw_only_default=True)
def keyword_value(kind: type[T]) -> type[T]:
    """A record without columns whose many fields are given by keyword. Two are equal if all their fields are."""
    make: Any = dataclass(slots=True, unsafe_hash=True, kw_only=True)
    made: type[T] = make(kind)
    return made


@dataclass_transform(frozen_default=True)
def plain_value(kind: type[T]) -> type[T]:
    """A record without columns. Two are equal if all their fields are."""
    make: Any = dataclass(slots=True, unsafe_hash=True)
    made: type[T] = make(kind)
    return made
