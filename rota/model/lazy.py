"""A property that is computed once. In Python 3.11 `functools.cached_property` takes a lock, which costs more than most
columns."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

import numpy as np

T = TypeVar("T")
Column = TypeVar("Column", bound="np.ndarray[Any, Any]")


class lazy(Generic[T]):
    """Computes its value at the first read and stores it in the instance's dict, where later reads find it first."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> "lazy[T]": ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> "T | lazy[T]":
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


class lazy_column(lazy[Column]):
    """A column that is computed once and then read-only: a policy copies what it wants to change."""

    @overload
    def __get__(self, instance: None, owner: type) -> "lazy[Column]": ...
    @overload
    def __get__(self, instance: object, owner: type) -> Column: ...
    def __get__(self, instance: object | None, owner: type) -> "Column | lazy[Column]":
        if instance is None:
            return self
        column = instance.__dict__[self._name] = self._compute(instance)
        column.setflags(write=False)
        return column
