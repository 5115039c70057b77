"""The storage of a journal, as `Journal` uses it: a database with a few plain statements.

`sqlite_store.py` is a file in the home, and `postgres_store.py` a schema of a PostgreSQL database. Statements are the same for
both, with `?` for values.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from rota.errors import JournalError

SCHEMA = 2
READABLE = (1, SCHEMA)
"""Readable versions. Version 1 has no packs, and answers of policies are complete. Such a journal is upgraded when it is
written."""


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

    def upgrade(self) -> None:
        """Upgrade a journal of an earlier version to this version, within a transaction."""

    def tidy(self) -> None:
        """Give unused room back to the disk, if it is much."""

    def configuration_version(self, number: int) -> object:
        """Return a value that changes whenever another process has replaced the configuration with this number."""

    def confirm(self) -> None:
        """Raise LeadershipLost if this process no longer leads, or JournalUnavailable."""

    def close(self) -> None: ...


def check_schema(name: str, found: Sequence[tuple[Any, ...]]) -> None:
    """Raise JournalError unless the schema is readable. `found` has the row of the table `meta`, if there is one."""
    if not found or found[0][0] not in map(str, READABLE):
        raise JournalError(
            f"{name}: has schema {found[0][0] if found else 'none'}, this Rota reads {READABLE[0]} to {SCHEMA}.",
            hint="use the Rota that wrote it, or another --home",
        )


def lead_lost(epoch: int, latest: int) -> LeadershipLost:
    return LeadershipLost(
        f"this scheduler led epoch {epoch}, and another leads epoch {latest}; this one has written nothing since",
        hint="rota up --standby, which waits until it can lead; a service manager can start it",
    )
