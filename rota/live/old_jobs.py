"""Removes jobs that ended long ago: their records, their events and their logs. Usage stays, and so do the journal's entries."""

import contextlib
import threading
from pathlib import Path

from rota.agent.disk import LOGS
from rota.live.history import JobHistory
from rota.live.journal import Journal
from rota.live.journal_store import JournalFull, JournalUnavailable
from rota.model.units import FOREVER

LOOK_SECONDS = 600.0
"""Interval at which old jobs are looked for, in seconds."""
RETRY_SECONDS = 60.0
"""Interval after which a removal that failed is tried again, in seconds."""
BATCH_JOBS = 500
"""Maximum number of jobs that are removed between two turns of the scheduler."""


class OldJobs:
    """Removal by the thread that writes the journal."""

    def __init__(
        self, home: Path, journal: Journal, history: JobHistory, lock: threading.Lock, keep_seconds: float = FOREVER
    ) -> None:
        """`lock`: what readers of the history hold. `keep_seconds`: how long an ended job is kept."""
        self._home, self._journal, self._history, self._lock = home, journal, history, lock
        self._keep_seconds = keep_seconds
        self._next_s = 0.0
        self._leaving: list[int] = []
        """Jobs that the history has forgotten, and the journal may still have."""

    def remove(self, now_s: float) -> int:
        """Remove some jobs that ended too long ago, if it is time to look. Return their number."""
        if self._keep_seconds == FOREVER or now_s < self._next_s:
            return 0
        if not self._leaving:
            self._leaving = self._history.ended_before(now_s - self._keep_seconds)[:BATCH_JOBS]
            with self._lock:  # before the journal, so that no reader looks for them there
                self._history.forget(self._leaving)
        jobs = self._leaving
        if len(jobs) < BATCH_JOBS:
            self._next_s = now_s + LOOK_SECONDS
        if not jobs:
            return 0
        try:
            self._journal.remove_jobs(jobs)
        except (JournalFull, JournalUnavailable):
            self._next_s = now_s + RETRY_SECONDS
            return 0
        self._leaving = []
        for job in jobs:
            self._remove_logs(job)
        return len(jobs)

    def _remove_logs(self, job: int) -> None:
        folder = self._home / LOGS
        with contextlib.suppress(OSError):  # a log that cannot be removed is not worth a stop
            for path in [*folder.glob(f"{job}.log*"), *folder.glob(f"{job}.node*.log*")]:
                path.unlink(missing_ok=True)
