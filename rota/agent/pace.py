"""Where the pace of a job is measured from: a step made a while ago, but since the job last started, was resumed or resized.

The time before the first step is not part of its pace: loading a framework says nothing of the steps to come.
"""

from typing import NamedTuple

SHORTEST_SECONDS, LONGEST_SECONDS = 5.0, 120.0
"""The pace is that of the last half of the time that the job has worked, within these bounds, to twice that."""


class Pace(NamedTuple):
    """Instants are Unix time; None: it has made no step yet."""

    first_s: float | None = None
    """When it made its first step,"""
    since_s: float | None = None
    """when it made the step that the pace is measured from, and which that was;"""
    since_steps: float = 0.0
    next_s: float = 0.0
    """and the step that is the next to take its place."""
    next_steps: float = 0.0

    def stepped(self, steps: float, at_s: float) -> "Pace":
        """It has made this step. One that goes back to an earlier step begins again."""
        if self.first_s is None or self.since_s is None or steps < self.since_steps:
            return Pace(at_s, at_s, steps, at_s, steps)
        wanted = min(max((at_s - self.first_s) / 2, SHORTEST_SECONDS), LONGEST_SECONDS)
        if at_s - self.next_s < wanted:
            return self
        return Pace(self.first_s, self.next_s, self.next_steps, at_s, steps)
