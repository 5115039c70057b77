"""Means over seeds, with 95% intervals."""

import math
from collections.abc import Sequence
from typing import NamedTuple

T95 = (math.nan, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t for 95%, by degrees of freedom. Above the last, 1.96 is close enough."""


class Interval(NamedTuple):
    """A mean with its 95% interval, if the values are normally distributed. One value has no interval."""

    mean: float
    low: float
    high: float
    values: int
    """Number of values."""

    @classmethod
    def of(cls, values: Sequence[float]) -> "Interval | None":
        """Return the interval of some values; None if there are none."""
        if not values:
            return None
        count = len(values)
        mean = math.fsum(values) / count
        if count == 1:
            return cls(mean, math.nan, math.nan, 1)
        spread = math.sqrt(math.fsum((each - mean) ** 2 for each in values) / (count - 1) / count)
        half = spread * (T95[count - 1] if count - 1 < len(T95) else 1.96)
        return cls(mean, mean - half, mean + half, count)

    def format(self, unit: str = "") -> str:
        """Format it like `44.1% (41.0 to 47.2)`."""
        if self.values == 1:
            return f"{_short(self.mean)}{unit}"
        return f"{_short(self.mean)}{unit} ({_short(self.low)} to {_short(self.high)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{round(value, 2) + 0.0:.3g}"
