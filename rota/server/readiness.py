"""Whether the scheduler can accept and run jobs, for monitors and load balancers.

The response needs no token, so strangers may request it often. One thread checks, at most once a second.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from anyio import CapacityLimiter, to_thread

from rota.wire.rows import ReadyRow

KEPT_SECONDS = 1.0
"""How long a response is reused, in seconds."""
PATIENCE_SECONDS = 5.0
"""Time limit for the scheduler to answer, in seconds; after it, the scheduler counts as not ready."""


class AskedIfReady(Protocol):
    """The method of a daemon that is used here."""

    def ready(self) -> ReadyRow: ...


class Readiness:
    """Checks whether the scheduler is ready, in one event loop."""

    def __init__(self, daemon: AskedIfReady, lead_problem: Callable[[], str]) -> None:
        """Make the check. `lead_problem` returns why this process may no longer be leader, or an empty text."""
        self._daemon, self._lead_problem = daemon, lead_problem
        self._thread = CapacityLimiter(1)
        self._look: asyncio.Task[ReadyRow] | None = None
        self._asked_s = 0.0

    async def now(self) -> ReadyRow:
        if self._look is None or (self._look.done() and time.monotonic() - self._asked_s > KEPT_SECONDS):
            self._asked_s = time.monotonic()
            self._look = asyncio.create_task(self._ask())
        left = max(self._asked_s + PATIENCE_SECONDS - time.monotonic(), 0.0)
        done, _ = await asyncio.wait([self._look], timeout=left)
        if not done:
            seconds = time.monotonic() - self._asked_s
            return ReadyRow(ready=False, problems={"scheduler": f"it has not answered for {seconds:.0f} s"})
        return self._look.result()

    async def _ask(self) -> ReadyRow:
        found = await to_thread.run_sync(self._daemon.ready, limiter=self._thread, abandon_on_cancel=True)
        lead = self._lead_problem()
        return replace(found, ready=False, problems={**found.problems, "lead": lead}) if lead else found
