"""HTTP to a scheduler: one question, one connection, one answer as plain data; whatever goes wrong is a RotaError.

Only the standard library is used, so that a command that asks one question starts at once.
"""

import http.client
import json
import os
import socket
from collections.abc import Mapping
from datetime import date
from typing import Any
from urllib.parse import urlencode, urlsplit

from rota.errors import OptionError, RotaError, UnreachableError
from rota.wire.problems import LARGEST_BODY_BYTES, heard

ANSWER_SECONDS = 30.0


class Busy(RotaError):
    """The scheduler has as many waiting clients as it takes."""


class HttpTransport:
    """Holds no connection, so threads may share it and nothing needs to be closed."""

    def __init__(self, url: str, token: str, *, home: str, answer_seconds: float) -> None:
        self.url, self.home, self.answer_seconds = url, home, answer_seconds
        self._token = token

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        more_seconds: float = 0.0,
        most_bytes: int = LARGEST_BODY_BYTES,
    ) -> Any:
        """`more_seconds`: how much longer than usual the answer may take; `most_bytes`: the size of a body that is taken."""
        data = _packed(body, most_bytes) if method == "POST" else None
        target = f"/api/v1{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", "Connection": "close"}
        connection = self._connection(self.answer_seconds + more_seconds)
        reached = False
        try:
            connection.connect()
            reached = True
            connection.request(method, target, data, headers)
            answer = connection.getresponse()
            status, text, version = answer.status, answer.read(), answer.getheader("Rota-Version")
        except (OSError, http.client.HTTPException) as problem:
            raise self._unreachable(problem, unsure=reached and method == "POST") from None
        finally:
            connection.close()
        if version is None:
            raise UnreachableError(
                f"What answers at {self.url} is not Rota.", hint="rota up, with another --listen · rota doctor"
            )
        return self._answer(status, text)

    def _answer(self, status: int, text: bytes) -> Any:
        try:
            plain = json.loads(text)
        except ValueError:
            raise RotaError(f"The scheduler's answer ({status}) cannot be read.", hint="its own output") from None
        if status < 300:
            return plain
        if status == 401:
            whose = f"The token in {self.home}" if self.home else "This token"
            raise UnreachableError(
                f"{whose} does not fit this scheduler ({self.url}).",
                hint="--home with the home that rota up was started with · rota doctor",
            )
        error = heard(plain if isinstance(plain, dict) else {})
        raise Busy(error.message, hint=error.hint) if status == 503 else error

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        if self.url.startswith("unix:"):
            return _Unix(self.url.removeprefix("unix:"), seconds)
        try:
            parts = urlsplit(self.url)
            return http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=seconds)
        except (ValueError, http.client.InvalidURL):
            raise UnreachableError(f"{self.url} is not the address of a scheduler.", hint="http://127.0.0.1:7070") from None

    def _unreachable(self, problem: Exception, *, unsure: bool) -> UnreachableError:
        if isinstance(problem, ConnectionRefusedError):
            why = "connection refused"
        elif isinstance(problem, TimeoutError):
            why = "no answer in time"
        elif isinstance(problem, ConnectionError):
            why = "connection lost"
        elif isinstance(problem, FileNotFoundError):
            why = "no such socket"
        elif isinstance(problem, http.client.HTTPException):
            why = "what answers does not speak HTTP"
        else:
            why = (getattr(problem, "strerror", None) or str(problem)).lower()
        if unsure:
            return UnreachableError(
                f"The scheduler at {self.url} did not answer ({why}); it may have done what was asked.", hint="rota jobs --all"
            )
        return UnreachableError(f"Cannot reach the scheduler at {self.url} ({why}).", hint="rota up · rota doctor")


class _Unix(http.client.HTTPConnection):
    """HTTP through a socket that is a file."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _packed(body: Any, most_bytes: int) -> bytes:
    try:
        data = json.dumps(body, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError) as problem:
        raise OptionError(f"cannot be sent: {problem}.", field="spec", hint="plain text, numbers, lists and mappings") from None
    if len(data) > most_bytes:
        raise OptionError(
            f"is {len(data):,} bytes; the scheduler takes {most_bytes:,}.",
            field="spec",
            hint="put long commands into a script",
        )
    return data


def _plain(value: object) -> str:
    """Times and paths travel as text."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise TypeError(f"{type(value).__name__} is not plain data")
