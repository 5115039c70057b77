"""Replies that get lost: a real server behind a connection that is cut."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from rota.errors import ConflictError, SpecError, UnreachableError
from rota.wire import client as module
from rota.wire.address import write_address
from rota.wire.client import Client
from tests.unit.server.standin import Served, serve
from tests.waiting import LONG_SECONDS


class CutLine:
    """Forwards requests, and cuts the line before the answers of the first few."""

    def __init__(self, port: int, cuts: int) -> None:
        self._port, self.cuts, self.requests = port, cuts, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                with line:
                    self._forward(line)

    def _forward(self, line: socket.socket) -> None:
        line.settimeout(30)
        with socket.create_connection(("127.0.0.1", self._port), timeout=LONG_SECONDS) as server:
            request = line.recv(65_536)
            if not request:
                return
            head, _, body = request.partition(b"\r\n\r\n")
            length = [int(each.split(b":")[1]) for each in head.split(b"\r\n") if each.lower().startswith(b"content-length")]
            while length and len(body) < length[0]:
                body += line.recv(65_536)
            self.requests += 1
            server.sendall(head + b"\r\n\r\n" + body)
            answer = b""
            while piece := server.recv(65_536):
                answer += piece
            if self.cuts:
                self.cuts -= 1
            else:
                line.sendall(answer)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(LONG_SECONDS)


@contextlib.contextmanager
def cut(served: Served, cuts: int) -> Iterator[CutLine]:
    line = CutLine(served.port, cuts)
    try:
        yield line
    finally:
        line.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as found:
        yield found


@pytest.mark.parametrize("cuts", [0, 1, 3])
def test_a_submission_whose_answer_is_lost_is_taken_once(served: Served, cuts: int) -> None:
    with cut(served, cuts) as line:
        job = Client(line.url, served.token).submit("python train.py", name="net")
        assert (job.id, job.name) == (1, "net")
        assert line.requests == cuts + 1 and list(served.daemon.rows) == [1]
        assert Client(line.url, served.token).submit("python train.py", name="net").id == 2, "another has a key of its own"


def test_a_refusal_is_not_sent_again(served: Served) -> None:
    with cut(served, 0) as line, pytest.raises(SpecError):
        Client(line.url, served.token).submit("x", gpu=1)
    assert line.requests == 1


def test_a_question_whose_answer_is_lost_is_asked_again(served: Served) -> None:
    with cut(served, 2) as line:
        assert Client(line.url, served.token).jobs() == [] and line.requests == 3
    with cut(served, 3) as line, pytest.raises(UnreachableError, match="connection lost"):
        Client(line.url, served.token).jobs()


def test_a_scheduler_that_is_elsewhere_now_is_found_by_its_home(served: Served) -> None:
    """As a standby that has taken over, or one that was started again on another port."""
    with cut(served, 1) as line:
        write_address(served.home, line.url, 1, "0")
        client = rota.connect(served.home)
        client.on_retry = lambda problem: write_address(served.home, served.url, 1, "0")
        assert client.submit("x").id == 1 and client.url == served.url
        assert line.requests == 1 and list(served.daemon.rows) == [1]


def test_the_same_key_with_another_job_is_a_conflict(served: Served) -> None:
    client = rota.connect(served.home)
    assert client.submit("x", key="k").id == client.submit("x", key="k").id == 1
    with pytest.raises(ConflictError, match="idempotency_key: 'k'"):
        client.submit("y", key="k")
    with pytest.raises(rota.errors.InputError, match="idempotency_key"):
        client.submit("y", key="k" * 300)


def test_a_scheduler_that_is_not_there_is_an_error_at_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda seconds: pytest.fail("it waits"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(UnreachableError, match="connection refused"):
        Client(url, served.token).submit("x")
