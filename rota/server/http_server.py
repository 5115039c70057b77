"""The HTTP server of a scheduler: uvicorn, with limits that strangers cannot exceed and errors that are logged once."""

import asyncio
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

from rota.server.connections import BACKLOG, ConnectionLimits, ConnectionTable, protocol
from rota.server.repeated_errors import COUNTS_SECONDS, counted_errors, log_loop_error

_TICKS_PER_SECOND = 10
"""Frequency of uvicorn's main loop, in Hz."""


class HttpServer(uvicorn.Server):
    """A server of one application. Shutting down first releases requests that wait for changes, or it would wait for them."""

    def __init__(self, app: FastAPI, limits: ConnectionLimits | None = None, **config: Any) -> None:
        """Make the server. `config` has options of uvicorn."""
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
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        if counter % int(COUNTS_SECONDS * _TICKS_PER_SECOND) == 0:
            self._errors.log_counts()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app: Any = self.config.app
        app.state.changes.close()
        await super().shutdown(sockets)
