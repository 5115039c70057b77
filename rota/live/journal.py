"""The journal: what happened and what was decided, durable before any command leaves.

An entry is what the core learned at one instant and what it decided then; it is one transaction, flushed to disk, so that all
that happened in one turn of the loop costs one flush. Recovery is the last snapshot and the entries after it; it folds what was
recorded and never decides anything again. What it is written to is a `JournalStore`.
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rota.live.clock import ClockOrigin
from rota.live.journal_store import JournalAway, JournalStore
from rota.live.sqlite_store import SqliteStore
from rota.model.allocation import Assignment
from rota.model.codec import Codec, Plain
from rota.model.events import Allocated, Decided, External

PAGE = 500
"""So many rows are read at a time."""


class JournalEntry(NamedTuple):
    """One turn: when the core learned what, and what it decided."""

    number: int
    now_s: float
    events: list[External]
    decided: Decided | None


class KeptJob(NamedTuple):
    """What clients see of a job."""

    spec: Plain | None
    """As it was submitted, which does not change. None: the journal has it."""
    row: Plain
    ended: bool


def _text(spec: Plain | None) -> str:
    """A spec that the journal has stays as it is, whatever comes with its row."""
    return "" if spec is None else json.dumps(spec)


def _journaled(event: External) -> External:
    """An answer without its memory, if only snapshots keep that."""
    if isinstance(event, Allocated) and isinstance(event.allocation, Assignment) and event.allocation.memory_in_snapshots:
        return replace(event, allocation=replace(event.allocation, memory=None))
    return event


class Journal:
    """One store. Used by one thread of one process at a time; readers may open it beside."""

    def __init__(self, store: JournalStore | Path | str, words: Codec) -> None:
        """A path: that of a SQLite file."""
        self._store: JournalStore = SqliteStore(store) if isinstance(store, Path | str) else store
        self._words = words
        self._configuration: tuple[int, object, dict[str, Any]] = (0, None, {})
        """The one that was read last: its number, its version, and what it says."""
        self._doubtful = 0
        """The number of an entry of which it is not known whether it was written; 0: none."""
        self.last = int(self._store.rows("SELECT coalesce(max(number), 0) FROM entries")[0][0])

    @property
    def epoch(self) -> int:
        """Under which this process leads; 0: there are no epochs here."""
        return self._store.epoch

    @property
    def name(self) -> str:
        return self._store.name

    def confirm(self) -> None:
        """Raises `LeadLost` if this process no longer leads."""
        self._store.confirm()

    # Writing -----------------------------------------------------------------------------------------------------

    def append(
        self,
        now_s: float,
        events: Sequence[External],
        decided: Decided | None,
        jobs: Mapping[int, KeptJob] | None = None,
    ) -> None:
        """Durable when this returns; after a `JournalAway`, append the same again. `jobs`: what clients see of the jobs that
        changed, by number."""
        text = json.dumps(self._words.encode([_journaled(event) for event in events]), separators=(",", ":"))
        answer = None if decided is None else json.dumps(self._words.encode(decided), separators=(",", ":"))
        try:
            with self._store.transaction():
                if self._doubtful != self.last + 1 or not self._is_there(self._doubtful):
                    self._store.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (self.last + 1, now_s, text, answer))
                    self._keep_jobs(jobs or {})
        except JournalAway:
            self._doubtful = self.last + 1
            raise
        self.last, self._doubtful = self.last + 1, 0

    def _is_there(self, number: int) -> bool:
        """In the same epoch no other process writes, so it is what this one wrote."""
        return bool(self._store.rows("SELECT number FROM entries WHERE number = ?", (number,)))

    def _keep_jobs(self, jobs: Mapping[int, KeptJob]) -> None:
        if jobs:
            self._store.execute_many(
                "INSERT INTO jobs VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET row = excluded.row, ended = excluded.ended",
                [(job, _text(kept.spec), json.dumps(kept.row), int(kept.ended)) for job, kept in jobs.items()],
            )

    def save_snapshot(self, state: Plain) -> None:
        """Of the state after the last entry. The one before is kept, in case this one cannot be read."""
        packed = zlib.compress(json.dumps(state, separators=(",", ":")).encode(), 1)
        with self._store.transaction():
            self._store.execute(
                "INSERT INTO snapshots VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET state = excluded.state",
                (self.last, packed),
            )
            self._store.execute(
                "DELETE FROM snapshots WHERE number NOT IN (SELECT number FROM snapshots ORDER BY number DESC LIMIT 2)"
            )

    def configure(self, value: Mapping[str, Any]) -> None:
        """From the next entry on the scheduler is set up like this; said again only if it changes."""
        if value != self.configuration():
            with self._store.transaction():
                self._store.execute(
                    "INSERT INTO configurations VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET value = excluded.value",
                    (self.last + 1, json.dumps(value)),
                )
            self._configuration = 0, None, {}

    def keep_clock(self, origin: ClockOrigin) -> None:
        """Where the daemon's clock stands; said again only if it changes."""
        if origin != self.clock_origin():
            with self._store.transaction():
                self._store.execute(
                    "INSERT INTO meta VALUES ('clock', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    (json.dumps(origin._asdict()),),
                )

    # Reading -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[int, Plain] | None:
        """The last snapshot that can be read, and the number of the entry it was taken after."""
        for (number,) in self._store.rows("SELECT number FROM snapshots ORDER BY number DESC"):
            found = self._store.rows("SELECT state FROM snapshots WHERE number = ?", (number,))
            if not found:
                continue  # the scheduler has dropped it for a newer one
            try:
                return int(number), json.loads(zlib.decompress(found[0][0]))
            except (zlib.error, ValueError):
                continue
        return None

    def entries(self, after: int = 0) -> Iterator[JournalEntry]:
        while page := self._store.rows(
            "SELECT number, now_s, events, decided FROM entries WHERE number > ? ORDER BY number LIMIT ?", (after, PAGE)
        ):
            for number, now_s, events, decided in page:
                answer = None if decided is None else self._words.decode(json.loads(decided))
                yield JournalEntry(int(number), float(now_s), self._words.decode(json.loads(events)), answer)
            after = page[-1][0]

    def configuration(self, number: int | None = None) -> dict[str, Any] | None:
        """How the scheduler was set up at an entry; at the last one if none is named. It is for reading only: each is read once,
        since it may hold whole tables."""
        at = self.last + 1 if number is None else number
        found = self._store.rows("SELECT max(number) FROM configurations WHERE number <= ?", (at,))[0][0]
        if found is None:
            return None
        version = self._store.configuration_version(found)
        if self._configuration[:2] != (found, version):
            ((text,),) = self._store.rows("SELECT value FROM configurations WHERE number = ?", (found,))
            self._configuration = found, version, json.loads(text)
        return self._configuration[2]

    def clock_origin(self) -> ClockOrigin | None:
        """Where the clock of the last daemon stood."""
        found = self._store.rows("SELECT value FROM meta WHERE key = 'clock'")
        return ClockOrigin(**json.loads(found[0][0])) if found else None

    def jobs(self, *, unfinished: bool = False) -> Iterator[tuple[int, Plain, Plain]]:
        """(number, spec, row) of every job, or of those that had not ended."""
        which, after = "AND ended = 0 " if unfinished else "", -1
        while page := self._store.rows(f"SELECT id, spec, row FROM jobs WHERE id > ? {which}ORDER BY id LIMIT ?", (after, PAGE)):
            for job, spec, row in page:
                yield int(job), json.loads(spec), json.loads(row)
            after = page[-1][0]

    def job(self, number: int) -> tuple[Plain, Plain] | None:
        found = self._store.rows("SELECT spec, row FROM jobs WHERE id = ?", (number,))
        return (json.loads(found[0][0]), json.loads(found[0][1])) if found else None

    def close(self) -> None:
        self._store.close()
