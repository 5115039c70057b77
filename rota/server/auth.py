"""The guard in front of the server: it checks the host name, the user and the size of each request.

A request over plain TCP must name this machine as its host, because a page of another site can make a browser send requests here
under that site's name. Over TLS the certificate prevents that. The API also needs a user, known by a token or by the Unix user at
the other end of a Unix socket. A body that is too large is not read.
"""

import asyncio
import contextlib
import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, MutableMapping
from dataclasses import replace
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.errors import BusyError, ForbiddenError, RotaError
from rota.server.answers import HEADERS, HttpError
from rota.server.identities import Identities
from rota.wire.actor import Actor
from rota.wire.problems import MAX_BODY_BYTES, MAX_SEVERAL_BYTES

API = "/api/v1"
BODY_SECONDS = 30.0
"""Time limit for a client to send the body of its request, in seconds."""
REFUSED_BODY_SECONDS = 2.0
"""Time limit for the body of a request that is refused, in seconds."""
MAX_HELD_BYTES = 4 * MAX_SEVERAL_BYTES
"""Maximum size of all requests of one user that are read or served at once, in bytes. They are in the scheduler's memory."""
ACTOR = "rota.actor"
"""Key in the scope of a request whose user is known."""
UNIX_PEER = "unix-user:"
"""Prefix of the client's host in the scope of a request through a Unix socket. The number of the Unix user follows."""
_LATER = "the same again, when they have been answered"
_READING = ("GET", "HEAD", "OPTIONS")

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", re.ASCII)


class HeldBytes:
    """Bytes of requests in memory, by user. Used in one event loop."""

    def __init__(self) -> None:
        self._by_user = Counter[str]()

    @contextlib.contextmanager
    def of(self, user: str) -> Iterator[Callable[[int], None]]:
        """Give a function that counts bytes of one request, and raises HttpError if its user has too many. They are given back
        when the request has been served."""
        held = 0

        def take(count: int) -> None:
            nonlocal held
            if self._by_user[user] + count > MAX_HELD_BYTES:
                error = BusyError(f"Your requests that have no answer yet have more than {MAX_HELD_BYTES:,} bytes.", hint=_LATER)
                raise HttpError(error, 503, {"Connection": "close"})
            held += count
            self._by_user[user] += count

        try:
            yield take
        finally:
            self._by_user[user] -= held
            if not self._by_user[user]:
                del self._by_user[user]


class RequestGuard:
    """Middleware that passes on only requests that are allowed."""

    def __init__(self, app: ASGIApp, *, identities: Identities, allowed_hosts: Collection[str], hide_names: bool = False) -> None:
        """`hide_names`: whether users do not see the names of other users' jobs."""
        self._app, self._identities, self._hide_names = app, identities, hide_names
        self._hosts = {name.lower() for name in allowed_hosts} | {"localhost"}
        self._held = HeldBytes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.ExitStack() as served:
            try:
                try:
                    self._check(scope)
                except HttpError:
                    if ACTOR in scope:  # the body of a stranger is not read
                        await _discard(scope, receive)
                    raise
                user = scope[ACTOR].name if ACTOR in scope else ""
                body = await _whole(scope, receive, served.enter_context(self._held.of(user)))
            except HttpError as refusal:
                await refusal.answer()(scope, receive, send)
            else:
                if body is not None:
                    await self._app(scope, _again(body, receive), _signed(send))

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        checks_host = scope.get("scheme") != "https" and not _through_a_file(scope)
        if checks_host and not self._is_here(headers.getlist("host")):
            error = RotaError("This scheduler does not answer to that host name.", hint="http://127.0.0.1, http://localhost")
            raise HttpError(error, 421)
        path: str = scope["path"]
        actor = self._actor(scope, headers.getlist("authorization"))
        if actor is not None:
            scope[ACTOR] = replace(actor, names_hidden=True) if self._hide_names else actor
            if scope["method"] not in _READING:
                try:
                    actor.check_user()
                except ForbiddenError as refusal:
                    raise HttpError(refusal, 403) from None
        elif path == API or path.startswith(API + "/"):
            error = RotaError("The token is missing or wrong.", hint="Authorization: Bearer, with the token in the home")
            raise HttpError(error, 401, {"WWW-Authenticate": "Bearer"})

    def _is_here(self, hosts: list[str]) -> bool:
        found = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        if found is None:
            return False
        name = found[1].strip("[]")
        try:
            return name in self._hosts or ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _actor(self, scope: Scope, given: list[str]) -> Actor | None:
        """Return who sent a request: the user of its token, or without a token the Unix user at the other end of the socket."""
        if not given:
            uid = unix_peer(scope)
            return None if uid is None else self._identities.by_uid(uid)
        if len(given) != 1:
            return None
        scheme, _, token = given[0].partition(" ")
        # Headers are decoded as Latin-1, so encoding them as Latin-1 returns the bytes that were sent.
        return self._identities.by_token(token.strip().encode("latin-1")) if scheme.lower() == "bearer" else None


def unix_peer(scope: Scope) -> int | None:
    """Return the Unix user at the other end of a Unix socket; None for other connections."""
    client = scope.get("client")
    if client is None or not client[0].startswith(UNIX_PEER):
        return None
    return int(client[0].removeprefix(UNIX_PEER))


def _through_a_file(scope: Scope) -> bool:
    """Return whether the request came through a unix socket, which has no port and which no browser uses."""
    server = scope.get("server")
    return server is not None and server[1] is None


async def _whole(scope: Scope, receive: Receive, take: Callable[[int], None]) -> bytes | None:
    """Read the body, and count its bytes. Return None if the client has gone; raise HttpError if the body is too large or too
    slow."""
    length, most = Headers(scope=scope).get("content-length", ""), _most_bytes(scope)
    if length.isdecimal() and int(length) > most:
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                piece = message.get("body", b"")
                take(len(piece))
                body += piece
                # A body in chunks does not state its size beforehand.
                if len(body) > most:
                    raise _too_large(most)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise HttpError(RotaError("The request took too long to arrive."), 408, {"Connection": "close"}) from None


async def _discard(scope: Scope, receive: Receive) -> None:
    """Read the body of a refused request, unless it is too large or too slow. A client that is still sending it would lose the
    connection before it reads the answer."""
    length, left = Headers(scope=scope).get("content-length", ""), _most_bytes(scope)
    if length.isdecimal() and int(length) > left:
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REFUSED_BODY_SECONDS):
            while left >= 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _most_bytes(scope: Scope) -> int:
    return MAX_SEVERAL_BYTES if scope["path"] == f"{API}/submissions" else MAX_BODY_BYTES


def _too_large(most: int) -> HttpError:
    error = RotaError(f"A request has at most {most:,} bytes.", hint="put long commands into a script")
    return HttpError(error, 413, {"Connection": "close"})


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that repeats the body that was read, then passes on later messages such as the end of the connection."""
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _signed(send: Send) -> Send:
    """Add the version to every response, including those that the framework makes."""

    async def signed(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return signed
