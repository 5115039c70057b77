"""Believed rates: steps per second of a profile on an accelerator type, from a table or from relative speeds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

SPEEDS: Mapping[str, float] = {
    "K80": 0.27,
    "M60": 0.18,
    "P100": 0.81,
    "T4": 0.36,
    "V100": 1.0,
    "A10": 0.67,
    "A100": 1.73,
    "L40S": 0.96,
    "H100": 3.72,
    "H200": 5.33,
    "B200": 8.89,
}
"""Memory bandwidth of each type over that of a V100 (900 GB/s), from the makers' data sheets. A rough rule for jobs nobody
has profiled: training is often bound by bandwidth. A type not listed counts as a V100."""

UNPROFILED_SPREAD = 0.5
"""How wrong the rough rule may be, as a relative spread."""


@dataclass(frozen=True)
class Rates:
    """A table of measured rates, and relative speeds for what is not in it."""

    table: Mapping[tuple[str, str, int], float] = field(default_factory=dict)
    """(profile, accelerator type, GPUs) -> steps per second of the whole gang."""
    speeds: Mapping[str, float] = field(default_factory=lambda: SPEEDS)
    """Accelerator type -> speed of a job nobody profiled, in steps per second."""

    @cached_property
    def _counts(self) -> dict[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for profile, accelerator, gpus in self.table:
            found.setdefault((profile, accelerator), []).append(gpus)
        return {key: sorted(counts) for key, counts in found.items()}

    @cached_property
    def _profiles(self) -> frozenset[str]:
        return frozenset(profile for profile, _, _ in self.table)

    def rate(self, profile: str, accelerator: str, gpus: int) -> tuple[float, float]:
        """(steps per second, relative spread); 0 where the profile is known not to run."""
        if profile not in self._profiles:
            return self.speeds.get(accelerator, 1.0), UNPROFILED_SPREAD
        counts = self._counts.get((profile, accelerator))
        if not counts:
            return 0.0, 0.0
        near = max((n for n in counts if n <= gpus), default=counts[0])
        # A count nobody measured scales linearly from the nearest smaller one.
        return self.table[profile, accelerator, near] * gpus / near, 0.0 if near == gpus else UNPROFILED_SPREAD


SAME_SPEED = Rates(speeds={})
"""Every GPU alike, one step a second: a trace's duration is its run time."""
