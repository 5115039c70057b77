"""Parking that is likely soon: which running jobs get host memory ready while they still run.

The first park of a job has to make its host memory, unless that is there. A job is likely to be parked if other jobs wait. Each
attempt is asked once, a while after its first step, when it has all its GPU memory.
"""

from collections.abc import Mapping

from rota.agent.attempt_files import AttemptStatus
from rota.core.state.state import State
from rota.model.commands import Prepare
from rota.model.job import Phase

SETTLED_SECONDS = 20.0
"""Time after its first step until the footprint of a job is known, in seconds."""


class ParkingAhead:
    """Which attempts were asked."""

    def __init__(self) -> None:
        self._asked: dict[int, int] = {}
        """Job -> attempt."""

    def due(self, state: State, running: Mapping[int, AttemptStatus], now_s: float) -> list[Prepare]:
        """Return the requests that are due now."""
        jobs = state.jobs
        if len(jobs.attempts) == len(jobs.row) and not any(attempt.parked for attempt in jobs.attempts.values()):
            return []  # no job waits
        self._asked = {job: attempt for job, attempt in self._asked.items() if job in jobs.attempts}
        found = []
        for job, attempt in jobs.attempts.items():
            row, status = jobs.row[job], running.get(job)
            if self._asked.get(job) == attempt.number or status is None or status.attempt != attempt.number:
                continue
            if jobs.table.phase.item(row) != Phase.RUNNING or not jobs.table.can_park.item(row):
                continue
            if status.began_s is not None and now_s >= status.began_s + SETTLED_SECONDS:
                self._asked[job] = attempt.number
                found.append(Prepare(job, attempt.number, attempt.live_nodes))
        return found
