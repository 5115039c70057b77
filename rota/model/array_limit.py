"""Limits of arrays: how many tasks of an array run at once."""

from rota.model.value import plain_value


@plain_value
class ArrayLimit:
    """An array, and how many of its tasks may run at once."""

    array: int
    """Number of the array."""
    at_once: int
