"""When the core decides: at events, at rounds, or in Gavel's rounds of whole steps. Values, set once.

Each answers for itself when a round begins and how long a turn is, so that no caller asks which of them it is.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from rota.errors import OptionError
from rota.model.units import FOREVER, Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class _DecisionTiming(ABC):
    solve_every_seconds: float = 0.0
    """Least time between two policy calls, in seconds. Plans between them use the last answer."""

    def __post_init__(self) -> None:
        if not self.solve_every_seconds >= 0:
            raise OptionError("must be 0 or more.", field="solve_every_seconds", value=self.solve_every_seconds)
        self._check_turn()

    @abstractmethod
    def _check_turn(self) -> None:
        """Refuse a length that makes no sense."""

    @property
    @abstractmethod
    def at_events(self) -> bool:
        """Whether it decides as soon as something happened that may change the answer."""

    @property
    @abstractmethod
    def turn_seconds(self) -> float:
        """Length of a turn, in seconds, where jobs take turns by their shares."""

    def may_ask_s(self, asked_s: float) -> float:
        """Return the earliest time of the next policy call."""
        return asked_s + self.solve_every_seconds

    @abstractmethod
    def round_begins_s(self, next_round_s: float) -> float:
        """Return when to decide though nothing happened: when the next round begins, or never if there are no rounds."""

    @abstractmethod
    def first_round_s(self, now_s: float) -> float:
        """Return when the first round begins if jobs arrive now."""

    @abstractmethod
    def next_round_s(self, next_round_s: float, now_s: float, until_s: float) -> float:
        """Return when the next round begins, given a new plan that holds until `until_s`."""

    def worked_seconds(self, elapsed: Floats, steps: Floats, rate: Floats) -> Floats:
        """Return how much of the time since their last report counts as received, for jobs that did these steps."""
        return elapsed


@dataclass(frozen=True, slots=True, kw_only=True)
class AtEvents(_DecisionTiming):
    """Whenever something happened that may change the answer."""

    slice_seconds: float = 360.0
    """Length of a turn, in seconds, where jobs take turns."""

    def _check_turn(self) -> None:
        if not self.slice_seconds > 0:
            raise OptionError("must be more than 0.", field="slice_seconds", value=self.slice_seconds)

    at_events = True

    @property
    def turn_seconds(self) -> float:
        return self.slice_seconds

    def round_begins_s(self, next_round_s: float) -> float:
        return FOREVER

    def first_round_s(self, now_s: float) -> float:
        return 0.0  # a scheduler that is started again with rounds begins one at once

    def next_round_s(self, next_round_s: float, now_s: float, until_s: float) -> float:
        return next_round_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rounds(_DecisionTiming):
    round_seconds: float

    def _check_turn(self) -> None:
        if not 0 < self.round_seconds < FOREVER:
            raise OptionError("must be more than 0 and finite.", field="round_seconds", value=self.round_seconds)

    @property
    def turn_seconds(self) -> float:
        return self.round_seconds

    def round_begins_s(self, next_round_s: float) -> float:
        return next_round_s


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRounds(_Rounds):
    """At every multiple of `round_seconds`."""

    at_events: bool = False
    """Also in between, whenever something happened that may change the answer."""

    def first_round_s(self, now_s: float) -> float:
        return math.ceil(now_s / self.round_seconds) * self.round_seconds

    def next_round_s(self, next_round_s: float, now_s: float, until_s: float) -> float:
        """A late round is skipped."""
        if now_s < next_round_s:
            return next_round_s
        number = int(now_s // self.round_seconds) + 1
        return (number + (number * self.round_seconds <= now_s)) * self.round_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSteps(_Rounds):
    """Rounds as in Gavel: each job gets as many whole steps as fit into one; the next begins when all have done theirs."""

    at_events = False

    def first_round_s(self, now_s: float) -> float:
        return now_s

    def next_round_s(self, next_round_s: float, now_s: float, until_s: float) -> float:
        return until_s

    def worked_seconds(self, elapsed: Floats, steps: Floats, rate: Floats) -> Floats:
        """A job that has done its steps rests: only the time it worked counts."""
        return steps / rate

    def steps_per_round(self, rate: Floats) -> Floats:
        """As many as fit, and one where none does."""
        return np.maximum(np.floor(rate * self.round_seconds), 1.0)


DecisionTiming = AtEvents | AtRounds | WholeSteps
"""What `Settings.decide` is one of."""
