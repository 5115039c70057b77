"""Connections of clients and of strangers: how many there may be, and how long a request may take to arrive.

Anyone on the machine can open connections to a loopback address, and a stranger has the same address as the user's own commands.
So a new connection is not refused when there are too many. Instead the oldest connection is closed that does not serve a request
with the token. A command sends its request at once, and is served before its connection becomes the oldest.
"""

import asyncio
import ipaddress
import resource
import socket
import struct
from collections import OrderedDict
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from rota.server.auth import BODY_SECONDS, KNOWN

HEADER_SECONDS = 10.0
"""How long the headers of a request may take to arrive, in seconds."""
MAX_CONNECTIONS = 1024
MIN_CONNECTIONS = 16
RESERVED_FILES = 128
"""Files that the scheduler keeps for itself: journal, pipes of jobs, logs."""
MAX_ACCEPTS = 64
BACKLOG = 2048
"""Connections that the system keeps until they are accepted."""

Peer = int | str
"""A user of this machine by number, where the socket is a file; else an address. All loopback addresses are one peer."""


class ConnectionLimits(NamedTuple):
    """How many connections a scheduler has at a time."""

    total: int
    per_peer: int
    accepts: int
    """New connections in one turn of the event loop."""

    @classmethod
    def under(cls, max_files: int) -> "ConnectionLimits":
        """For a process that may have this many open files. A connection that was closed keeps its file for up to three turns of
        the event loop, so three turns of new connections fit too."""
        total = max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, (max_files - RESERVED_FILES) // 2))
        return cls(total, max(1, total * 3 // 4), max(1, min(MAX_ACCEPTS, total // 4)))

    @classmethod
    def here(cls) -> "ConnectionLimits":
        """For this process."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls.under(1 << 20 if soft == resource.RLIM_INFINITY else soft)


class ConnectionTable:
    """The open connections of one server, by peer, the oldest first. Lives in one event loop."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.closed_early = 0
        """Connections that were closed to make room."""
        self._by_peer: dict[Peer, OrderedDict[TimedProtocol, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, connection: "TimedProtocol", peer: Peer) -> None:
        """Take a connection in, and close another one if there are too many; if all others are at work, this one."""
        mine = self._by_peer.setdefault(peer, OrderedDict())
        mine[connection] = None
        self._count += 1
        if len(mine) > self.limits.per_peer:
            self._close_one(mine)
        elif self._count > self.limits.total:
            self._close_one(max(self._by_peer.values(), key=len))

    def remove(self, connection: "TimedProtocol", peer: Peer) -> None:
        mine = self._by_peer.get(peer, OrderedDict())
        if connection in mine:
            del mine[connection]
            self._count -= 1
            if not mine:
                del self._by_peer[peer]

    def _close_one(self, connections: "OrderedDict[TimedProtocol, None]") -> None:
        for _ in range(len(connections)):
            oldest = next(iter(connections))
            if not oldest.at_work:
                oldest.drop()
                self.closed_early += 1
                return
            connections.move_to_end(oldest)  # it is not looked at again soon


class TimedProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn, with a limit of connections and of the time in which a request has to arrive. An unfinished request
    is closed without an answer."""

    table: ConnectionTable
    """Set by `protocol`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = peer_of(transport)
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
        """Whether it has sent the token, and the response is not complete."""
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        return cycle is not None and not cycle.response_complete and KNOWN in self.scope

    def drop(self) -> None:
        """Close it at once."""
        self._disarm()
        self.table.remove(self, self._peer)
        self.transport.abort()

    def _arm(self) -> None:
        """Headers and body have a time limit each, from when the client may send them."""
        state = self.conn.their_state
        if state is self._awaited:
            return
        self._disarm()
        self._awaited = state
        if state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing():
            # The guard gives up on a body first, and answers; this is for bodies that it does not read.
            seconds = HEADER_SECONDS if state is h11.IDLE else BODY_SECONDS + HEADER_SECONDS
            self._timer = self.loop.call_later(seconds, self.drop)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol(table: ConnectionTable) -> type[TimedProtocol]:
    """The class that a server makes its connections of."""
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
    """The user at the other end of a socket that is a file; an empty text where the system does not say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return ""
    try:
        _, user, _ = struct.unpack("iII", line.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("iII")))
    except OSError:
        return ""
    return int(user)
