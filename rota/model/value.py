"""Values: small records that are made once and never changed.

A frozen dataclass takes five times as long to make as an open one, and a simulation makes millions. So these are open when the
program runs, and frozen to the type checker, which refuses any code that would change one.
"""

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(eq_default=False, frozen_default=True)
def value(kind: type[T]) -> type[T]:
    """A value with columns in it: two are the same only if they are one."""
    make: Any = dataclass(slots=True, eq=False)
    made: type[T] = make(kind)
    return made


@dataclass_transform(frozen_default=True, kw_only_default=True)
def keyword_value(kind: type[T]) -> type[T]:
    """A plain value with many fields, which are given by name."""
    make: Any = dataclass(slots=True, unsafe_hash=True, kw_only=True)
    made: type[T] = make(kind)
    return made


@dataclass_transform(frozen_default=True)
def plain_value(kind: type[T]) -> type[T]:
    """A value of numbers and words: two are the same if all their fields are."""
    make: Any = dataclass(slots=True, unsafe_hash=True)
    made: type[T] = make(kind)
    return made
