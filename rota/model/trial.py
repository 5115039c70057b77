"""A trial: something was tried, is measured for a while, and is then kept or undone."""

import math
from enum import StrEnum
from typing import NamedTuple

from rota.model.units import FOREVER
from rota.model.value import value


class TrialVerdict(StrEnum):
    """What became of it."""

    OPEN = "open"
    KEPT = "kept"
    UNDONE = "undone"
    BROKEN_OFF = "broken off"
    """It ended before it was measured: a job stopped, or no report came."""


PATIENCE = 3.0
"""A trial is given up after so many times as long as a pair takes to settle,"""
LEAST_PATIENCE_SECONDS = 60.0
"""and not before so long: it goes on while a scheduler is started again."""

PairKey = tuple[str, str, str, int]
"""Two profiles in order, the accelerator type, and the GPUs that they share."""


@value
class Trial:
    """Two jobs that share GPUs to see whether they get further together than in turns."""

    number: int
    tactic: str
    """What it is a trial of."""
    jobs: tuple[int, int]
    """The job that had the GPUs, and the one that joined it."""
    pair: PairKey
    begun_s: float
    pinned_until_s: float
    """When its jobs should have started and settled."""
    before: tuple[float, float]
    """Steps per second of each alone."""
    hoped: float
    """The gain that was hoped for."""
    after: tuple[float, float] = (math.nan, math.nan)
    """Steps per second of each in company, as measured; not a number: not yet."""
    verdict: TrialVerdict = TrialVerdict.OPEN
    ended_s: float = FOREVER

    @property
    def given_up_s(self) -> float:
        """It holds no job back any more if it was not measured by then."""
        return self.begun_s + max(PATIENCE * (self.pinned_until_s - self.begun_s), LEAST_PATIENCE_SECONDS)

    @property
    def gain(self) -> float:
        """How much more is done together than in turns, as a part of what one alone does."""
        return sum(after / before for after, before in zip(self.after, self.before, strict=True)) - 1.0


class PairStats(NamedTuple):
    """What all trials and later measurements say of a pair of profiles on one type."""

    times: int
    """How often; 0: it was known beforehand."""
    first: float
    """Rate of the first in company over its rate alone, the mean."""
    second: float
    squares: float = 0.0
    """Sum of squared distances of the gain from its mean."""

    @property
    def gain(self) -> float:
        return self.first + self.second - 1.0

    @property
    def spread(self) -> float:
        """Standard deviation of the gain; 0 where it was seen once."""
        return math.sqrt(self.squares / (self.times - 1)) if self.times > 1 else 0.0

    def seen_again(self, first: float, second: float) -> "PairStats":
        times = self.times + 1
        moved = PairStats(times, self.first + (first - self.first) / times, self.second + (second - self.second) / times)
        distance = first + second - 1.0 - self.gain
        return moved._replace(squares=self.squares + distance * (first + second - 1.0 - moved.gain))
