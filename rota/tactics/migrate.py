"""Migrate: a running job moves to GPUs that lie closer together, or to faster ones, where that pays (Gandiva, OSDI'18, section
4.2)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Migrate:
    """A job moves only if it gets further within the horizon, what the move costs included."""

    rest_seconds: float = 600.0
    """A job that was moved stays where it is for so long."""
    most_moves: int = 8
    """Jobs that move in one plan."""

    def gain_seconds(self, seconds: float, price: float, faster: float) -> float:
        """How much further a job gets in so many seconds, in seconds at its present pace, if it pays the price of a move and is
        so many times faster from then on. Less than 0: it should stay."""
        return max(seconds - price, 0.0) * faster - seconds
