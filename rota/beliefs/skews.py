"""How skewed a model is: the part of its parameters that is in the largest tensor (Tiresias, NSDI'19).

A gang exchanges one message per tensor. Where one tensor is most of the model its message is a burst that a network between nodes
does not take in, so such a gang belongs on as few nodes as possible; one whose tensors are about equal may be spread.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from rota.beliefs.variability import plain_name
from rota.errors import OptionError


class KnowsSkew(Protocol):
    """Whatever knows the skew of some profiles, such as the built-in catalogue."""

    def skew(self, profile: str) -> float | None:
        """More than 0, at most 1; None: not known."""


@dataclass(frozen=True)
class Skews:
    """What is known of skews: what was taken from modules comes first, then the model. Remembers its answers, since it is asked
    at each placement."""

    measured: Mapping[str, float] = field(default_factory=dict)
    """Profile -> skew, as read from a module's parameters."""
    model: KnowsSkew | None = None
    """Asked about profiles that nobody measured."""
    _answers: dict[str, float | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for profile, skew in self.measured.items():
            if not 0 < skew <= 1:
                hint = "the largest tensor's part of all parameters, such as 0.72"
                raise OptionError(f"must be more than 0 and at most 1, for {profile}.", field="skew", value=skew, hint=hint)

    def of(self, profile: str) -> float | None:
        """The skew of a profile. A name that was not measured as it stands is compared in its plain form (`plain_name`), then
        the model is asked; None: nobody knows."""
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
        """Plain name -> skew; of two that were measured and are plainly the same, the first."""
        found: dict[str, float] = {}
        for profile, skew in self.measured.items():
            found.setdefault(plain_name(profile), skew)
        return found
