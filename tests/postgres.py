"""A PostgreSQL server of a test's own: in a folder of its own, on a socket in that folder, gone with the test."""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.live.journal_place import PostgresLocation

START_SECONDS = 120.0
SETTINGS = ("listen_addresses=", "fsync=on", "max_connections=60", "shared_buffers=16MB", "autovacuum=off")


def programs() -> Path | None:
    """The folder with PostgreSQL's programs; None: there is none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    for name in ("initdb", "pg_ctl"):
        if found := shutil.which(name):
            folders.append(Path(found).parent)
    return next((folder for folder in folders if (folder / "postgres").exists() and (folder / "initdb").exists()), None)


class PostgresServer:
    """Started, killed and started again by tests. Everything is in a short path, since the name of a socket is limited."""

    def __init__(self) -> None:
        found = programs()
        assert found is not None
        self._programs = found
        self._as: list[str] = []
        """How a command is run: PostgreSQL refuses to be root."""
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self._data = self.folder / "data"
        if os.geteuid() == 0:
            user = _unprivileged()
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self._run("initdb", "-D", str(self._data), "-U", "rota", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://rota@/postgres?host={self.folder}"

    def place(self) -> PostgresLocation:
        """A schema that no other test has."""
        return PostgresLocation(self.url, f"rota_{secrets.token_hex(4)}")

    def start(self) -> None:
        options = " ".join(f"-c {each}" for each in (*SETTINGS, f"unix_socket_directories={self.folder}"))
        words = ["-w", "-t", str(int(START_SECONDS)), "-l", str(self.folder / "log"), "-o", options]
        self._run("pg_ctl", "start", "-D", str(self._data), *words)

    def crash(self) -> None:
        """As a power cut does: what was not flushed is lost, and the next start recovers."""
        self._run("pg_ctl", "stop", "-w", "-t", str(int(START_SECONDS)), "-m", "immediate", "-D", str(self._data))

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((self._data / "postmaster.pid").read_text().split()[0])
            os.kill(pid, signal.SIGQUIT)
            end = time.monotonic() + START_SECONDS
            while (self._data / "postmaster.pid").exists() and time.monotonic() < end:
                time.sleep(0.02)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *words: str) -> None:
        with (self.folder / "said").open("ab") as said:  # not a pipe: the server would keep it open
            done = subprocess.run(
                [*self._as, str(self._programs / program), *words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd="/",
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
                timeout=START_SECONDS,
                check=False,
            )
        assert done.returncode == 0, (self.folder / "said").read_text(errors="replace")

    def ask_for_password(self, user: str, password: str) -> None:
        """From now on this user, who is made here, needs a password."""
        self.query(f"CREATE ROLE {user} LOGIN SUPERUSER PASSWORD '{password}'")
        path = self._data / "pg_hba.conf"
        path.write_text(f"local all {user} scram-sha-256\n" + path.read_text())
        self.query("SELECT pg_reload_conf()")

    def query(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """As an administrator."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    pytest.skip("PostgreSQL refuses to be root, and there is no other user")


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Skips the test, with the reason, where it cannot be had."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: make install-postgres")
    if programs() is None:
        pytest.skip("no PostgreSQL server is installed: make install-postgres")
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL refuses to be root, and there is no setpriv to become another user")
    made = PostgresServer()
    try:
        yield made
    finally:
        made.close()
