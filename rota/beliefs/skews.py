"""The skew of a model: the fraction of its parameters that is in the largest tensor (Tiresias, NSDI'19).

A gang exchanges one message per tensor. If one tensor is most of the model, its message is a burst that a network between nodes
cannot absorb, so such a gang belongs on as few nodes as possible. A gang with tensors of about equal size may be spread.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from rota.beliefs.variability import plain_name
from rota.errors import OptionError


class KnowsSkew(Protocol):
    """A source of skews of profiles, such as the built-in catalogue."""

    def skew(self, profile: str) -> float | None:
        """Return a skew of more than 0 and at most 1; None if unknown."""


@dataclass(frozen=True)
class Skews:
    """Known skews: those measured from modules come first, then those of the model. Answers are cached, since every placement
    asks."""

    measured: Mapping[str, float] = field(default_factory=dict)
    """Profile -> skew, as read from a module's parameters."""
    model: KnowsSkew | None = None
    """Source for profiles that were not measured."""
    _answers: dict[str, float | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for profile, skew in self.measured.items():
            if not 0 < skew <= 1:
                hint = "the largest tensor's fraction of all parameters, such as 0.72"
                raise OptionError(f"must be more than 0 and at most 1, for {profile}.", field="skew", value=skew, hint=hint)

    def of(self, profile: str) -> float | None:
        """Return the skew of a profile; None if unknown. A name that was not measured exactly is compared in its plain form
        (`plain_name`), then the model is used."""
        if profile not in self._answers:
            self._answers[profile] = self._find(profile)
        return self._answers[profile]

    def _find(self, profile: str) -> float | None:
        found = self.measured.get(profile)
        if found is None:
            found = self._plain.get(plain_name(profile))
        return self.model.skew(profile) if found is None and self.model is not None else found

    @cached_property
    def _plain(self) -> dict[str, float]:
        """Plain name -> skew. If two measured profiles have the same plain name, the first counts."""
        found: dict[str, float] = {}
        for profile, skew in self.measured.items():
            found.setdefault(plain_name(profile), skew)
        return found
