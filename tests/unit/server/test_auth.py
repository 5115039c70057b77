"""Access control: the token, the host name, and the size of requests."""

import asyncio
import contextlib
import json
import select
import socket
from pathlib import Path

import pytest

from rota.errors import OptionError
from rota.server import auth
from rota.server.auth import BODY_SECONDS
from rota.server.http_api import make_app
from rota.server.identities import Identities
from rota.server.users_file import set_user
from rota.wire.actor import Role
from rota.wire.problems import MAX_BODY_BYTES, MAX_SEVERAL_BYTES
from tests.unit.server.asking import ask, raw, submission
from tests.unit.server.standin import Served, Standin, serve
from tests.waiting import LONG_SECONDS, until


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong-wrong-wrong-wrong",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer x{token}",
        "Bearer tökén",
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/openapi.json", "/api/v1/nothing", "/api/v1"])
def test_without_the_token_nothing_is_told(served: Served, path: str, header: str | None) -> None:
    line = "" if header is None else f"Authorization: {header.format(token=served.token)}\r\n"
    found = raw(served, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{line}\r\n".encode())
    assert found.startswith(b"HTTP/1.1 401 "), found
    assert b"www-authenticate: bearer" in found.lower() and served.token.encode() not in found
    assert json.loads(found.split(b"\r\n\r\n", 1)[1])["error"] == "The token is missing or wrong."


def test_two_tokens_are_none(served: Served) -> None:
    line = f"Authorization: Bearer {served.token}\r\n"
    found = raw(served, f"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{line}{line}\r\n".encode())
    assert found.startswith(b"HTTP/1.1 401 ")


def test_the_token_may_be_given_in_small_letters(served: Served) -> None:
    assert ask(served, "GET", "/api/v1/jobs", headers={"Authorization": f"bearer {served.token}"})[0] == 200


def test_a_short_token_protects_nothing() -> None:
    with pytest.raises(OptionError, match="shorter than 16"):
        Identities("")


@pytest.mark.parametrize(
    ("known", "length", "read"),
    [(True, 7, 3), (True, MAX_BODY_BYTES + 1, 0), (False, 7, 0)],
    ids=["viewer", "too-large", "stranger"],
)
def test_the_body_of_a_viewer_is_read_before_the_request_is_refused(tmp_path: Path, known: bool, length: int, read: int) -> None:
    """A client that is still sending when the connection closes would not see the answer."""
    token = set_user(tmp_path, "wall", Role.VIEWER, token=True)
    parts, order = [b"abc", b"def", b"g"], []

    async def receive() -> dict[str, object]:
        order.append("read")
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: dict[str, object]) -> None:
        order.append(str(message.get("status", "body")))

    guard = auth.RequestGuard(send, identities=Identities("x" * 16, tmp_path), allowed_hosts=())
    headers = [(b"host", b"localhost"), (b"content-length", str(length).encode())]
    headers += [(b"authorization", f"Bearer {token}".encode())] if known else []
    asyncio.run(guard({"type": "http", "method": "POST", "path": "/api/v1/jobs", "headers": headers}, receive, send))
    assert order == [*["read"] * read, "403" if known else "401", "body"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:7070", "127.9.9.9", "[::1]", "[::1]:7070"])
def test_names_of_this_machine_are_answered(served: Served, host: str) -> None:
    assert ask(served, "GET", "/healthz", headers={"Host": host})[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7070",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "[::2]",
        "",
        "a b",
        "@",
    ],
)
def test_other_names_are_not(served: Served, host: str) -> None:
    for path in ("/healthz", "/api/v1/jobs"):
        assert ask(served, "GET", path, headers={"Host": host})[0] in (400, 421)


def test_two_host_names_are_none(served: Served) -> None:
    found = raw(served, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    assert found.split()[1] in (b"400", b"421")


def test_a_name_of_this_machine_may_be_added() -> None:
    guard = auth.RequestGuard(
        make_app(Standin(), Identities("x" * 20)), identities=Identities("x" * 20), allowed_hosts=["Node7.lab"]
    )
    assert guard._is_here(["node7.lab:7070"]) and not guard._is_here(["node8.lab"])


def test_a_body_that_is_too_large_is_not_read(served: Served) -> None:
    status, found, _ = ask(served, "POST", "/api/v1/jobs", headers={"Content-Length": str(MAX_BODY_BYTES + 1)})
    assert status == 413 and "1,000,000" in found["error"]
    status, found, _ = ask(served, "POST", "/api/v1/jobs", submission(run="x" * (MAX_BODY_BYTES - 300)))
    assert status == 201


def test_nor_one_that_comes_in_chunks(served: Served) -> None:
    head = (
        "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {served.token}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=LONG_SECONDS) as line:
        line.sendall(head.encode())
        sent = 0
        try:
            while sent < 40:
                line.sendall(chunk)
                sent += 1
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            found = line.recv(65_536)
        except ConnectionResetError:
            found = b""
    # A server that has answered and hung up may have its answer lost on the way; it must not have read all.
    assert found.startswith(b"HTTP/1.1 413 ") or sent < 40
    assert served.daemon.rows == {}


def test_a_body_that_never_comes_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "BODY_SECONDS", 0.2)
    head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\nContent-Length: 9\r\n\r\n{{"
    assert raw(served, head.encode()).startswith(b"HTTP/1.1 408 ")


def test_a_user_cannot_fill_the_memory_with_requests_that_do_not_end(served: Served) -> None:
    """A few are read at once. When they are gone, others are read."""
    head = f"POST /api/v1/submissions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n"
    sent = f"{head}Content-Length: {MAX_SEVERAL_BYTES}\r\n\r\n".encode() + b"x" * (MAX_SEVERAL_BYTES - 1)
    with contextlib.ExitStack() as opened:
        lines = [opened.enter_context(socket.create_connection(("127.0.0.1", served.port), LONG_SECONDS)) for _ in range(6)]
        for line in lines:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                line.sendall(sent)
        refused, _, _ = select.select(lines, [], [], BODY_SECONDS / 2)
        assert refused, "no request is refused"
        assert ask(served, "GET", "/api/v1/jobs")[0] == 200, "requests without a body are served"
    until(lambda: ask(served, "POST", "/api/v1/jobs", submission(run="true"))[0] == 201, "there is room again")


@pytest.mark.parametrize(
    ("header", "status"),
    [("", 200), ("Authorization: Bearer wrong-wrong-wrong-wrong\r\n", 401)],
)
def test_the_owner_of_a_socket_needs_no_token_and_no_host_name(tmp_path: Path, header: str, status: int) -> None:
    with serve(tmp_path, unix=True) as served, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(30)
        line.connect(served.url.removeprefix("unix:"))
        line.sendall(f"GET /api/v1/jobs HTTP/1.1\r\nHost: rota\r\nConnection: close\r\n{header}\r\n".encode())
        assert line.recv(65_536).startswith(f"HTTP/1.1 {status} ".encode())
