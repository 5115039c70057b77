"""Believed costs of starting, stopping and moving a job."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MoveCosts:
    """Seconds a job loses when it is stopped in one place and started in another."""

    launch_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    restore_seconds: float = 0.0
    resize_seconds: float = 0.0
    """What a change of size costs a job that can do it while it runs."""

    @property
    def move_seconds(self) -> float:
        return self.launch_seconds + self.checkpoint_seconds + self.restore_seconds
