"""Claims of a paper, and our measurements of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

ENOUGH = 0.8
"""Fraction of the published gain from which a claim holds."""

Curve = Mapping[float, float]
"""A figure by load, or by another value that was varied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One published result, and our measurement."""

    name: str
    paper: float
    measured: float | None
    unit: str
    holds: bool | None
    """Whether the claim holds; None if it could not be measured or compared, which the note explains."""
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def claim(
    name: str,
    *,
    paper: float,
    measured: float | None,
    unit: str = "x",
    note: str = "",
    above: bool = False,
    below: bool = False,
) -> Claim:
    """Judge a claim. It holds if we measured at least 80% of the published gain, which is the part beyond 1x or 0%: 3x for 3.5x,
    32% for 40%. `above`: the paper gives only a direction, and the claim holds if we measured more than `paper`. `below`: less is
    better, and the claim holds up to a quarter more than published."""
    if measured is None:
        return Claim(name=name, paper=paper, measured=None, unit=unit, holds=None, note=note or "It was not measured.")
    nothing = 1.0 if unit == "x" else 0.0
    holds = measured > paper if above else measured - nothing >= ENOUGH * (paper - nothing)
    if below:
        holds = measured - nothing <= (paper - nothing) / ENOUGH
    return Claim(name=name, paper=paper, measured=measured, unit=unit, holds=holds, note=note)


def unjudged(name: str, *, paper: float, measured: float | None, unit: str = "x", note: str) -> Claim:
    """Return a claim that cannot be compared with our measurement. The note explains why."""
    return Claim(name=name, paper=paper, measured=measured, unit=unit, holds=None, note=note)


def largest_gain(baseline: Curve, ours: Curve) -> tuple[float, float] | None:
    """Return the largest ratio of the baseline to our figure, and its x; None if they have no x in common."""
    gains = [(baseline[x] / ours[x], x) for x in baseline if x in ours and ours[x] > 0]
    return max(gains, default=None)


def sustained(curve: Curve, limit: float) -> float | None:
    """Return the x at which a rising curve exceeds a limit, interpolated linearly; its last x if it never does, None if it starts
    above the limit."""
    points = sorted(curve.items())
    if not points or points[0][1] > limit:
        return None
    for (left, low), (right, high) in pairwise(points):
        if high > limit:
            return left + (right - left) * (limit - low) / (high - low)
    return points[-1][0]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def geomean(values: Sequence[float]) -> float | None:
    """Return the geometric mean; None if there are no values."""
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None
