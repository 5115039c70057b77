"""Upkeep of a journal: regular snapshots, so that a restart has little to read, and packing, so that the journal takes little
room.

All of it can wait: if it fails for lack of room, or because the journal's server does not answer, the next turn tries again.
"""

import contextlib
import ctypes
import time
from collections.abc import Callable

from rota.live.journal import Journal
from rota.live.journal_store import JournalFull, JournalUnavailable
from rota.model.codec import Plain

SNAPSHOT_EVERY = 1000
"""Number of entries between snapshots. Ten events count as an entry, because a restart folds them one by one."""
COMPACT_EVERY = 500
"""Number of entries after which older ones are packed."""
START_SECONDS = 2.0
"""Time limit for packing at a start, in seconds. The rest follows while the scheduler runs."""


class JournalUpkeep:
    """Upkeep by the thread that writes the journal."""

    def __init__(self, journal: Journal, snapshot: Callable[[], Plain]) -> None:
        """Begin. `snapshot` returns the state after the last entry."""
        self._journal, self._snapshot = journal, snapshot
        self._since_snapshot = journal.last - journal.snapshot_number()
        self._since_compact = COMPACT_EVERY

    def at_start(self) -> None:
        """Save a snapshot and pack entries, so that the next start has less to read and the journal takes no more room than it
        needs."""
        until_s = time.monotonic() + START_SECONDS
        with contextlib.suppress(JournalFull, JournalUnavailable):
            if self._since_snapshot >= SNAPSHOT_EVERY // 10:
                self._save()
            while time.monotonic() < until_s and self._journal.compact(starting=True):
                pass
            self._journal.tidy()

    def after_turn(self, events: int) -> None:
        """Note that an entry with this many events was written. At most one pack is made."""
        self._since_snapshot += 1 + events // 10
        self._since_compact += 1
        with contextlib.suppress(JournalFull, JournalUnavailable):
            if self._since_snapshot >= SNAPSHOT_EVERY:
                self._save()
            if self._since_compact >= COMPACT_EVERY and not self._journal.compact():
                self._since_compact = 0
                self._journal.tidy()

    def _save(self) -> None:
        self._journal.save_snapshot(self._snapshot())
        self._since_snapshot = 0
        give_back_memory()


def give_back_memory() -> None:
    """Give memory that is not in use back to the operating system, if the C library can (glibc). The texts of snapshots and packs
    leave gaps, which glibc keeps otherwise: after 20,000 jobs it kept 20 MB."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
