"""The journal: what happened and what was decided, durable before any command leaves.

One SQLite file in WAL mode. An entry is what the core learned at one instant and what it decided then; it is one transaction,
flushed to disk (`synchronous=FULL`), so that all that happened in one turn of the loop costs one flush. Recovery is the last
snapshot and the entries after it; it folds what was recorded and never decides anything again.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rota.errors import JournalError
from rota.live.clock import ClockOrigin
from rota.model.allocation import Assignment
from rota.model.codec import Codec, Plain
from rota.model.events import Allocated, Decided, External

SCHEMA = 1

_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
"""What SQLite says of a disk or a quota without room."""

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (number INTEGER PRIMARY KEY, now_s REAL NOT NULL, events TEXT NOT NULL, decided TEXT);
CREATE TABLE snapshots (number INTEGER PRIMARY KEY, state BLOB NOT NULL);
CREATE TABLE configurations (number INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE jobs (id INTEGER PRIMARY KEY, spec TEXT NOT NULL, row TEXT NOT NULL, ended INTEGER NOT NULL);
CREATE INDEX unfinished ON jobs (id) WHERE ended = 0;
"""


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


class JournalFull(JournalError):
    """The journal cannot be written now: its disk has no room. What was to be written is not in it, and can be written again."""


def _journaled(event: External) -> External:
    """An answer without its memory, if only snapshots keep that."""
    if isinstance(event, Allocated) and isinstance(event.allocation, Assignment) and event.allocation.memory_in_snapshots:
        return replace(event, allocation=replace(event.allocation, memory=None))
    return event


class Journal:
    """One file. Used by one thread of one process at a time; readers may open it beside."""

    def __init__(self, path: Path | str, words: Codec) -> None:
        self.path = Path(path)
        self._words = words
        self._configuration: tuple[int, int, dict[str, Any]] = (0, 0, {})
        """The one that was read last, its number, and the version of the file."""
        try:
            # Threads take turns: one comes up and reads, then another writes.
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA busy_timeout=5000")
            self.path.chmod(0o600)
            if not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                self._create()  # new, or cut off before it had anything
            self._check_schema()
        except JournalFull:
            raise
        except (sqlite3.DatabaseError, OSError) as problem:
            if getattr(problem, "sqlite_errorcode", 0) & 0xFF in _NO_ROOM:
                hint = "free some space on its disk, or another --home"
                raise JournalFull(f"{self.path}: cannot be opened ({problem}).", hint=hint) from problem
            raise JournalError(f"{self.path}: is not a journal of Rota's ({problem}).", hint="another --home") from problem
        self.last = int(self._db.execute("SELECT coalesce(max(number), 0) FROM entries").fetchone()[0])

    def _create(self) -> None:
        with self._transaction():
            for statement in _TABLES.split(";"):
                if statement.strip():
                    self._db.execute(statement)
            self._db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA),))

    def _check_schema(self) -> None:
        found = self._db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        if found is None or int(found[0]) != SCHEMA:
            raise JournalError(
                f"{self.path}: has schema {found[0] if found else 'none'}, this Rota reads {SCHEMA}.",
                hint="use the Rota that wrote it, or another --home",
            )

    # Writing -----------------------------------------------------------------------------------------------------

    def append(
        self,
        now_s: float,
        events: Sequence[External],
        decided: Decided | None,
        jobs: Mapping[int, KeptJob] | None = None,
    ) -> None:
        """Durable when this returns. `jobs`: what clients see of the jobs that changed, by number."""
        text = json.dumps(self._words.encode([_journaled(event) for event in events]), separators=(",", ":"))
        answer = None if decided is None else json.dumps(self._words.encode(decided), separators=(",", ":"))
        with self._transaction():
            self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (self.last + 1, now_s, text, answer))
            if jobs:
                added = [(job, json.dumps(kept.spec)) for job, kept in jobs.items() if kept.spec is not None]
                self._db.executemany("INSERT INTO jobs VALUES (?, ?, '', 0) ON CONFLICT (id) DO NOTHING", added)
                rows = [(json.dumps(kept.row), int(kept.ended), job) for job, kept in jobs.items()]
                self._db.executemany("UPDATE jobs SET row = ?, ended = ? WHERE id = ?", rows)
        self.last += 1

    def save_snapshot(self, state: Plain) -> None:
        """Of the state after the last entry. The one before is kept, in case this one cannot be read."""
        packed = zlib.compress(json.dumps(state, separators=(",", ":")).encode(), 1)
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", (self.last, packed))
            self._db.execute(
                "DELETE FROM snapshots WHERE number NOT IN (SELECT number FROM snapshots ORDER BY number DESC LIMIT 2)"
            )

    def configure(self, value: Mapping[str, Any]) -> None:
        """From the next entry on the scheduler is set up like this; said again only if it changes."""
        if value != self.configuration():
            with self._transaction():
                self._db.execute("INSERT OR REPLACE INTO configurations VALUES (?, ?)", (self.last + 1, json.dumps(value)))
            self._configuration = 0, 0, {}

    def keep_clock(self, origin: ClockOrigin) -> None:
        """Where the daemon's clock stands; said again only if it changes."""
        if origin != self.clock_origin():
            with self._transaction():
                self._db.execute("INSERT OR REPLACE INTO meta VALUES ('clock', ?)", (json.dumps(origin._asdict()),))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or nothing. A disk without room is a JournalFull, whichever statement finds it out."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as problem:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK") if self._db.in_transaction else None
            if isinstance(problem, sqlite3.OperationalError):
                kind = JournalFull if problem.sqlite_errorcode & 0xFF in _NO_ROOM else JournalError
                raise kind(f"{self.path}: cannot be written ({problem}).", hint="free some space on its disk") from problem
            raise

    # Reading -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[int, Plain] | None:
        """The last snapshot that can be read, and the number of the entry it was taken after."""
        for number, packed in self._db.execute("SELECT number, state FROM snapshots ORDER BY number DESC"):
            try:
                return int(number), json.loads(zlib.decompress(packed))
            except (zlib.error, ValueError):
                continue
        return None

    def entries(self, after: int = 0) -> Iterator[JournalEntry]:
        for number, now_s, events, decided in self._db.execute(
            "SELECT number, now_s, events, decided FROM entries WHERE number > ? ORDER BY number", (after,)
        ):
            answer = None if decided is None else self._words.decode(json.loads(decided))
            yield JournalEntry(int(number), float(now_s), self._words.decode(json.loads(events)), answer)

    def configuration(self, number: int | None = None) -> dict[str, Any] | None:
        """How the scheduler was set up at an entry; at the last one if none is named. It is for reading only: each is read once,
        since it may hold whole tables."""
        at = self.last + 1 if number is None else number
        found = self._db.execute("SELECT max(number) FROM configurations WHERE number <= ?", (at,)).fetchone()[0]
        if found is None:
            return None
        version = self._db.execute("PRAGMA data_version").fetchone()[0]  # another one after every write of another process
        if self._configuration[:2] != (found, version):
            (text,) = self._db.execute("SELECT value FROM configurations WHERE number = ?", (found,)).fetchone()
            self._configuration = found, version, json.loads(text)
        return self._configuration[2]

    def clock_origin(self) -> ClockOrigin | None:
        """Where the clock of the last daemon stood."""
        found = self._db.execute("SELECT value FROM meta WHERE key = 'clock'").fetchone()
        return ClockOrigin(**json.loads(found[0])) if found is not None else None

    def jobs(self, *, unfinished: bool = False) -> Iterator[tuple[int, Plain, Plain]]:
        """(number, spec, row) of every job, or of those that had not ended."""
        which = "WHERE ended = 0 " if unfinished else ""
        for job, spec, row in self._db.execute(f"SELECT id, spec, row FROM jobs {which}ORDER BY id"):
            yield int(job), json.loads(spec), json.loads(row)

    def job(self, number: int) -> tuple[Plain, Plain] | None:
        found = self._db.execute("SELECT spec, row FROM jobs WHERE id = ?", (number,)).fetchone()
        return (json.loads(found[0]), json.loads(found[1])) if found else None

    def close(self) -> None:
        self._db.close()
