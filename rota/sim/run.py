"""The truth about one attempt in a simulation: its GPUs, its rate and its steps."""

from dataclasses import dataclass
from typing import Any

from rota.model.units import FOREVER, MILLI

WHOLE = 1e-6
"""Tolerance for rounding: a step that lacks less than this fraction is complete."""


@dataclass(slots=True)
class SimulatedAttempt:
    """The truth about one attempt."""

    attempt: int
    gpus: Any
    nodes: tuple[int, ...]
    exclusive_rate: float
    """Steps per second while no other job runs on the same GPUs."""
    rate: float
    """Current steps per second."""
    from_step: float
    since_s: float
    """Time since which the attempt runs at this rate; FOREVER while it makes no progress."""
    total: float
    held_s: float
    """Time since which the attempt holds its GPUs; FOREVER while it holds none."""
    milli_per_gpu: int = MILLI
    """Thousandths of each GPU that the attempt holds."""
    limit: float = FOREVER
    """Number of steps after which the attempt pauses until the next round; FOREVER if rounds do not have whole steps."""
    round_s: float = FOREVER
    """Time at which `limit` was set."""
    saves_s: float = 0.0
    """Time from which the intervals between periodic saves are counted."""
    shared_seconds: float = 0.0
    """Time since `held_s` during which another job held the same GPUs, in seconds."""
    parked_before: bool = False
    """Whether the attempt was parked before. Its pages on the host are then in use already, so parking it again is cheap."""
    version: int = 0
    """Incremented whenever the job's rate or end changes, which invalidates end events already queued."""

    leaves_s: float = FOREVER
    """Time of the last step if nothing changes for the attempt; FOREVER while no end is foreseen."""

    def steps(self, now_s: float) -> float:
        if self.since_s >= now_s:
            return self.from_step
        steps = min(self.from_step + self.rate * (now_s - self.since_s), self.total)
        return self.limit if steps > self.limit - WHOLE else steps
