"""The learning rate that goes with another batch size.

With a batch k times as large the rate is k times as large too, up to a ceiling (linear scaling: Goyal et al. 2017, section 2.1).
It gets there in a straight line over the next epoch (their gradual warm-up, section 2.2).
"""

from typing import NamedTuple

HIGHEST_FACTOR = 8.0
"""Beyond this the linear rule was seen to fail, and more examples per step help no more."""


class RateRamp(NamedTuple):
    """By how much the learning rate is multiplied, step by step."""

    begin: float = 1.0
    target: float = 1.0
    since_step: int = 0
    steps: int = 0
    """How many the ramp takes."""

    def at(self, step: int) -> float:
        """The factor of the step that follows this many."""
        done = step - self.since_step
        if done >= self.steps:
            return self.target
        return self.begin + (self.target - self.begin) * done / self.steps

    def towards(self, batch_size: int, usual: int, step: int, epoch_steps: int, highest: float = HIGHEST_FACTOR) -> "RateRamp":
        """From what it is now to what goes with this batch size. The same ramp, if that is where it leads already."""
        target = min(batch_size / usual, max(highest, 1.0))
        return self if target == self.target else RateRamp(self.at(step), target, step, max(epoch_steps, 1))
