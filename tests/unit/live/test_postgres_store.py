"""A journal in PostgreSQL while its server goes away, and while replies get lost."""

import contextlib
import select
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.errors import JournalError, OptionError
from rota.live.election import Election
from rota.live.journal_place import PostgresLocation, has_journal, open_journal
from rota.live.journal_store import JournalUnavailable, LeadershipLost
from tests.postgres import PostgresServer, postgres_server
from tests.unit.live.test_journal import WORDS, fill, same, turn

SOCKET = ".s.PGSQL.5432"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as made:
        yield made


class Cut:
    """Between a client and the server. On command it cuts the connection at the next COMMIT: before the server has it, or after
    the server has answered."""

    def __init__(self, server: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cut-", dir="/tmp"))
        self._server = server / SOCKET
        self.cut: str = ""
        """`before` or `after`; empty: not now."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / SOCKET))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self._threads.append(threading.Thread(target=self._carry, args=(client,), daemon=True))
                self._threads[-1].start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            server.connect(str(self._server))
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    if ready is client and self.cut and b"COMMIT" in data:
                        after, self.cut = self.cut == "after", ""
                        if after:
                            server.sendall(data)
                            server.recv(1 << 16)  # it has committed
                        return
                    (server if ready is client else client).sendall(data)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(60.0)
            assert not thread.is_alive()
        shutil.rmtree(self.folder)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_entry_whose_commit_was_not_answered_is_written_once(server: PostgresServer, when: str) -> None:
    place = server.place()
    with contextlib.closing(Election(place)) as election, contextlib.closing(Cut(server.folder)) as cut:
        assert election.try_to_lead()
        far = PostgresLocation(f"postgresql://rota@/postgres?host={cut.folder}", place.schema)
        with contextlib.closing(open_journal(far, WORDS, election.epoch)) as journal:
            fill(journal, 1, 2)
            cut.cut = when
            with pytest.raises(JournalUnavailable):
                fill(journal, 3, 3)
            with contextlib.closing(open_journal(place, WORDS)) as other:
                assert other.last == (3 if when == "after" else 2)
            fill(journal, 3, 5)
            assert [same(entry, i) for i, entry in enumerate(journal.entries(), 1)] == [True] * 5
            assert [job for job, _, _ in journal.jobs()] == [1, 2, 3, 4, 5]
            assert sorted(job for job, _, _ in journal.records([5, 2, 9])) == [2, 5]


def test_a_former_leader_cannot_write_what_is_in_doubt(server: PostgresServer) -> None:
    place = server.place()
    first, second = Election(place), Election(place)
    with contextlib.closing(first), contextlib.closing(second), contextlib.closing(Cut(server.folder)) as cut:
        assert first.try_to_lead() and not second.try_to_lead()
        far = PostgresLocation(f"postgresql://rota@/postgres?host={cut.folder}", place.schema)
        with contextlib.closing(open_journal(far, WORDS, first.epoch)) as journal:
            fill(journal, 1, 1)
            cut.cut = "after"
            with pytest.raises(JournalUnavailable):
                fill(journal, 2, 2)
            first.close()
            assert second.try_to_lead()
            with contextlib.closing(open_journal(place, WORDS, second.epoch)) as other:
                fill(other, 3, 3)
                assert [entry.now_s for entry in other.entries()] == [1.0, 2.0, 3.0]
            for _ in range(2):
                with pytest.raises(LeadershipLost, match="another leads epoch 2"):
                    fill(journal, 2, 2)
            assert [entry.now_s for entry in journal.entries()] == [1.0, 2.0, 3.0], "it may still read"


def test_a_server_that_crashed_and_came_back(server: PostgresServer) -> None:
    place = server.place()
    with contextlib.closing(Election(place)) as election:
        assert election.try_to_lead()
        journal = open_journal(place, WORDS, election.epoch)
        fill(journal, 1, 3)
        server.crash()
        for _ in range(2):
            with pytest.raises(JournalUnavailable, match="cannot be reached"):
                journal.append(*turn(4))
            with pytest.raises(JournalUnavailable, match="cannot be reached"):
                journal.configuration()
            with pytest.raises(JournalUnavailable):
                election.heartbeat()
        server.start()
        fill(journal, 4, 5)
        election.heartbeat()
        assert election.is_led(), "the lock is held again, in the same epoch"
        assert [same(entry, i) for i, entry in enumerate(journal.entries(), 1)] == [True] * 5
        server.crash()
        server.start()
        assert journal.last == 5 and len(list(journal.entries())) == 5, "reading connects again by itself"
        journal.close()


def test_who_does_not_lead_may_read_alone(server: PostgresServer) -> None:
    place = server.place()
    assert not has_journal(place)
    with pytest.raises(JournalError, match="not a journal of Rota's"):
        open_journal(place, WORDS)
    with contextlib.closing(Election(place)) as election:
        assert election.try_to_lead() and has_journal(place)
        with contextlib.closing(open_journal(place, WORDS)) as journal, pytest.raises(JournalError, match="reading only"):
            fill(journal, 1, 1)
        server.query(f"UPDATE {place.schema}.meta SET value = '99' WHERE key = 'schema'")
        with pytest.raises(JournalError, match="schema 99"):
            open_journal(place, WORDS)


def test_homes_that_share_a_database(server: PostgresServer) -> None:
    elections = [Election(server.place()) for _ in range(2)]
    for number, election in enumerate(elections):
        assert election.try_to_lead() and election.epoch == 1
        with contextlib.closing(open_journal(election._place, WORDS, 1)) as journal:
            fill(journal, 1, number)
            assert journal.last == number
    for election in elections:
        election.close()


def test_a_journal_is_flushed_whatever_the_server_says(server: PostgresServer) -> None:
    place = server.place()
    with contextlib.closing(Election(place)) as election:
        assert election.try_to_lead()
        for said, used in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
            url = f"{place.url}&options=-csynchronous_commit%3D{said}"
            with contextlib.closing(open_journal(PostgresLocation(url, place.schema), WORDS)) as journal:
                assert journal._store.rows("SHOW synchronous_commit") == [(used,)]


def test_a_password_comes_from_the_environment(server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGPASSWORD", "PGPASSFILE", "ROTA_JOURNAL"):
        monkeypatch.delenv(name, raising=False)
    server.ask_for_password("guarded", "s3cret/x")
    url = server.url.replace("rota@", "guarded@")
    place = PostgresLocation(url, server.place().schema)
    end = time.monotonic() + 60.0
    while True:  # the server reads its rules again in a moment
        with contextlib.suppress(JournalUnavailable), contextlib.closing(Election(place)) as election:
            election.try_to_lead()
            assert time.monotonic() < end
            continue
        break
    with pytest.raises(JournalUnavailable) as told:
        open_journal(place, WORDS)
    assert "password" in told.value.message and "ROTA_JOURNAL" in told.value.hint
    monkeypatch.setenv("ROTA_JOURNAL", url.replace("guarded@", "guarded:wrong@"))
    with pytest.raises(JournalUnavailable) as told:
        open_journal(place, WORDS)
    assert "wrong" not in told.value.message + told.value.hint
    monkeypatch.setenv("ROTA_JOURNAL", url.replace("guarded@", "guarded:s3cret%2Fx@"))
    with contextlib.closing(Election(place)) as election:
        assert election.try_to_lead()
        with contextlib.closing(open_journal(place, WORDS, election.epoch)) as journal:
            fill(journal, 1, 1)
            assert "cret" not in journal.name


def test_a_missing_driver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(OptionError, match="psycopg") as told:
        open_journal(PostgresLocation("postgresql://h/d", "rota_x"), WORDS)
    assert told.value.hint == "pip install 'rota-scheduler[postgres]'"


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(JournalUnavailable, match="cannot be reached"):
        open_journal(PostgresLocation(f"postgresql://rota@/d?host={tmp_path}", "rota_x"), WORDS)
