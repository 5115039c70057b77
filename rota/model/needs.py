"""Needs that a policy or a placer declares, so that no other code looks for its attributes."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a policy or a placer needs besides the view.

    `colocation`, `predictions` and `tactics` change what the scheduler does. If another need is not met, Rota warns that an
    option has no effect.
    """

    colocation: bool = False
    """Whether the policy uses options with which two jobs share GPUs."""
    predictions: bool = False
    """Whether the policy reads predictions of how long jobs train (`View.predictions`)."""
    tactics: str = ""
    """Tactics that belong to the policy, used if the user names none."""
    several_types: bool = False
    """Whether one of its options has no effect on a cluster with a single accelerator type."""
    elastic_jobs: bool = False
    """Whether the policy changes the sizes of jobs."""
    tenants: bool = False
    """Whether the policy shares GPUs between tenants."""
    deadlines: bool = False
    """Whether the policy gives jobs what they need to meet their deadlines."""
    gpu_scores: bool = False
    """Whether the placer chooses GPUs by their scores (how slow each is)."""


@runtime_checkable
class HasNeeds(Protocol):
    """A policy or a placer that declares needs."""

    @property
    def needs(self) -> Needs: ...


def needs_of(part: object) -> Needs:
    """Return the needs that a policy or a placer declares, or else the default."""
    return part.needs if isinstance(part, HasNeeds) else Needs()
