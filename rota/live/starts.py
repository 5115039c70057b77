"""When a live job counts as started: with its first step.

The time before is what starting costs: loading a framework, reading a checkpoint. The scheduler learns it as the price of moving
the job. Whether a job tells steps is said by its spec (`progress`); one that tells none counts as started when its process runs.
One that should tell steps and tells none for ten times as long as starting usually takes is not waited for any longer: it counts
as started since its process ran, so that it can be suspended.
"""

import statistics
from collections import deque

from rota.agent.attempt_files import AttemptStatus
from rota.agent.constants import RUNNING

USUAL_SECONDS = 6.0
"""From a process to its first step, until others have told, and at least: loading a framework takes seconds."""
LONGEST_USUAL_SECONDS = 60.0
"""What is usual is never taken to be longer."""
PATIENCE = 10.0
"""So many times what is usual, a first step is waited for."""
REMEMBERED = 20
"""Starts that say what is usual."""


class Starts:
    """How long starting takes on this machine, and which attempts have started."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)
        """Of the latest that made a first step."""

    @property
    def patience_seconds(self) -> float:
        usual = statistics.median(self._seconds) if self._seconds else USUAL_SECONDS
        return PATIENCE * min(max(usual, USUAL_SECONDS), LONGEST_USUAL_SECONDS)

    def began_s(self, status: AttemptStatus, now_s: float) -> float | None:
        """When it started; None: not yet, or it never had a process. Ask until it has, and no more: it is counted."""
        if status.started_s is None:
            return None
        if status.began_s is not None:
            if status.began_s > status.started_s:
                self._seconds.append(status.began_s - status.started_s)
            return status.began_s
        waited_for = status.state == RUNNING and now_s < status.started_s + self.patience_seconds
        return None if waited_for else status.started_s
