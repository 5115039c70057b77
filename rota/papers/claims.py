"""What a paper says, beside what was measured here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

ENOUGH = 0.8
"""A claim holds from this part of the published gain on."""

Curve = Mapping[float, float]
"""A figure by load, or by whatever was varied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One published result."""

    name: str
    paper: float
    measured: float | None
    unit: str
    holds: bool | None
    """None: it could not be measured, or not compared; the note says why."""
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
    """How much better something is: it holds if at least 80% of the published gain was measured. 1x is no gain, so of 3.5x that
    is 3x; 0% is none, so of 40% it is 32%. With `above` the paper gives a direction and no number: it holds if more than `paper`
    was measured. With `below` less is better: it holds up to a quarter more than published."""
    if measured is None:
        return Claim(name=name, paper=paper, measured=None, unit=unit, holds=None, note=note or "It was not measured.")
    nothing = 1.0 if unit == "x" else 0.0
    holds = measured > paper if above else measured - nothing >= ENOUGH * (paper - nothing)
    if below:
        holds = measured - nothing <= (paper - nothing) / ENOUGH
    return Claim(name=name, paper=paper, measured=measured, unit=unit, holds=holds, note=note)


def unjudged(name: str, *, paper: float, measured: float | None, unit: str = "x", note: str) -> Claim:
    """Something that was published and cannot be compared, whatever was measured; the note says why."""
    return Claim(name=name, paper=paper, measured=measured, unit=unit, holds=None, note=note)


def largest_gain(baseline: Curve, ours: Curve) -> tuple[float, float] | None:
    """How many times smaller our figure is where that is most, and where; None where they have no point in common."""
    gains = [(baseline[x] / ours[x], x) for x in baseline if x in ours and ours[x] > 0]
    return max(gains, default=None)


def sustained(curve: Curve, limit: float) -> float | None:
    """How far a rising curve goes before it passes a limit, on a straight line between two points; its last point, if it never
    does. None if it starts above it."""
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
    """None of nothing."""
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None
