"""Limits of connections: how many a scheduler has, and how long a request may take to arrive.

Every user of the machine can open connections to a loopback address, and all of them have the same address. So when there are
too many connections, a new one is not refused. Instead the oldest connection that does not serve a request of a known user is
closed. A command sends its request at once and is served before its connection is the oldest.
"""

import asyncio
import ipaddress
import resource
import socket
import struct
from collections import OrderedDict
from typing import Any, NamedTuple, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from rota.server.auth import ACTOR, BODY_SECONDS, UNIX_PEER

HEADER_SECONDS = 10.0
"""Time limit for the headers of a request to arrive, in seconds."""
MAX_CONNECTIONS = 1024
MIN_CONNECTIONS = 16
RESERVED_FILES = 128
"""Number of open files reserved for the scheduler itself: journal, pipes of jobs, logs."""
MAX_ACCEPTS = 64
BACKLOG = 2048
"""Number of connections that the system queues until they are accepted."""

Peer = int | str
"""User number for a unix socket, else an address. All loopback addresses are one peer."""


class ConnectionLimits(NamedTuple):
    """Maximum number of simultaneous connections."""

    total: int
    per_peer: int
    accepts: int
    """Maximum number of connections accepted in one turn of the event loop."""

    @classmethod
    def under(cls, max_files: int) -> "ConnectionLimits":
        """Return the limits of a process that may have this many open files. A closed connection keeps its file for up to three
        turns of the event loop, so the connections accepted in three turns must fit too."""
        total = max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, (max_files - RESERVED_FILES) // 2))
        return cls(total, max(1, total * 3 // 4), max(1, min(MAX_ACCEPTS, total // 4)))

    @classmethod
    def here(cls) -> "ConnectionLimits":
        """Return the limits of this process."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls.under(1 << 20 if soft == resource.RLIM_INFINITY else soft)


class OpenConnection(Protocol):
    """One open connection."""

    @property
    def at_work(self) -> bool: ...
    def drop(self) -> None: ...


class ConnectionTable:
    """Open connections of one server, by peer, the oldest first. Used in one event loop."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.closed_early = 0
        """Number of connections closed to make room."""
        self._by_peer: dict[Peer, OrderedDict[OpenConnection, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, connection: OpenConnection, peer: Peer) -> None:
        """Add a connection. If there are too many, close another one; if all others serve requests, close this one."""
        mine = self._by_peer.setdefault(peer, OrderedDict())
        mine[connection] = None
        self._count += 1
        if len(mine) > self.limits.per_peer:
            self._close_one(mine)
        elif self._count > self.limits.total:
            self._close_one(max(self._by_peer.values(), key=len))

    def remove(self, connection: OpenConnection, peer: Peer) -> None:
        mine = self._by_peer.get(peer, OrderedDict())
        if connection in mine:
            del mine[connection]
            self._count -= 1
            if not mine:
                del self._by_peer[peer]

    def _close_one(self, connections: OrderedDict[OpenConnection, None]) -> None:
        for _ in range(len(connections)):
            oldest = next(iter(connections))
            if not oldest.at_work:
                oldest.drop()
                self.closed_early += 1
                return
            connections.move_to_end(oldest)  # checked again only after the others


class TimedProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn with limits on connections and on the time a request takes to arrive. The connection of a request that
    takes too long is closed without a response."""

    table: ConnectionTable
    """Table of the server's connections, set by `protocol`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = peer_of(transport)
        if isinstance(self._peer, int):  # a name that no TCP address has
            self.client = (f"{UNIX_PEER}{self._peer}", 0)
        self._timer: asyncio.TimerHandle | None = None
        self._awaited: Any = None
        self._arm()
        self.table.add(self, self._peer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self.table.remove(self, self._peer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._arm()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._arm()

    @property
    def at_work(self) -> bool:
        """Whether a request of a known user is being served."""
        cycle: Any = self.cycle  # None before the first request, contrary to its annotation
        return cycle is not None and not cycle.response_complete and ACTOR in self.scope

    def drop(self) -> None:
        """Close the connection at once."""
        self._disarm()
        self.table.remove(self, self._peer)
        self.transport.abort()

    def _arm(self) -> None:
        """Start the time limit of the headers or the body, from when the client may send them."""
        state = self.conn.their_state
        if state is self._awaited:
            return
        self._disarm()
        self._awaited = state
        if state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing():
            # The guard has a shorter limit for bodies that it reads, and responds; this limit is for other bodies.
            seconds = HEADER_SECONDS if state is h11.IDLE else BODY_SECONDS + HEADER_SECONDS
            self._timer = self.loop.call_later(seconds, self.drop)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol(table: ConnectionTable) -> type[TimedProtocol]:
    """Return the class of a server's connections."""
    return type("TimedProtocol", (TimedProtocol,), {"table": table})


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    line: Any = transport.get_extra_info("socket")
    if line is not None and line.family == socket.AF_UNIX:
        return _user_of(line)
    name = transport.get_extra_info("peername")
    try:
        address = ipaddress.ip_address(name[0])
    except (TypeError, ValueError, IndexError):
        return ""
    address = getattr(address, "ipv4_mapped", None) or address
    return "loopback" if address.is_loopback else str(address)


def _user_of(line: Any) -> Peer:
    """Return the user at the other end of a unix socket; an empty text if the system does not provide it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return ""
    try:
        _, user, _ = struct.unpack("iII", line.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("iII")))
    except OSError:
        return ""
    return int(user)
