"""Wait for changes: one thread waits for the daemon, and many clients wait for that thread."""

import asyncio
import contextlib
from collections import Counter
from typing import Protocol

from anyio import CapacityLimiter, to_thread

from rota.errors import BusyError
from rota.server.answers import HttpError

MAX_WAITING = 256
MAX_WAIT_SECONDS = 30.0
SLICE_SECONDS = 1.0
"""Longest single wait of the thread, in seconds. A daemon that stops waits at most this long for the thread."""

PAUSE_SECONDS = 0.05
"""Minimum interval between two wake-ups, in seconds. Faster changes are reported together."""


class ChangeSource(Protocol):
    """The method of a daemon that is used here."""

    def wait_for_change(self, seen: int, timeout: float) -> int: ...


class ChangeFeed:
    """Clients that wait for changes, all in one event loop."""

    def __init__(self, daemon: ChangeSource) -> None:
        self._daemon = daemon
        self.most_waiting = MAX_WAITING
        self._number = 0
        self._waiting = 0
        self._waiting_of: Counter[str] = Counter()
        self._closed = False
        self._news = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        # A thread of its own, so that waiting takes none of the threads that serve other requests.
        self._thread = CapacityLimiter(1)

    async def after(self, seen: int, timeout: float, user: str | None = None) -> int:
        """Wait until the number of changes differs from `seen`, at most `timeout` seconds. Return the number. `user`: who waits.
        One user's clients take at most half of the places; None: they may take all, as those of operators."""
        number = await to_thread.run_sync(self._daemon.wait_for_change, seen, 0.0)
        self._number = max(self._number, number)
        # A number below `seen` comes from a restarted daemon, which is a change too.
        if number != seen or timeout <= 0 or self._closed:
            return number
        most = min(MAX_WAITING, self.most_waiting)
        if self._waiting >= most or (user is not None and self._waiting_of[user] >= max(most // 2, 1)):
            raise HttpError(
                BusyError("Too many clients wait for changes.", hint="ask again in a second"), 503, {"Retry-After": "1"}
            )
        self._waiting += 1
        if user is not None:
            self._waiting_of[user] += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(timeout, MAX_WAIT_SECONDS)):
                    while self._number == seen and not self._closed:
                        if self._watch is None or self._watch.done():
                            self._watch = asyncio.create_task(self._look())
                        watch = self._watch
                        await self._news.wait()
                        if watch.done():
                            watch.result()  # raises the daemon's error to the client
        finally:
            self._waiting -= 1
            if user is not None:
                self._waiting_of -= Counter((user,))  # a user with none is forgotten
        return self._number

    def close(self) -> None:
        """Release all waiting clients, since the daemon stops. Call this in the event loop."""
        self._closed = True
        self._wake_waiting()

    async def _look(self) -> None:
        try:
            while self._waiting and not self._closed:
                number = await to_thread.run_sync(
                    self._daemon.wait_for_change, self._number, SLICE_SECONDS, limiter=self._thread, abandon_on_cancel=True
                )
                if number != self._number:
                    self._number = number
                    self._wake_waiting()
                # A daemon that stops returns at once without a change. Without this check the loop would be busy.
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._wake_waiting()

    def _wake_waiting(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
