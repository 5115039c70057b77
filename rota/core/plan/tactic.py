"""Tactics: what a plan may gain, whatever policy it came from."""

import functools
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from rota.errors import OptionError, RotaError, TacticError

if TYPE_CHECKING:
    from rota.core.plan.draft import Draft
    from rota.core.plan.mover import Mover

T = TypeVar("T", bound="Tactic")


class Tactic:
    """Base class of tactics. A tactic overrides the steps of the planner at which it acts; the others cost nothing."""

    turn: ClassVar[int] = 50
    """Tactics act in this order, lowest first: `pack` 10, `grow` 20, `defragment` 30, `migrate` 40."""
    rest_seconds: float = 0.0
    """How long a job that was moved stays where it is, in seconds."""

    def order(self, draft: "Draft") -> None:
        """Change the order in which jobs are granted GPUs. Called before any job is granted some."""

    def improve(self, draft: "Draft") -> None:
        """Change what jobs are granted. Called when the policy's answer is granted, and before GPUs are chosen."""

    def clear(self, mover: "Mover") -> None:
        """Move running jobs so that gangs find a place. Called if gangs wait for one (`--wait-for-locality`), before jobs behind
        them get their GPUs."""

    def move(self, mover: "Mover") -> None:
        """Move running jobs. Called when all granted jobs have GPUs."""


@dataclass(frozen=True)
class Colocating(Tactic):
    """A tactic that puts two jobs on the same GPUs, and keeps those pairs that gain."""

    min_gain: float = 0.2
    """Smallest gain over taking turns at which a pair is kept: a job that has its turn is slowed down for one that waits."""
    settle_seconds: float = 60.0
    """How long a pair runs before it is judged, in seconds."""

    def __post_init__(self) -> None:
        if not self.settle_seconds > 0:
            raise OptionError(
                "must be more than 0.", field=f"{type(self).__name__.lower()} settle_seconds", value=self.settle_seconds
            )


@dataclass(frozen=True)
class Tactics:
    """The tactics in force, in the order in which they act. A step that no tactic overrides is an empty tuple."""

    active: tuple[Tactic, ...] = ()
    texts: tuple[tuple[Tactic, str], ...] = field(default=(), compare=False)
    """Each tactic with its name and options, as a journal keeps them, in the order given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "active", tuple(sorted(self.active, key=lambda each: each.turn)))

    def __bool__(self) -> bool:
        return bool(self.active)

    def __iter__(self) -> Iterator[Tactic]:
        return iter(self.active)

    @property
    def text(self) -> str:
        """Names and options of the tactics in force, as a journal keeps them."""
        return ",".join(text for _, text in self.texts)

    def find(self, kind: type[T]) -> T | None:
        """Return the tactic of a type, or None."""
        return next((each for each in self.active if isinstance(each, kind)), None)

    @functools.cached_property
    def ordering(self) -> tuple[Tactic, ...]:
        return self._overriding("order")

    @functools.cached_property
    def improving(self) -> tuple[Tactic, ...]:
        return self._overriding("improve")

    @functools.cached_property
    def clearing(self) -> tuple[Tactic, ...]:
        return self._overriding("clear")

    @functools.cached_property
    def moving(self) -> tuple[Tactic, ...]:
        return self._overriding("move")

    @functools.cached_property
    def colocating(self) -> Colocating | None:
        """The tactic that puts jobs on the same GPUs, or None."""
        return self.find(Colocating)

    @property
    def rest_seconds(self) -> float:
        """How long a job that was moved stays where it is, in seconds."""
        return max((each.rest_seconds for each in self.active), default=0.0)

    def without(self, tactic: object) -> "Tactics":
        """Return these tactics without one of them."""
        left = tuple(each for each in self.active if each is not tactic)
        return Tactics(left, tuple((each, text) for each, text in self.texts if each is not tactic))

    def _overriding(self, step: str) -> tuple[Tactic, ...]:
        return tuple(each for each in self.active if getattr(type(each), step) is not getattr(Tactic, step))


def act(tactic: Tactic, step: Literal["order", "improve", "clear", "move"], plan: "Draft | Mover") -> None:
    """Let a tactic act at a step. What it raises becomes a TacticError that names the tactic, the step and the place."""
    try:
        getattr(tactic, step)(plan)
    except Exception as problem:
        name, hint = type(tactic).__name__, ""
        said = f"raised {type(problem).__name__}: {problem}."
        if isinstance(problem, RotaError):
            said, hint = problem.message, problem.hint
        raise TacticError(f"{name}.{step}{_place_of(problem)}: {said}", hint=hint or "--tactics none", tactic=tactic) from problem


def _place_of(problem: Exception) -> str:
    """Return ` (mine.py:12)`: where in its own file the tactic was."""
    frames = traceback.extract_tb(problem.__traceback__)[1:]
    return f" ({frames[0].filename.rpartition('/')[2]}:{frames[0].lineno})" if frames else ""
