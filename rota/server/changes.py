"""Waiting for changes: one thread waits for the daemon, and any number of clients wait for that thread."""

import asyncio
import contextlib
from typing import Protocol

from anyio import CapacityLimiter, to_thread

from rota.errors import BusyError
from rota.server.answers import HttpError

MOST_WAITING = 256
LONGEST_WAIT_SECONDS = 30.0
SLICE_SECONDS = 1.0
"""How long the thread waits at a stretch: a daemon that stops need not wait longer for it."""

PAUSE_SECONDS = 0.05
"""Between two looks: what changes faster is told together."""


class ChangeSource(Protocol):
    """The part of a daemon that is needed here."""

    def wait_for_change(self, seen: int, timeout: float) -> int: ...


class Changes:
    """Lives in one event loop."""

    def __init__(self, daemon: ChangeSource) -> None:
        self._daemon = daemon
        self.most_waiting = MOST_WAITING
        self._number = 0
        self._waiting = 0
        self._closed = False
        self._news = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        # Not the threads that answer everybody else's questions.
        self._thread = CapacityLimiter(1)

    async def after(self, seen: int, timeout: float) -> int:
        """The number of changes, as soon as it is another than `seen` or the time is over."""
        number = await to_thread.run_sync(self._daemon.wait_for_change, seen, 0.0)
        self._number = max(self._number, number)
        # A number below `seen` comes from a daemon that was started anew: that is a change too.
        if number != seen or timeout <= 0 or self._closed:
            return number
        if self._waiting >= min(MOST_WAITING, self.most_waiting):
            raise HttpError(
                BusyError("Too many clients wait for changes.", hint="ask again in a second"), 503, {"Retry-After": "1"}
            )
        self._waiting += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(timeout, LONGEST_WAIT_SECONDS)):
                    while self._number == seen and not self._closed:
                        if self._watch is None or self._watch.done():
                            self._watch = asyncio.create_task(self._look())
                        watch = self._watch
                        await self._news.wait()
                        if watch.done():
                            watch.result()  # what went wrong with the daemon goes to who asked
        finally:
            self._waiting -= 1
        return self._number

    def close(self) -> None:
        """Let everybody go: the daemon stops. Called in the event loop."""
        self._closed = True
        self._tell()

    async def _look(self) -> None:
        try:
            while self._waiting and not self._closed:
                number = await to_thread.run_sync(
                    self._daemon.wait_for_change, self._number, SLICE_SECONDS, limiter=self._thread, abandon_on_cancel=True
                )
                if number != self._number:
                    self._number = number
                    self._tell()
                # A daemon that stops answers at once, with nothing new: that must not become a busy loop.
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
