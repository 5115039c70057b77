"""Limits on connections, and on the time that a request may take to arrive."""

import json
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rota.server import connections
from rota.server.connections import ConnectionLimits, ConnectionTable, peer_of
from rota.server.repeated_errors import RepeatedErrors
from tests.unit.server.asking import ask, raw
from tests.unit.server.standin import Served, serve
from tests.waiting import LONG_SECONDS, until

HALF = b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
FEW = ConnectionLimits(total=16, per_peer=12, accepts=4)


def half_open(served: Served, sent: bytes = HALF) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", served.port), timeout=LONG_SECONDS)
    line.sendall(sent)
    return line


def is_closed(line: socket.socket) -> bool:
    """Waits for it."""
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True


def test_headers_that_never_end_are_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    for sent in (b"", b"G", HALF):
        with half_open(served, sent) as line:
            assert is_closed(line)


def test_a_header_that_comes_letter_by_letter_is_given_up_too(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    with half_open(served) as line:
        line.settimeout(0.02)
        end, closed = time.monotonic() + LONG_SECONDS, False
        while not closed:
            assert time.monotonic() < end
            try:
                line.sendall(b"x")
                closed = line.recv(1) == b""
            except TimeoutError:
                pass
            except OSError:
                closed = True


def test_the_second_request_of_a_connection_has_the_same_limit(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    with half_open(served, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") as line:
        found = b""
        while b"version" not in found:
            found += line.recv(65_536)
        line.sendall(HALF)
        while line.recv(65_536):
            pass


def test_a_body_that_is_not_read_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the token the answer comes before the body."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)
    with half_open(served, b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n{") as line:
        assert line.recv(65_536).startswith(b"HTTP/1.1 401 ")
        line.sendall(b" ")  # which would have kept it open for another 5 s
        while line.recv(65_536):
            pass


def test_a_request_that_waits_for_its_answer_is_not_given_up(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    assert ask(fresh, "GET", "/api/v1/changes?seen=1&timeout=1")[1] == {"number": 1}


def test_the_oldest_stranger_makes_room(tmp_path: Path) -> None:
    with serve(tmp_path, limits=FEW) as served:
        lines = [half_open(served) for _ in range(60)]
        try:
            assert ask(served, "GET", "/api/v1/jobs")[0] == 200
            for line in lines[:40]:
                assert is_closed(line)
            assert len(served.server.table) <= FEW.per_peer
            assert served.server.table.closed_early >= 40
        finally:
            for line in lines:
                line.close()


def test_a_request_with_the_token_is_not_closed_for_a_stranger(tmp_path: Path) -> None:
    with serve(tmp_path, limits=FEW) as served, ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(ask, served, "GET", "/api/v1/changes?seen=1&timeout=10000") for _ in range(4)]
        until(lambda: len(served.server.table) >= 4 and all(each.at_work for each in served.server.server_state.connections))
        lines = [half_open(served) for _ in range(60)]
        for line in lines[:40]:
            assert is_closed(line)
        assert not any(each.done() for each in waiting)
        assert ask(served, "POST", "/api/v1/jobs", {"spec": {"run": "x"}, "user": "a", "workdir": "/"})[0] == 201
        assert [each.result(timeout=LONG_SECONDS)[1]["number"] for each in waiting] == [2] * 4
        for line in lines:
            line.close()


def test_a_request_with_a_wrong_token_is_a_stranger(tmp_path: Path) -> None:
    """It asks for much and reads nothing, so that its answers wait in the server."""
    with serve(tmp_path, limits=FEW) as served:
        asked = b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n"
        lines = [half_open(served, asked * 20) for _ in range(30)]
        assert ask(served, "GET", "/api/v1/jobs")[0] == 200
        assert len(served.server.table) <= FEW.per_peer
        for line in lines:
            line.close()


class Line:
    """A connection as the table sees it."""

    def __init__(self, table: ConnectionTable, peer: str, at_work: bool = False) -> None:
        self.table, self.peer, self.at_work, self.dropped = table, peer, at_work, False
        table.add(self, peer)  # type: ignore[arg-type]

    def drop(self) -> None:
        self.dropped = True
        self.table.remove(self, self.peer)  # type: ignore[arg-type]


def test_the_peer_with_the_most_connections_loses_one() -> None:
    table = ConnectionTable(ConnectionLimits(total=10, per_peer=8, accepts=4))
    quiet = [Line(table, "10.0.0.1") for _ in range(2)]
    loud = [Line(table, "10.0.0.2") for _ in range(30)]
    assert [line.dropped for line in quiet] == [False] * 2 and len(table) == 10
    assert [line.dropped for line in loud] == [True] * 22 + [False] * 8
    third = Line(table, "10.0.0.3")
    assert not third.dropped and loud[22].dropped and len(table) == 10


def test_if_all_are_at_work_the_new_one_goes() -> None:
    table = ConnectionTable(ConnectionLimits(total=4, per_peer=4, accepts=4))
    workers = [Line(table, "loopback", at_work=True) for _ in range(4)]
    late = Line(table, "loopback")
    assert late.dropped and not any(line.dropped for line in workers)
    workers[2].at_work = False
    assert not Line(table, "loopback").dropped and workers[2].dropped
    table.remove(workers[2], "loopback")  # type: ignore[arg-type]
    assert len(table) == 4


@pytest.mark.parametrize(("files", "total"), [(20, 16), (256, 64), (1024, 448), (20_000, 1024), (1 << 20, 1024)])
def test_limits_leave_files_for_the_scheduler(files: int, total: int) -> None:
    limits = ConnectionLimits.under(files)
    assert limits.total == total and 0 < limits.per_peer < limits.total
    assert files < 256 or limits.total + 3 * limits.accepts <= files - connections.RESERVED_FILES


class Transport:
    """What an address is read from."""

    def __init__(self, name: object) -> None:
        self.facts = {"peername": name}

    def get_extra_info(self, what: str) -> object:
        return self.facts.get(what)


def test_all_loopback_addresses_are_one_peer() -> None:
    for name in (("127.0.0.1", 5), ("127.8.8.8", 5), ("::1", 5, 0, 0), ("::ffff:127.0.0.1", 5, 0, 0)):
        assert peer_of(Transport(name)) == "loopback"  # type: ignore[arg-type]
    assert peer_of(Transport(("::ffff:10.0.0.1", 5, 0, 0))) == "10.0.0.1"  # type: ignore[arg-type]
    assert peer_of(Transport(None)) == ""  # type: ignore[arg-type]


def test_of_a_socket_that_is_a_file_users_are_peers(tmp_path: Path) -> None:
    with serve(tmp_path, unix=True) as served, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(served.url.removeprefix("unix:"))
        end = time.monotonic() + LONG_SECONDS
        while not len(served.server.table):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert list(served.server.table._by_peer) == [tmp_path.stat().st_uid]


def test_what_a_server_is_asked_badly_is_logged_once(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(200):
        raw(served, b"nonsense\r\n\r\n")
    assert sum("Invalid HTTP request" in record.message for record in caplog.records) <= 1


def test_repeated_errors_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    counted, log = RepeatedErrors(), logging.getLogger("rota.test")
    log.addFilter(counted)
    try:
        for number in range(500):
            try:
                raise OSError(24, "Too many open files")
            except OSError:
                log.exception("accept failed\nsocket number %d", number)
        log.error("another")
        assert [record.message.partition("\n")[0] for record in caplog.records] == ["accept failed", "another"]
        caplog.clear()
        counted.log_counts(60.0)
        assert caplog.records == [], "not before a minute has passed"
        counted.log_counts(0.0)
        (told,) = (record.message for record in caplog.records)
        assert told == "again times=499 accept failed (OSError: [Errno 24] Too many open files)"
        counted.log_counts(0.0)
        log.error("another")
        assert len(caplog.records) == 2, "what stopped is logged in full when it comes again"
    finally:
        log.removeFilter(counted)


def test_kinds_without_end_are_one_kind(caplog: pytest.LogCaptureFixture) -> None:
    counted = RepeatedErrors()
    passed = [counted.filter(logging.makeLogRecord({"msg": f"problem {number}"})) for number in range(5000)]
    assert sum(passed) <= 201


def test_a_flood_leaves_threads_for_others(tmp_path: Path) -> None:
    """Whoever has no token takes no thread of those that answer."""
    with serve(tmp_path, limits=FEW) as served:
        before = threading.active_count()
        for _ in range(50):
            assert json.loads(raw(served, HALF + b"\r\nConnection: close\r\n\r\n").split(b"\r\n\r\n", 1)[1])["error"]
        assert threading.active_count() == before
