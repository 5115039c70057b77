"""HTTP requests as a library sends them, and malformed ones."""

import http.client
import json
import socket
from typing import Any

from tests.unit.server.standin import Served
from tests.waiting import LONG_SECONDS


def ask(
    served: Served,
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: dict[str, str] | None = None,
    token: str | None = None,
) -> tuple[int, Any, dict[str, str]]:
    """Status, JSON and headers."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=LONG_SECONDS)
    try:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {"Authorization": f"Bearer {served.token if token is None else token}"} | (headers or {})
        connection.request(method, path, data, given)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def raw(served: Served, request: bytes) -> bytes:
    """What comes back for bytes that no library would send."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=LONG_SECONDS) as line:
        line.sendall(request)
        found = b""
        try:
            while piece := line.recv(65_536):
                found += piece
        except ConnectionResetError:
            pass
        return found


def submission(**spec: Any) -> dict[str, Any]:
    return {"spec": {"run": "python train.py", **spec}, "user": "ana", "workdir": "/home/ana", "env": {"PATH": "/usr/bin"}}


def submit(served: Served, **spec: Any) -> int:
    status, row, _ = ask(served, "POST", "/api/v1/jobs", submission(**spec))
    assert status == 201, row
    return int(row["id"])
