"""Believed costs of starting, stopping and moving a job."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MoveCosts:
    """Seconds a job loses when it is stopped in one place and started in another."""

    launch_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    restore_seconds: float = 0.0

    @property
    def move_seconds(self) -> float:
        return self.launch_seconds + self.checkpoint_seconds + self.restore_seconds
