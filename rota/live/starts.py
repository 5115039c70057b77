"""Detection of the start of live jobs: a job has started when it makes its first step.

The time before is the cost of starting: loading a framework, reading a checkpoint. The scheduler learns it as the price of moving
the job. The spec decides whether a job reports steps (`progress`); a job that reports none counts as started when its process
starts. If a job should report steps and reports none for ten times the usual start-up time, it counts as started since its
process started, so that it can be suspended.
"""

import statistics
from collections import deque

from rota.agent.attempt_files import AttemptStatus
from rota.agent.constants import RUNNING

USUAL_SECONDS = 6.0
"""Usual time from a process to its first step until jobs have reported it, and its minimum afterwards, in seconds. Loading a
framework takes seconds."""
MAX_USUAL_SECONDS = 60.0
"""Maximum of the usual start-up time, in seconds."""
PATIENCE = 10.0
"""Multiple of the usual start-up time after which a silent job counts as started."""
REMEMBERED = 20
"""Number of starts that determine the usual time."""


class StartDetector:
    """Start-up times on this machine, and the start of each attempt."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)
        """Start-up times of the latest attempts that made a first step, in seconds."""

    @property
    def patience_seconds(self) -> float:
        usual = statistics.median(self._seconds) if self._seconds else USUAL_SECONDS
        return PATIENCE * min(max(usual, USUAL_SECONDS), MAX_USUAL_SECONDS)

    def began_s(self, status: AttemptStatus, now_s: float) -> float | None:
        """Return the time at which an attempt started; None if it has not started yet, or never had a process. Do not call this
        again for an attempt that has started, since its time is counted."""
        if status.started_s is None:
            return None
        if status.began_s is not None:
            if status.began_s > status.started_s:
                self._seconds.append(status.began_s - status.started_s)
            return status.began_s
        waited_for = status.state == RUNNING and now_s < status.started_s + self.patience_seconds
        return None if waited_for else status.started_s
