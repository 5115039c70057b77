"""A journal in a schema of a PostgreSQL database, so that several homes can share a database.

Only the leader may write: every transaction first locks the row with the epoch and compares it. So of all schedulers of a home
only the one of the latest epoch writes (`election.py`). The server may go away at any time; the next use connects again. If the
reply to a COMMIT is lost, the next transaction waits at that row until the server has ended the transaction in doubt, and can
then see whether it was written.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from rota.errors import JournalError, OptionError
from rota.live.journal_place import PostgresLocation
from rota.live.journal_store import ADDED_BY_3, SCHEMA, JournalUnavailable, check_schema, lead_lost, schema, upgrade_steps

OLDEST = 140000
"""PostgreSQL 14, the first version that ends idle sessions by itself."""
CONNECT_SECONDS = 10
STUCK_SECONDS = 10
"""Time after which the server aborts a transaction that is idle, or that waits for another one, in seconds."""
BATCH_ROWS = 500
_VALUES = re.compile(r"\(\?(, \?)*\)")
"""Values of one row in a statement."""
KEEPALIVES = {"keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 15000}
"""Connection settings with which a server that is cut off is given up after some seconds."""

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (number BIGINT PRIMARY KEY, now_s DOUBLE PRECISION NOT NULL, events TEXT NOT NULL, decided TEXT);
CREATE TABLE snapshots (number BIGINT PRIMARY KEY, state BYTEA NOT NULL);
CREATE TABLE configurations (number BIGINT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE jobs (id BIGINT PRIMARY KEY, spec TEXT NOT NULL, row TEXT NOT NULL, ended INTEGER NOT NULL);
CREATE INDEX unfinished ON jobs (id) WHERE ended = 0;
"""

_PACKS = "CREATE TABLE packs (first BIGINT NOT NULL, last BIGINT PRIMARY KEY, entries BYTEA NOT NULL)"
"""Table added by schema 2."""

_SETTINGS = """
SELECT set_config('search_path', %s, false),
       set_config('idle_in_transaction_session_timeout', %s, false),
       set_config('lock_timeout', %s, false),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                                             ELSE current_setting('synchronous_commit') END, false)
"""


def driver() -> Any:
    """Return the module psycopg."""
    try:
        import psycopg
    except ImportError:
        raise OptionError(
            "a journal in PostgreSQL needs psycopg, which is not installed.",
            field="--journal",
            hint="pip install 'rota-scheduler[postgres]'",
        ) from None
    return psycopg


def connect(place: PostgresLocation) -> Any:
    """Return a connection that is set up for this schema. Raise JournalUnavailable if the server does not answer."""
    psycopg = driver()
    secret = {} if (password := place.password()) is None else {"password": password}
    try:
        connection = psycopg.connect(
            place.url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="rota", **KEEPALIVES, **secret
        )
    except psycopg.ProgrammingError as problem:
        raise OptionError(f"is not an address: {_line(problem)}.", field="--journal", value=place.url) from None
    except psycopg.Error as problem:
        raise away(place, problem) from None
    try:
        if connection.info.server_version < OLDEST:
            found = f"{place}: is PostgreSQL {connection.info.server_version // 10000}, and 14 or newer is needed."
            raise JournalError(found, hint="another --journal")
        connection.execute(_SETTINGS, (place.schema, f"{STUCK_SECONDS}s", f"{STUCK_SECONDS}s"))
    except BaseException as problem:
        connection.close()
        if isinstance(problem, psycopg.Error):
            raise fault(place, problem) from None
        raise
    return connection


def away(place: PostgresLocation, problem: BaseException) -> JournalUnavailable:
    hint = f"is it running, and is the password in ROTA_JOURNAL, PGPASSWORD or ~/.pgpass? psql '{place.url}' shows more"
    full = (getattr(problem, "sqlstate", None) or "").startswith(("53", "55"))  # no room or connections left; locked
    return JournalUnavailable(f"the journal {place} cannot be {'used now' if full else 'reached'}: {_line(problem)}.", hint=hint)


def is_passing(problem: BaseException) -> bool:
    """Return whether a retry may succeed later: the server was not there, was shutting down, had no room, or is a read-only
    replica."""
    psycopg = driver()
    passing = psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.IdleInTransactionSessionTimeout
    return isinstance(problem, (psycopg.OperationalError, psycopg.InterfaceError, *passing))


def fault(place: PostgresLocation, problem: BaseException) -> JournalError:
    """Return the journal error for an error of psycopg."""
    if is_passing(problem):
        return away(place, problem)
    return JournalError(f"{place}: cannot be used ({_line(problem)}).", hint="rota doctor, or another --journal")


def has_tables(place: PostgresLocation) -> bool:
    connection = connect(place)
    try:
        return _has_tables(connection)
    except driver().Error as problem:
        raise fault(place, problem) from None
    finally:
        connection.close()


def create_tables(connection: Any, place: PostgresLocation) -> None:
    """Create the tables unless they exist. Several processes may try at once."""
    psycopg = driver()
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"create {place.schema}",))
        if _has_tables(connection):
            return
        try:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {place.schema}")
            for statement in (*_TABLES.split(";"), _PACKS, *ADDED_BY_3):
                if statement.strip():
                    connection.execute(statement)
        except psycopg.errors.InsufficientPrivilege as problem:
            hint = "GRANT CREATE ON DATABASE to this user, as an administrator of the database"
            raise JournalError(f"{place}: cannot be made ({_line(problem)}).", hint=hint) from None
        except psycopg.errors.DuplicateTable as problem:
            raise JournalError(f"{place}: is not a journal of Rota's ({_line(problem)}).", hint="another --home") from None
        connection.execute("INSERT INTO meta VALUES ('schema', %s), ('epoch', '0')", (str(SCHEMA),))


def _has_tables(connection: Any) -> bool:
    found = connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'meta'").fetchone()
    return found is not None


class PostgresStore:
    """A `JournalStore`."""

    def __init__(self, place: PostgresLocation, epoch: int = 0) -> None:
        """Open the journal. An `epoch` of 0 is for reading only."""
        self.name, self.epoch = str(place), epoch
        self._place, self._psycopg = place, driver()
        self._connection: Any = None
        self._in_transaction = False
        try:
            if not _has_tables(self._connected()):
                raise JournalError(f"{self.name}: is not a journal of Rota's.", hint="rota up in this home makes one")
            check_schema(self.name, self.rows("SELECT value FROM meta WHERE key = 'schema'"))
        except BaseException as problem:
            self.close()
            if isinstance(problem, self._psycopg.Error):
                raise fault(place, problem) from None
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if not self.epoch:
            raise JournalError(f"{self.name}: is open for reading only.", hint="rota up")
        connection = self._connected()
        try:
            connection.execute("BEGIN")
            self._in_transaction = True
            self._check_epoch(connection.execute("SELECT value FROM meta WHERE key = 'epoch' FOR UPDATE").fetchall())
            yield
            connection.execute("COMMIT")
        except BaseException as problem:
            self._undo(connection)
            if isinstance(problem, self._psycopg.Error):
                raise fault(self._place, problem) from problem
            raise
        finally:
            self._in_transaction = False

    def _undo(self, connection: Any) -> None:
        """Roll back. A connection whose state is unknown afterwards is not used again."""
        with suppress(self._psycopg.Error):
            connection.execute("ROLLBACK")
            if connection.info.transaction_status == self._psycopg.pq.TransactionStatus.IDLE:
                return
        self._drop()

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        self._connection.execute(statement.replace("?", "%s"), values)

    def execute_many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """Insert some hundred rows with one statement. We do not use psycopg's executemany: if this process froze during it, the
        server would wait for the rest without a limit, with the row of the epoch locked."""
        found = _VALUES.search(statement)
        assert found is not None
        group = found[0]
        for batch in _batches(list(values)):
            self.execute(statement.replace(group, ", ".join([group] * len(batch)), 1), [value for row in batch for value in row])

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Query rows. Outside a transaction the query is retried once if the connection turns out to be lost."""
        if self._in_transaction:
            return self._ask(statement, values)
        again = self._connection is not None
        while True:
            try:
                self._connected()
                return self._ask(statement, values)
            except self._psycopg.Error as problem:
                self._drop()
                if not again or not is_passing(problem):
                    raise fault(self._place, problem) from problem
                again = False

    def _ask(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(statement.replace("?", "%s"), values).fetchall()
        return found

    def keep_copy(self) -> None:
        """Do nothing: a database is backed up by its operator (docs/backup.md)."""

    def upgrade(self) -> None:
        for statement in upgrade_steps(schema(self.rows), _PACKS):
            self.execute(statement)
        self.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(SCHEMA),))

    def tidy(self) -> None:
        """Do nothing: the server frees space by itself."""

    def configuration_version(self, number: int) -> object:
        """Return the transaction that wrote the configuration."""
        return self.rows("SELECT xmin::text FROM configurations WHERE number = ?", (number,))

    def confirm(self) -> None:
        self._check_epoch(self.rows("SELECT value FROM meta WHERE key = 'epoch'"))

    def _check_epoch(self, found: Sequence[tuple[Any, ...]]) -> None:
        latest = int(found[0][0]) if found else 0
        if latest != self.epoch:
            raise lead_lost(self.epoch, latest)

    def _connected(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._place)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(self._psycopg.Error):
                self._connection.close()
        self._connection = None

    def close(self) -> None:
        self._drop()


def _batches(rows: list[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    for first in range(0, len(rows), BATCH_ROWS):
        yield rows[first : first + BATCH_ROWS]


def _line(problem: BaseException) -> str:
    """Return the first line of the server's message. It contains hosts, users and databases, but no passwords."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(problem).__name__
