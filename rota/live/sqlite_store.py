"""A journal in one SQLite file in WAL mode, flushed to disk with every transaction (`synchronous=FULL`)."""

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from rota.agent.disk import sync_folder
from rota.errors import JournalError
from rota.folders import open_file
from rota.live.journal_store import ADDED_BY_3, READABLE, SCHEMA, JournalFull, check_schema, schema, upgrade_steps

_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
"""SQLite errors of a disk or a quota without room."""

_NO_ROOM_HERE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (number INTEGER PRIMARY KEY, now_s REAL NOT NULL, events TEXT NOT NULL, decided TEXT);
CREATE TABLE snapshots (number INTEGER PRIMARY KEY, state BLOB NOT NULL);
CREATE TABLE configurations (number INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE jobs (id INTEGER PRIMARY KEY, spec TEXT NOT NULL, row TEXT NOT NULL, ended INTEGER NOT NULL);
CREATE INDEX unfinished ON jobs (id) WHERE ended = 0;
"""

_PACKS = "CREATE TABLE packs (first INTEGER NOT NULL, last INTEGER PRIMARY KEY, entries BLOB NOT NULL)"
"""Table added by schema 2."""

LOG_BYTES = 4 << 20
"""Size to which the write-ahead log is truncated after a large transaction, in bytes."""
WASTE_BYTES = 4 << 20
"""Unused room in the file that is worth freeing if it is more than half of the file, in bytes."""


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection for reading. Without a write-ahead log next to it the file is complete, and no other file has to be
    created to read it. On a disk that cannot be written, the contents of that log are not visible."""
    address = path.absolute().as_uri()
    if Path(f"{path}-wal").exists():
        db = sqlite3.connect(f"{address}?mode=ro", uri=True, isolation_level=None)
        try:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return db
        except sqlite3.OperationalError:
            db.close()
    return sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True, isolation_level=None)


def copy_before_upgrade(path: Path, found: int) -> Path:
    """Return the copy of a journal that is kept when it is upgraded from a schema."""
    return path.with_name(f"{path.name}.schema-{found}")


class SqliteStore:
    """A `JournalStore`. The lock of the home ensures that only one process writes; readers may open the file at the same time."""

    epoch = 0

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        self._path = Path(path)
        self.name = str(path)
        try:
            if read_only:
                self._db = connect_to_read(self._path)
                check_schema(self.name, self.rows("SELECT value FROM meta WHERE key = 'schema'"), self._copy_to_go_back())
                return
            # Threads use it in turn: one starts up and reads, then another writes.
            self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA busy_timeout=5000")
            self._db.execute(f"PRAGMA journal_size_limit={LOG_BYTES}")
            self._path.chmod(0o600)
            if not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                self._create()  # new, or interrupted before anything was written
            check_schema(self.name, self.rows("SELECT value FROM meta WHERE key = 'schema'"), self._copy_to_go_back())
        except JournalFull:
            raise
        except (sqlite3.DatabaseError, OSError) as problem:
            needed = os.R_OK if read_only else os.R_OK | os.W_OK
            if not os.access(self._path if self._path.exists() else self._path.parent, needed):
                raise JournalError(
                    f"{self.name}: you have no permission to {'read' if read_only else 'write'} it.", hint="another --home"
                ) from problem
            if getattr(problem, "sqlite_errorcode", 0) & 0xFF in _NO_ROOM:
                hint = "free some space on its disk, or another --home"
                raise JournalFull(f"{self.name}: cannot be opened ({problem}).", hint=hint) from problem
            raise JournalError(f"{self.name}: is not a journal of Rota's ({problem}).", hint="another --home") from problem

    def _create(self) -> None:
        with self.transaction():
            for statement in (*_TABLES.split(";"), _PACKS, *ADDED_BY_3):
                if statement.strip():
                    self.execute(statement)
            self.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA),))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a transaction. Raise JournalFull if the disk has no room, whichever statement notices it."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as problem:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK") if self._db.in_transaction else None
            if isinstance(problem, sqlite3.OperationalError):
                kind = JournalFull if problem.sqlite_errorcode & 0xFF in _NO_ROOM else JournalError
                raise kind(f"{self.name}: cannot be written ({problem}).", hint="free some space on its disk") from problem
            raise

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        self._db.execute(statement, values)

    def execute_many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        self._db.executemany(statement, values)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._db.execute(statement, values).fetchall()

    def _copy_to_go_back(self) -> str:
        """Return the copy from before an upgrade that this version can read; an empty text if there is none."""
        copies = (copy_before_upgrade(self._path, each) for each in range(SCHEMA, READABLE[0] - 1, -1))
        return next((str(copy) for copy in copies if copy.is_file()), "")

    def keep_copy(self) -> None:
        """Copy the journal to a file that is named with its schema, next to it. It replaces the copy of an earlier upgrade from
        this schema. Raise JournalFull if the disk has no room."""
        copy = copy_before_upgrade(self._path, schema(self.rows))
        unfinished = copy.with_name(f"{copy.name}.new")
        try:
            for part in (unfinished, unfinished.with_name(f"{unfinished.name}-journal")):
                part.unlink(missing_ok=True)
            os.close(open_file(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL))
            with closing(sqlite3.connect(unfinished)) as target:
                self._db.backup(target)  # flushed to disk when it ends
            unfinished.replace(copy)
            sync_folder(copy.parent)
        except (sqlite3.Error, OSError) as problem:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            full = getattr(problem, "sqlite_errorcode", 0) & 0xFF in _NO_ROOM or getattr(problem, "errno", 0) in _NO_ROOM_HERE
            raise (JournalFull if full else JournalError)(
                f"{copy}: the copy from before the upgrade cannot be written ({problem}).", hint="free some space on its disk"
            ) from problem

    def upgrade(self) -> None:
        for statement in upgrade_steps(schema(self.rows), _PACKS):
            self.execute(statement)
        self.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(SCHEMA),))

    def tidy(self) -> None:
        """Free unused room. Only used pages are copied. If it fails, for lack of room or because of a reader, the file stays as
        it is."""
        (unused,), (pages,), (size,) = (self.rows(f"PRAGMA {name}")[0] for name in ("freelist_count", "page_count", "page_size"))
        if unused * size > WASTE_BYTES and unused * 2 > pages:
            with suppress(sqlite3.OperationalError):
                self._db.execute("VACUUM")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def configuration_version(self, number: int) -> object:
        """Return the version of the file. SQLite has one for the whole file only."""
        return self._db.execute("PRAGMA data_version").fetchone()[0]

    def confirm(self) -> None:
        """Do nothing: the process holds the lock of the home while it lives."""

    def close(self) -> None:
        self._db.close()
