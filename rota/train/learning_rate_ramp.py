"""The learning rate for another batch size.

If the batch is k times as large, so is the rate, up to a ceiling (linear scaling: Goyal et al. 2017, section 2.1). The rate
changes linearly over the next epoch (gradual warm-up, section 2.2).
"""

from typing import NamedTuple

HIGHEST_FACTOR = 8.0
"""Highest factor. Beyond it linear scaling was seen to fail, and larger batches do not help."""


class RateRamp(NamedTuple):
    """Factors of the learning rate, step by step."""

    begin: float = 1.0
    target: float = 1.0
    since_step: int = 0
    steps: int = 0
    """Length of the ramp, in steps."""

    def at(self, step: int) -> float:
        """Return the factor of the step after this many steps."""
        done = step - self.since_step
        if done >= self.steps:
            return self.target
        return self.begin + (self.target - self.begin) * done / self.steps

    def towards(self, batch_size: int, usual: int, step: int, epoch_steps: int, highest: float = HIGHEST_FACTOR) -> "RateRamp":
        """Return a ramp from the current factor to that of a batch size; this ramp if it leads there already."""
        target = min(batch_size / usual, max(highest, 1.0))
        return self if target == self.target else RateRamp(self.at(step), target, step, max(epoch_steps, 1))
