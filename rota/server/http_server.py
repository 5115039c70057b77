"""The HTTP server of a scheduler: uvicorn, with limits that strangers cannot exceed and errors that are logged once."""

import asyncio
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

from rota.server.connections import BACKLOG, ConnectionLimits, ConnectionTable, protocol
from rota.server.handshakes import Handshake
from rota.server.repeated_errors import COUNTS_SECONDS, counted_errors, log_loop_error
from rota.server.tls import Certificate

_TICKS_PER_SECOND = 10
"""Frequency of uvicorn's main loop, in Hz."""


class HttpServer(uvicorn.Server):
    """A server of one application. Shutting down first releases requests that wait for changes, or it would wait for them."""

    def __init__(
        self, app: FastAPI, limits: ConnectionLimits | None = None, certificate: Certificate | None = None, **config: Any
    ) -> None:
        """Make the server. With a `certificate`, TCP connections use TLS. `config` has options of uvicorn."""
        self._certificate = certificate
        self.table = ConnectionTable(limits or ConnectionLimits.here())
        # A client that waits for changes holds a connection, and other clients must still get one.
        app.state.changes.most_waiting = self.table.limits.per_peer // 2
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol(self.table),
                ws="none",
                lifespan="off",
                loop="asyncio",
                proxy_headers=False,
                server_header=False,
                access_log=False,
                log_level="warning",
                backlog=self.table.limits.accepts,  # also the number of connections accepted in one turn of the event loop
                **config,
            )
        )

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        with counted_errors() as self._errors:
            super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(log_loop_error)
        sockets = sockets or []
        plain = [each for each in sockets if self._certificate is None or each.family == socket.AF_UNIX]
        secured = []
        if self._certificate is not None:
            secured = [await self._serve_tls(each, self._certificate) for each in sockets if each not in plain]
        await super().startup(plain)  # last, since it says that the server has started
        self.servers += secured
        for each in sockets:
            each.listen(BACKLOG)

    async def _serve_tls(self, listener: socket.socket, certificate: Certificate) -> asyncio.Server:
        def connection() -> asyncio.Protocol:
            make: Any = self.config.http_protocol_class
            made: asyncio.Protocol = make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
            return made

        return await asyncio.get_running_loop().create_server(
            lambda: Handshake(self.table, certificate, connection),
            sock=listener,
            backlog=self.config.backlog,
        )

    async def on_tick(self, counter: int) -> bool:
        if counter % int(COUNTS_SECONDS * _TICKS_PER_SECOND) == 0:
            self._errors.log_counts()
            if self._certificate is not None:
                self._certificate.refresh()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app: Any = self.config.app
        app.state.changes.close()
        await super().shutdown(sockets)
