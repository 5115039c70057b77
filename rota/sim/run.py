"""The truth about one attempt in a simulation: what it holds, how fast it is, and how far it got."""

from dataclasses import dataclass
from typing import Any

from rota.model.units import FOREVER, MILLI

WHOLE = 1e-6
"""A step done but for this part of it is done: what is left is rounding."""


@dataclass(slots=True)
class SimulatedAttempt:
    """The truth about one attempt."""

    attempt: int
    gpus: Any
    nodes: tuple[int, ...]
    exclusive_rate: float
    """Steps per second while nobody else runs on its GPUs."""
    rate: float
    """And now."""
    from_step: float
    since_s: float
    """At this rate since; FOREVER: it makes no progress yet, or no more."""
    total: float
    held_s: float
    """Its GPUs are taken since; FOREVER: they are not."""
    milli_per_gpu: int = MILLI
    """Thousandths that it takes of each GPU."""
    limit: float = FOREVER
    """It rests when it has done so many."""
    round_s: float = FOREVER
    """When that was settled."""
    saves_s: float = 0.0
    """It saves its state every so often from here on."""
    shared_seconds: float = 0.0
    """Time since then in which another job had its GPUs too."""
    parked_before: bool = False
    """Its pages on the host have been used: parking it again is cheap."""
    stretch: int = 0
    """Counts the times its course changed: an end that was foreseen before no longer holds."""

    leaves_s: float = FOREVER
    """When it has made its last step, if nothing changes for it."""

    def steps(self, now_s: float) -> float:
        if self.since_s >= now_s:
            return self.from_step
        steps = min(self.from_step + self.rate * (now_s - self.since_s), self.total)
        return self.limit if steps > self.limit - WHOLE else steps
