"""Grow: GPUs that stand idle are lent to running jobs that accept more of them (Gandiva, OSDI'18, section 3).

A job that has grown goes back to what it asked for as soon as another job needs the GPUs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Growable(NamedTuple):
    """A job that accepts more GPUs than it is granted, and one of the sizes that it could have."""

    position: int
    option: int
    """By which it would run."""
    more: int
    """GPUs that it would take besides those it is granted."""
    gain: float
    """How many times as fast it would be."""
    ready: bool
    """It has this size already, or the GPUs have been idle for long enough."""


@dataclass(frozen=True)
class Grow:
    """Idle GPUs for those who opted in: the size that gains most for each GPU first."""

    idle_seconds: float = 300.0
    """A job has to run for so long as it does before it grows."""
    least_gain: float = 1.05
    """It must be so many times as fast."""

    def choose(self, sizes: Sequence[Growable], left: int) -> dict[int, int]:
        """Position -> option of those who grow into so many idle GPUs of one pool."""
        chosen: dict[int, int] = {}
        for size in sorted(sizes, key=lambda each: -(each.gain - 1.0) / each.more):
            if size.ready and size.gain >= self.least_gain and size.more <= left and size.position not in chosen:
                chosen[size.position] = size.option
                left -= size.more
        return chosen
