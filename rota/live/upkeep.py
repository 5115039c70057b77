"""Upkeep of a journal: snapshots now and then, so that a restart has little to read, and packing, so that it takes little room.

All of it can wait: if it fails for lack of room, or because the journal's server does not answer, the next turn tries again.
"""

import contextlib
import time
from collections.abc import Callable

from rota.live.journal import Journal
from rota.live.journal_store import JournalFull, JournalUnavailable
from rota.model.codec import Plain

SNAPSHOT_EVERY = 1000
"""Entries between snapshots. Each ten events count as an entry, because a restart folds them one by one."""
COMPACT_EVERY = 500
"""Entries after which older ones are packed."""
START_SECONDS = 2.0
"""How long packing may take at a start; the rest follows while the scheduler runs."""


class JournalUpkeep:
    """Called by the thread that writes the journal."""

    def __init__(self, journal: Journal, snapshot: Callable[[], Plain]) -> None:
        """`snapshot`: the state after the last entry."""
        self._journal, self._snapshot = journal, snapshot
        self._since_snapshot = journal.last - journal.snapshot_number()
        self._since_compact = COMPACT_EVERY

    def at_start(self) -> None:
        """The next start has less to read, and the journal takes no more room than it needs."""
        until_s = time.monotonic() + START_SECONDS
        with contextlib.suppress(JournalFull, JournalUnavailable):
            if self._since_snapshot >= SNAPSHOT_EVERY // 10:
                self._save()
            while time.monotonic() < until_s and self._journal.compact(starting=True):
                pass
            self._journal.tidy()

    def after_turn(self, events: int) -> None:
        """An entry with so many events was written. At most one pack is made."""
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
