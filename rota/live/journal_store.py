"""The storage of a journal, as `Journal` uses it: a database with a few plain statements.

`sqlite_store.py` is a file in the home, and `postgres_store.py` a schema of a PostgreSQL database. Statements are the same for
both, with `?` for values.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from rota.errors import JournalError

SCHEMA = 3
"""Version of what a journal contains. A change of tables, entries or snapshots that the version before cannot read raises it, so
that the version before refuses such a journal and changes nothing."""
READABLE = (1, SCHEMA)
"""Oldest and newest readable version. Version 1 has no packs, and answers of policies are complete. Version 2 has no events of
jobs and no usage. Such a journal is upgraded when it is written."""

ADDED_BY_3 = (
    "CREATE TABLE job_events (job BIGINT NOT NULL, number BIGINT NOT NULL, at_s DOUBLE PRECISION NOT NULL, event TEXT NOT NULL, "
    "PRIMARY KEY (job, number))",
    "CREATE INDEX job_events_at ON job_events (at_s)",
    "CREATE TABLE usage (day BIGINT NOT NULL, owner TEXT NOT NULL, tenant TEXT NOT NULL, accelerator TEXT NOT NULL, "
    "submitted BIGINT NOT NULL, begun BIGINT NOT NULL, finished BIGINT NOT NULL, failed BIGINT NOT NULL, "
    "cancelled BIGINT NOT NULL, attempts BIGINT NOT NULL, preemptions BIGINT NOT NULL, wait_seconds DOUBLE PRECISION NOT NULL, "
    "jct_seconds DOUBLE PRECISION NOT NULL, gpu_seconds DOUBLE PRECISION NOT NULL, work_seconds DOUBLE PRECISION NOT NULL, "
    "preempted_seconds DOUBLE PRECISION NOT NULL, broken_seconds DOUBLE PRECISION NOT NULL, "
    "PRIMARY KEY (day, owner, tenant, accelerator))",
)
"""Statements that make the tables of schema 3, the same for every store."""


Rows = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""Returns the rows that a statement with these values selects."""


class JournalFull(JournalError):
    """The journal cannot be written now: its disk has no room. Nothing was written, and the write can be repeated."""


class JournalUnavailable(JournalError):
    """The journal's server does not answer. It is unknown whether the entry was written: write the same entry again."""


class LeadershipLost(JournalError):
    """Another scheduler is leader. This one must not write to the journal."""


class JournalStore(Protocol):
    """One connection. Used by one thread of one process at a time."""

    name: str
    """Name in messages."""
    epoch: int
    """Epoch in which this process leads; 0 if the store has no epochs."""

    def transaction(self) -> AbstractContextManager[None]:
        """Do all of it or nothing, durably when it ends. Raise JournalFull, JournalUnavailable or LeadershipLost."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Execute a statement within a transaction."""

    def execute_many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for each row of values, within a transaction."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def keep_copy(self) -> None:
        """Keep a copy of a journal of an earlier schema for a return to the version that wrote it, if the store can."""

    def upgrade(self) -> None:
        """Upgrade a journal of an earlier version to this version, within a transaction, step by step."""

    def tidy(self) -> None:
        """Give unused room back to the disk, if it is much."""

    def configuration_version(self, number: int) -> object:
        """Return a value that changes whenever another process has replaced the configuration with this number."""

    def confirm(self) -> None:
        """Raise LeadershipLost if this process no longer leads, or JournalUnavailable."""

    def close(self) -> None: ...


def schema(rows: Rows) -> int:
    return int(rows("SELECT value FROM meta WHERE key = 'schema'", ())[0][0])


def upgrade_steps(found: int, packs: str) -> Iterator[str]:
    """Return the statements that bring a journal from an earlier schema to this one. `packs`: the statement that makes the table
    of schema 2."""
    if found < 2:
        yield packs
    if found < 3:
        yield from ADDED_BY_3


def check_schema(name: str, found: Sequence[tuple[Any, ...]], copy: str = "") -> None:
    """Raise JournalError unless the schema is readable. `found` has the row of the table `meta`, if there is one; `copy` names a
    copy from before an upgrade, which this version can read."""
    version = str(found[0][0]) if found else ""
    if version.isdigit() and int(version) > SCHEMA:
        raise JournalError(
            f"{name}: was written by a later version of Rota (schema {version}; this one reads {READABLE[0]} to {SCHEMA}). "
            "Nothing was changed.",
            hint=f"the later version of Rota; or put {copy} back, see docs/backup.md"
            if copy
            else "the later version of Rota, or another --home",
        )
    if not version.isdigit() or int(version) < READABLE[0]:
        raise JournalError(
            f"{name}: has schema {found[0][0] if found else 'none'}, this Rota reads {READABLE[0]} to {SCHEMA}.",
            hint="use the Rota that wrote it, or another --home",
        )


def lead_lost(epoch: int, latest: int) -> LeadershipLost:
    return LeadershipLost(
        f"this scheduler led epoch {epoch}, and another leads epoch {latest}; this one has written nothing since",
        hint="rota up --standby, which waits until it can lead; a service manager can start it",
    )
