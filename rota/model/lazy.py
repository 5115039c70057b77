"""A property that is computed once. In Python 3.11 `functools.cached_property` takes a lock, which costs more than most
columns."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

import numpy as np

T = TypeVar("T")


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
        value = self._compute(instance)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)  # columns are read-only: a policy copies what it wants to change
        instance.__dict__[self._name] = value
        return value
