"""Trials: a tactic tries something, measures it, and keeps or reverts it."""

import math
from enum import StrEnum
from typing import NamedTuple

from rota.model.units import FOREVER
from rota.model.value import value


class TrialVerdict(StrEnum):
    """Result of a trial."""

    OPEN = "open"
    KEPT = "kept"
    REVERTED = "reverted"
    ABORTED = "aborted"
    """The trial ended before it was measured, because a job stopped or no report came."""


PATIENCE = 3.0
"""Time limit of a trial, as a multiple of the time that a pair takes to settle."""
MIN_PATIENCE_SECONDS = 60.0
"""Minimum time limit of a trial, in seconds. It allows for a restart of the scheduler."""

PairKey = tuple[str, str, str, int]
"""Two profiles in order, the accelerator type, and the number of GPUs that they share."""


@value
class Trial:
    """Two jobs share GPUs, to see whether they get further together than in turns."""

    number: int
    tactic: str
    """Name of the tactic that began the trial."""
    jobs: tuple[int, int]
    """Job that had the GPUs, and job that joined it."""
    pair: PairKey
    begun_s: float
    pinned_until_s: float
    """Time by which both jobs should have started and settled."""
    exclusive_rates: tuple[float, float]
    """Exclusive rate of each job, in steps per second."""
    expected_gain: float
    """Expected gain."""
    colocated_rates: tuple[float, float] = (math.nan, math.nan)
    """Measured rate of each job when colocated, in steps per second; NaN until measured."""
    verdict: TrialVerdict = TrialVerdict.OPEN
    ended_s: float = FOREVER

    @property
    def given_up_s(self) -> float:
        """Time at which the trial is aborted if it was not measured."""
        return self.begun_s + max(PATIENCE * (self.pinned_until_s - self.begun_s), MIN_PATIENCE_SECONDS)

    @property
    def gain(self) -> float:
        """Progress together beyond progress in turns, as a fraction of the progress of one job alone."""
        return sum(after / before for after, before in zip(self.colocated_rates, self.exclusive_rates, strict=True)) - 1.0


class PairStats(NamedTuple):
    """Statistics of all trials and later measurements of a pair of profiles on one accelerator type."""

    times: int
    """Number of measurements; 0 if the values were given beforehand."""
    first: float
    """Mean rate of the first job when colocated, as a fraction of its exclusive rate."""
    second: float
    squares: float = 0.0
    """Sum of squared deviations of the gain from its mean."""

    @property
    def gain(self) -> float:
        return self.first + self.second - 1.0

    @property
    def spread(self) -> float:
        """Standard deviation of the gain; 0 after fewer than two measurements."""
        return math.sqrt(self.squares / (self.times - 1)) if self.times > 1 else 0.0

    def with_trial(self, first: float, second: float) -> "PairStats":
        times = self.times + 1
        moved = PairStats(times, self.first + (first - self.first) / times, self.second + (second - self.second) / times)
        distance = first + second - 1.0 - self.gain
        return moved._replace(squares=self.squares + distance * (first + second - 1.0 - moved.gain))
