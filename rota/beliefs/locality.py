"""The cost of spreading: the factor on the time of a step for each level of locality that a gang spans, by model.

Levels go outwards: several nodes, several racks, several rows of racks, as far as the cluster has them. A gang pays for each
level that it spans: with 1.5 for nodes and 1.2 for racks, a gang in two racks is 1.8 times slower.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rota.beliefs.variability import plain_name
from rota.errors import OptionError
from rota.model.units import FOREVER

EXAMPLE = '1.7, or 1.2/1.1 for nodes and racks, or "1.0, vgg19=1.7/1.2" by model'
FIELD = "spread_penalty"
EVERYBODY = "all"
"""Name that stands for all models without factors of their own."""


@dataclass(frozen=True)
class Locality:
    """Factors by level, for models that have their own and for all others."""

    usual: tuple[float, ...] = ()
    """Factors of all other models, from the inside out. Further levels cost nothing more."""
    models: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Factors by profile or model. A name is first compared exactly, then in its plain form."""

    def __post_init__(self) -> None:
        for factors in (self.usual, *self.models.values()):
            for factor in factors:
                if not 1 <= factor < FOREVER:
                    raise OptionError(
                        "must be 1 or more, and finite: spreading never makes a job faster.",
                        field=FIELD,
                        value=factor,
                        hint=EXAMPLE,
                    )

    @classmethod
    def of(cls, given: "Locality | float | Sequence[float] | Mapping[str, Any] | str") -> "Locality":
        """Build from a factor, factors for each level, factors of models by name (`""` for all others), or a text with any of
        these."""
        if isinstance(given, Locality):
            return given
        if isinstance(given, str):
            return cls._read(given)
        if isinstance(given, Mapping):
            named = {str(name): _factors(each) for name, each in given.items()}
            return cls(named.pop("", named.pop(EVERYBODY, ())), named)
        return cls(_factors(given))

    @classmethod
    def _read(cls, text: str) -> "Locality":
        """Parse `1.7`, `1.2/1.1`, `1.0, vgg19=1.7/1.2`."""
        found: dict[str, tuple[float, ...]] = {}
        for part in text.split(","):
            name, equals, levels = (piece.strip() for piece in part.rpartition("="))
            name = "" if name == EVERYBODY else name
            try:
                factors = tuple(float(level) for level in levels.split("/"))
            except ValueError:
                problem = "is not a number for each level, with slashes between."
                raise OptionError(problem, field=FIELD, value=part.strip(), hint=EXAMPLE) from None
            if name in found:
                problem = f"gives the factors of {name or 'all models'} twice; levels have slashes between them."
                raise OptionError(problem, field=FIELD, value=text, hint=EXAMPLE)
            if equals and not name and not part.strip().startswith(EVERYBODY):
                raise OptionError("has no model before the =.", field=FIELD, value=part.strip(), hint=EXAMPLE)
            found[name] = factors
        return cls(found.pop("", ()), found)

    def factors(self, profile: str | None) -> tuple[float, ...]:
        """Return the factors of one profile, by level."""
        if profile is None:
            return self.usual
        own = self.models.get(profile)
        return own if own is not None else self._plain.get(plain_name(profile), self.usual)

    def slowdown(self, profile: str | None, levels: int) -> float:
        """Return how many times longer a step takes across this many levels than inside a node."""
        whole = 1.0
        for factor in self.factors(profile)[:levels]:
            whole *= factor
        return whole

    @property
    def matters(self) -> bool:
        """Whether the place of a gang's GPUs makes a difference to any job."""
        return any(factor > 1 for factors in (self.usual, *self.models.values()) for factor in factors)

    @cached_property
    def _plain(self) -> dict[str, tuple[float, ...]]:
        return {plain_name(name): factors for name, factors in self.models.items()}

    def __str__(self) -> str:
        def levels(factors: Sequence[float]) -> str:
            return "/".join(repr(factor) for factor in factors)

        usual = [levels(self.usual)] if self.usual else []
        return ", ".join([*usual, *(f"{name}={levels(each)}" for name, each in self.models.items())]) or "1.0"


def _factors(given: Any) -> tuple[float, ...]:
    try:
        return (float(given),) if isinstance(given, int | float) else tuple(float(each) for each in given)
    except (TypeError, ValueError):
        raise OptionError("is not a number for each level.", field=FIELD, value=given, hint=EXAMPLE) from None
