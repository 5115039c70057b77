"""Election of the leader of a home whose journal is in PostgreSQL.

A leader holds an advisory lock in a session of its own, and the server ends a session from which it has received nothing for some
seconds: if the leader is killed, frozen or cut off, the lock becomes free. The process that takes it begins an epoch: a number in
the journal that rises by one with every leader. The lock ensures that there is a leader again. The epoch ensures that there is
only one writer: every transaction compares it (`postgres_store.py`), and so does every agent (`rota/agent/node_agent.py`).
"""

import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from rota.live.journal_place import PostgresLocation
from rota.live.journal_store import JournalUnavailable, lead_lost
from rota.live.postgres_store import connect, create_tables, driver, fault

LEADER_TIMEOUT_SECONDS = 15
"""A leader that has not sent a heartbeat for this long has lost the lead, in seconds."""
HEARTBEAT_SECONDS = 2.0
"""Heartbeat interval of the leader, in seconds."""


class Leader(NamedTuple):
    """The process that began an epoch."""

    epoch: int
    host: str
    pid: int
    since_s: float
    """Start of the epoch by the leader's own clock, in seconds since 1970."""

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since_s))
        return f"process {self.pid} on {self.host}, since {since} (epoch {self.epoch})"


class Election:
    """The election of one home, for one process."""

    def __init__(self, place: PostgresLocation) -> None:
        self._place, self._psycopg = place, driver()
        self._key = int.from_bytes(hashlib.sha256(f"rota {place.schema}".encode()).digest()[:8], "big", signed=True)
        self._session: Any = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.epoch = 0
        """Epoch of this process; 0 before it leads."""
        self._held_s = 0.0
        """Time at which the server last confirmed the lead, by the monotonic clock."""

    def try_to_lead(self) -> bool:
        """Return whether this process leads from now on. Raise JournalUnavailable if the server does not answer."""
        try:
            session = self._begin_session()
            create_tables(session, self._place)
            if not self._take_lock(session):
                return False
            with session.transaction():  # in the session that holds the lock, so if the lock is lost, so is this transaction
                (before,) = session.execute("SELECT value FROM meta WHERE key = 'epoch' FOR UPDATE").fetchone()
                leader = Leader(int(before) + 1, socket.gethostname(), os.getpid(), time.time())
                for key, value in (("epoch", str(leader.epoch)), ("leader", json.dumps(leader._asdict()))):
                    session.execute(
                        "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
                    )
        except self._psycopg.Error as problem:
            if isinstance(problem, self._psycopg.errors.LockNotAvailable):
                self._end_former()
            self._end_session()
            raise fault(self._place, problem) from problem
        self.epoch, self._held_s = leader.epoch, time.monotonic()
        return True

    def problem(self) -> str:
        """Return why it is uncertain that this process leads; empty if it does. Any thread."""
        seconds = time.monotonic() - self._held_s
        return f"its database has not confirmed it for {seconds:.0f} s" if seconds > LEADER_TIMEOUT_SECONDS else ""

    def _end_former(self) -> None:
        """End the session of a former leader that froze during a transaction, while the server waits for the rest of a message.
        While this session holds the lock of the lead, all other sessions that have locked the epoch belong to former leaders."""
        with suppress(self._psycopg.Error):
            self._session.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks"
                " WHERE relation = 'meta'::regclass AND mode = 'RowShareLock' AND granted AND pid <> pg_backend_pid()"
            )

    def leader(self) -> Leader | None:
        """Return the last process that began to lead; None if there was none yet. It may be dead by now."""
        try:
            found = self._begin_session().execute("SELECT value FROM meta WHERE key = 'leader'").fetchone()
        except self._psycopg.Error as problem:
            self._end_session()
            raise fault(self._place, problem) from problem
        return Leader(**json.loads(found[0])) if found is not None else None

    def is_led(self) -> bool:
        """Return whether a process holds the lock now."""
        high, low = (self._key >> 32) & 0xFFFFFFFF, self._key & 0xFFFFFFFF
        try:
            found = self._begin_session().execute(
                "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid::bigint = %s"
                " AND objid::bigint = %s AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                (high, low),
            )
            return found.fetchone() is not None
        except self._psycopg.Error as problem:
            self._end_session()
            raise fault(self._place, problem) from problem

    # While this process leads, a thread keeps the session alive, and opens a new one if the server ended it.

    def start_heartbeat(self, on_lost: Callable[[BaseException], None]) -> None:
        """Send heartbeats from now on. `on_lost` is called once, from another thread, if another process leads, or if the journal
        is permanently unusable."""

        def run() -> None:
            while not self._stop.wait(HEARTBEAT_SECONDS):
                try:
                    self.heartbeat()
                except JournalUnavailable:
                    continue  # while the server is away no other process can lead
                except BaseException as problem:
                    on_lost(problem)
                    return

        self._thread = threading.Thread(target=run, name="rota-lead", daemon=True)
        self._thread.start()

    def heartbeat(self) -> None:
        """Send a heartbeat to the server, and take the lock again if the session was lost. Raise LeadershipLost if another
        process leads."""
        fresh = self._session is None
        try:
            session = self._begin_session()
            found = session.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
            latest = int(found[0]) if found is not None else 0
            if latest != self.epoch:
                raise lead_lost(self.epoch, latest)
            if fresh and not self._take_lock(session):
                self._end_session()  # another process is about to begin an epoch, or the server has not ended our old session yet
                return
            self._held_s = time.monotonic()
        except self._psycopg.Error as problem:
            self._end_session()
            raise fault(self._place, problem) from problem

    def close(self) -> None:
        """Give up the lead, if this process has it."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._session is not None:
            with suppress(self._psycopg.Error):  # unlock now, since the server may take a moment to end a session
                self._session.execute("SELECT pg_advisory_unlock_all()")
        self._end_session()

    def _take_lock(self, session: Any) -> bool:
        return bool(session.execute("SELECT pg_try_advisory_lock(%s)", (self._key,)).fetchone()[0])

    def _begin_session(self) -> Any:
        if self._session is None or self._session.closed:
            self._session = connect(self._place)
            self._session.execute("SELECT set_config('idle_session_timeout', %s, false)", (f"{LEADER_TIMEOUT_SECONDS}s",))
        return self._session

    def _end_session(self) -> None:
        if self._session is not None:
            with suppress(self._psycopg.Error):
                self._session.close()
        self._session = None
