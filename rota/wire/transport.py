"""HTTP requests to a scheduler: one connection each, with plain data as the response. Every failure raises a RotaError.

Only the standard library is used, so that a command that sends one request starts fast.
"""

import contextlib
import http.client
import json
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from rota.errors import OptionError, RotaError, UnreachableError
from rota.wire.problems import MAX_BODY_BYTES, decode_error

ANSWER_SECONDS = 30.0


LOST_TRIES, LOST_PAUSE_SECONDS = 3, 0.1
"""Number of tries of a request whose connection is lost. A scheduler closes connections when strangers open too many."""


class UnansweredError(UnreachableError):
    """A request was sent and not answered, so the scheduler may have carried it out."""


class HttpTransport:
    """Requests to one scheduler. No connection is kept, so threads may share it and nothing needs closing."""

    def __init__(
        self, urls: Sequence[str], token: str | None, *, home: str, answer_seconds: float, ca_file: str | None = None
    ) -> None:
        """`urls`: addresses of schedulers of which one is leader. `token`: None if the scheduler knows this user by the Unix
        socket. `ca_file`: certificates of the authority that signed the scheduler's; None for those of the system."""
        self.url, self.home, self.answer_seconds = urls[0], home, answer_seconds
        """`url`: the address that answered last."""
        self._urls, self._token, self._ca_file = tuple(urls), token, ca_file

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        more_seconds: float = 0.0,
        most_bytes: int = MAX_BODY_BYTES,
    ) -> Any:
        """Send a request and return its response. `more_seconds` is added to the time limit; `most_bytes` is the largest body. A
        request that changes something is sent once."""
        data = _packed(body, most_bytes) if method != "GET" else None
        target = f"/api/v1{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        tries = LOST_TRIES if method == "GET" else 1
        for left in reversed(range(tries)):
            try:
                status, text, version = self._reach(method, target, data, headers, self.answer_seconds + more_seconds)
                break
            except UnansweredError as problem:
                if left == 0 or not isinstance(problem.__cause__, ConnectionError):
                    raise problem from None
                time.sleep(LOST_PAUSE_SECONDS)
        if version is None:
            raise UnreachableError(
                f"What answers at {self.url} is not Rota.", hint="rota up, with another --listen · rota doctor"
            )
        return self._answer(status, text)

    def _reach(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> tuple[int, bytes, str | None]:
        """Send a request to the first address at which a scheduler answers, beginning with the last that did."""
        others = [url for url in self._urls if url != self.url]
        for url in (self.url, *others):
            self.url = url
            try:
                return self._exchange(method, target, data, headers, seconds)
            except UnansweredError:
                raise
            except UnreachableError:
                if url == [self.url, *others][-1]:
                    raise
        raise AssertionError("there is an address")

    def _exchange(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> tuple[int, bytes, str | None]:
        """Return the status, the body and the version of the response."""
        connection = self._connection(seconds)
        reached = False
        try:
            connection.connect()
            reached = True
            # A scheduler may refuse a request before all of it has come. Its answer is there.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.getheader("Rota-Version")
        except (OSError, http.client.HTTPException) as problem:
            raise self._unreachable(problem, reached=reached, changes=method != "GET") from problem
        finally:
            connection.close()

    def _answer(self, status: int, text: bytes) -> Any:
        try:
            plain = json.loads(text)
        except ValueError:
            raise RotaError(f"The scheduler's response ({status}) cannot be read.", hint="its own output") from None
        if status < 300:
            return plain
        if status == 401:
            whose = f"The token in {self.home}" if self.home else "This token"
            raise UnreachableError(
                f"{whose} does not fit this scheduler ({self.url}).",
                hint="--home with the home that rota up was started with · rota doctor",
            )
        raise decode_error(plain if isinstance(plain, dict) else {})

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        if self.url.startswith("unix:"):
            return _Unix(self.url.removeprefix("unix:"), seconds)
        try:
            parts = urlsplit(self.url)
            if parts.scheme == "https":
                return _tls_connection(parts.hostname or "", parts.port or 443, seconds, self._ca_file)
            return http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=seconds)
        except (ValueError, http.client.InvalidURL):
            raise UnreachableError(f"{self.url} is not the address of a scheduler.", hint="http://127.0.0.1:7070") from None

    def _unreachable(self, problem: Exception, *, reached: bool, changes: bool) -> UnreachableError:
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
        if reached and changes:
            return UnansweredError(
                f"The scheduler at {self.url} did not answer ({why}); it may have carried out the request.",
                hint="rota jobs --all",
            )
        if type(problem).__name__ == "SSLCertVerificationError":  # `ssl` is loaded only for TLS
            hint = "ROTA_CA_FILE=FILE with the certificates of your authority; the address must have the certificate's name"
            return UnreachableError(f"Cannot trust the scheduler at {self.url} (certificate: {why}).", hint=hint)
        kind = UnansweredError if reached else UnreachableError
        return kind(f"Cannot reach the scheduler at {self.url} ({why}).", hint="rota up · rota doctor")


def _tls_connection(host: str, port: int, seconds: float, ca_file: str | None) -> http.client.HTTPSConnection:
    import ssl

    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as problem:
        why = getattr(problem, "strerror", None) or "has no certificates"
        raise OptionError(f"{why}.", field="ROTA_CA_FILE", value=ca_file, hint="the PEM file of your authority") from None
    return http.client.HTTPSConnection(host, port, timeout=seconds, context=context)


class _Unix(http.client.HTTPConnection):
    """HTTP through a unix socket."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        path = Path(self._path)
        folder = os.open(path.parent, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # through the open folder, since an address holds 107 bytes and a path may be longer
            self.sock.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        _, uid, _ = struct.unpack("3i", self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        if uid not in (os.geteuid(), 0) and os.geteuid() != 0:  # a process of another user must not get the token
            raise ConnectionRefusedError


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
    """Convert times and paths to text."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise TypeError(f"{type(value).__name__} is not plain data")
