"""Whether the scheduler can take and run jobs, for monitors and load balancers.

It is told without the token, so strangers may ask as often as they like: one thread looks, at most once a second.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from anyio import CapacityLimiter, to_thread

from rota.wire.rows import ReadyRow

KEPT_SECONDS = 1.0
"""How long an answer is given again before the scheduler is asked."""
PATIENCE_SECONDS = 5.0
"""A scheduler that does not answer in this time is not ready."""


class AskedIfReady(Protocol):
    """The part of a daemon that is needed here."""

    def ready(self) -> ReadyRow: ...


class Readiness:
    """Lives in one event loop."""

    def __init__(self, daemon: AskedIfReady, lead_problem: Callable[[], str]) -> None:
        """`lead_problem`: why it is not sure that this process leads; empty: it is."""
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
