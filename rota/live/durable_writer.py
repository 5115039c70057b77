"""Writes to the journal that wait for room on the disk, or for the journal's server, instead of failing."""

import time
from collections.abc import Callable
from pathlib import Path

from rota.errors import RotaError
from rota.live.journal_store import JournalFull, JournalUnavailable
from rota.live.ready_row import journal_problem
from rota.live.reserve import DiskReserve

PAUSE_SECONDS = 1.0
"""Pause before a write is tried again, in seconds."""


class DurableWriter:
    """Writes to the journal of one scheduler, and what keeps it from writing."""

    def __init__(self, home: Path, tell: Callable[[str], None]) -> None:
        """`tell` takes lines for the operator."""
        self._home, self._tell = home, tell
        self._reserve = DiskReserve(home)
        self._writing_s: float | None = None
        """Monotonic time at which the open write began; None if none is open."""
        self._away = ""
        """Why the journal's server cannot be reached; empty if it can."""
        self.stopping = False
        """Whether the scheduler stops, so that a write that fails is not repeated."""

    def write(self, write: Callable[[], None]) -> None:
        """Write. On a full disk, free the reserve first, then wait until there is room. If the journal's server cannot be
        reached, wait until it can."""
        self._writing_s = time.monotonic()
        try:
            self._until_written(write)
        finally:  # also if what was to be written, or read, does not exist
            self._writing_s = None

    def _until_written(self, write: Callable[[], None]) -> None:
        while True:
            try:
                write()
                if self._away:
                    self._away = ""
                    self._tell("the journal can be written again")
                return
            except JournalUnavailable as problem:
                if self.stopping:
                    raise
                if not self._away:
                    self._tell(
                        f"{problem} No job is accepted or started until it can be. Running jobs continue under their leases."
                    )
                self._away = problem.message
                time.sleep(PAUSE_SECONDS)
            except JournalFull:
                known = self._reserve.full
                if not self._reserve.release() and self.stopping:
                    raise
                if not known:
                    self._tell(self.problem)
                if known:
                    time.sleep(PAUSE_SECONDS)

    @property
    def full(self) -> bool:
        """Whether the disk is full."""
        return self._reserve.full

    @property
    def problem(self) -> str:
        """Why the journal cannot be written, as a sentence for the operator; empty if it can."""
        return self._away or (self._full_disk() if self.full else "")

    def look(self) -> None:
        """Notice that the disk has become full, or has room again, and say so."""
        if self._reserve.look():
            self._tell(self.problem or f"the disk of {self._home} has room again")

    def check_room(self) -> None:
        """Raise RotaError if no job can be accepted now."""
        if self.full or self._reserve.short():
            raise RotaError(f"Not taken: {self._full_disk()}.", hint="free some space on it, then the same command again")
        if self._away:
            raise RotaError(f"Not taken: {self._away}", hint="the same command again, when it answers")

    def journal_problem(self) -> str:
        """Return what is wrong with the journal, for strangers; empty if nothing is."""
        since_s = self._writing_s
        writing = 0.0 if since_s is None else time.monotonic() - since_s
        return journal_problem(away=bool(self._away), full=self.full, writing_seconds=writing)

    def _full_disk(self) -> str:
        return f"the disk of {self._home} is full: no job is taken or started until there is room"
