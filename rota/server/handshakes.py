"""TLS handshakes of new connections. A connection counts from the moment it is accepted, not from the end of its handshake.

Anyone who can reach the port can connect and then send nothing. Such connections have the same limits as others, so that they
cannot take all files that the scheduler may open.
"""

import asyncio
from collections.abc import Callable

from rota.server.connections import HEADER_SECONDS, ConnectionTable, peer_of
from rota.server.tls import Certificate


class _Early(asyncio.Protocol):
    """Keeps what arrives between the end of a handshake and the start of the connection's own protocol."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.ended = self.lost = False

    def data_received(self, data: bytes) -> None:
        self.data.append(data)

    def eof_received(self) -> bool:
        self.ended = True
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class Handshake(asyncio.Protocol):
    """A new connection until its handshake is over. The connection then continues with a protocol of `make`."""

    at_work = False

    def __init__(self, table: ConnectionTable, certificate: Certificate, make: Callable[[], asyncio.Protocol]) -> None:
        self._table, self._certificate, self._make = table, certificate, make
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport, self._peer = transport, peer_of(transport)
        transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._secure())
        self._table.add(self, self._peer)

    def drop(self) -> None:
        """Close the connection at once."""
        self._table.remove(self, self._peer)
        self._transport.abort()

    async def _secure(self) -> None:
        early, secured = _Early(), None
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self._transport,
                early,
                self._certificate.context,
                server_side=True,
                ssl_handshake_timeout=HEADER_SECONDS,
            )
        except OSError:  # not TLS, too slow, or gone; SSLError is one too
            self._transport.abort()
        finally:
            self._table.remove(self, self._peer)
        if secured is None or early.lost:
            return
        made = self._make()
        secured.set_protocol(made)
        made.connection_made(secured)
        for data in early.data:
            made.data_received(data)
        if early.ended and not made.eof_received():
            secured.close()
