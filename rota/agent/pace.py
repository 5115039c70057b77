"""Where the pace of a job is measured from: an earlier step, made since the job last started, was resumed or resized.

The time before the first step is not part of its pace, because loading a framework does not predict the steps to come.
"""

from typing import NamedTuple

MIN_SECONDS, MAX_SECONDS = 5.0, 120.0
"""Bounds of the window of the pace, in seconds. The window is the last half of the job's working time."""


class Pace(NamedTuple):
    """Instants are Unix time; None before the first step."""

    first_s: float | None = None
    """Time of its first step."""
    since_s: float | None = None
    """Time of the step that the pace is measured from. `since_steps` is that step."""
    since_steps: float = 0.0
    next_s: float = 0.0
    """Time of the step that replaces it next. `next_steps` is that step."""
    next_steps: float = 0.0

    def stepped(self, steps: float, at_s: float) -> "Pace":
        """Return the pace after this step. A job that returns to an earlier step starts from there."""
        if self.first_s is None or self.since_s is None or steps < self.since_steps:
            return Pace(at_s, at_s, steps, at_s, steps)
        wanted = min(max((at_s - self.first_s) / 2, MIN_SECONDS), MAX_SECONDS)
        if at_s - self.next_s < wanted:
            return self
        return Pace(self.first_s, self.next_s, self.next_steps, at_s, steps)
