"""The HTTP server of a scheduler: uvicorn, with limits that strangers cannot exceed and errors that are logged once."""

import asyncio
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

from rota.server.connections import BACKLOG, ConnectionLimits, ConnectionTable, protocol
from rota.server.repeated_errors import TELL_SECONDS, counted_errors, log_loop_error

_TICKS_PER_SECOND = 10
"""Of uvicorn's main loop."""


class HttpServer(uvicorn.Server):
    """Serves one application. Requests that wait for changes are answered first when it stops; otherwise a stop would wait for
    them."""

    def __init__(self, app: FastAPI, limits: ConnectionLimits | None = None, **config: Any) -> None:
        """`config`: options of uvicorn."""
        self.table = ConnectionTable(limits or ConnectionLimits.here())
        # Who waits for changes holds a connection, and others must still get one.
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
                backlog=self.table.limits.accepts,  # also how many connections one turn of the event loop accepts
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
        if counter % int(TELL_SECONDS * _TICKS_PER_SECOND) == 0:
            self._errors.tell()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app: Any = self.config.app
        app.state.changes.close()
        await super().shutdown(sockets)
