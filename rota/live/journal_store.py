"""What a journal is written to, as `Journal` sees it: a database with a few plain statements.

`sqlite_store.py` is a file in the home, and `postgres_store.py` a schema of a PostgreSQL database. Statements are the same for
both, with `?` for values.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from rota.errors import JournalError

SCHEMA = 2
READABLE = (1, SCHEMA)
"""In version 1 there are no packs, and answers of policies are whole. Such a journal is upgraded when it is written."""


class JournalFull(JournalError):
    """The journal cannot be written now: its disk has no room. What was to be written is not in it, and can be written again."""


class JournalUnavailable(JournalError):
    """The journal's server does not answer. Whether what was to be written is in it is not known: write the same again."""


class LeadershipLost(JournalError):
    """Another scheduler leads now. This one may write nothing more."""


class JournalStore(Protocol):
    """One connection. Used by one thread of one process at a time."""

    name: str
    """What messages call it."""
    epoch: int
    """Under which this process leads; 0: there are no epochs here."""

    def transaction(self) -> AbstractContextManager[None]:
        """All of it or nothing, durable when it ends. Raises `JournalFull`, `JournalUnavailable` or `LeadershipLost`."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Within a transaction."""

    def execute_many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """Within a transaction."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def upgrade(self) -> None:
        """Make a journal of an earlier version one of this. Within a transaction."""

    def tidy(self) -> None:
        """Give room that is no longer used back to the disk, if it is much."""

    def configuration_version(self, number: int) -> object:
        """Another one whenever another process has replaced the configuration with this number."""

    def confirm(self) -> None:
        """Raises `LeadershipLost` if this process no longer leads, and `JournalUnavailable`."""

    def close(self) -> None: ...


def check_schema(name: str, found: Sequence[tuple[Any, ...]]) -> None:
    """`found`: the row of the table `meta`, if it is there."""
    if not found or found[0][0] not in map(str, READABLE):
        raise JournalError(
            f"{name}: has schema {found[0][0] if found else 'none'}, this Rota reads {READABLE[0]} to {SCHEMA}.",
            hint="use the Rota that wrote it, or another --home",
        )


def lead_lost(epoch: int, latest: int) -> LeadershipLost:
    return LeadershipLost(
        f"this scheduler led under epoch {epoch}, and another leads under epoch {latest}; it has written nothing since",
        hint="rota up --standby, which waits until it can lead; a service manager may do it",
    )
