"""A policy or a placer declares what it needs, instead of having attributes that others look for."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a policy or a placer needs beyond what all of them are shown. Packing, predictions and tactics change what the
    scheduler does; where one of the others is missing, Rota tells the user that an option does nothing."""

    packing: bool = False
    """Whether it uses options by which two jobs share GPUs."""
    predictions: bool = False
    """Whether it reads how long jobs are believed to train (`View.predictions`)."""
    tactics: str = ""
    """Tactics that belong to it, where the user names none."""
    several_types: bool = False
    """Whether an option of it does nothing on a cluster with one accelerator type."""
    elastic_jobs: bool = False
    """Whether it changes the sizes of jobs."""
    tenants: bool = False
    """Whether it shares GPUs between tenants."""
    deadlines: bool = False
    """Whether it gives jobs what their deadlines need."""
    gpu_scores: bool = False
    """Whether it chooses GPUs by how slow each is."""


@runtime_checkable
class HasNeeds(Protocol):
    """A policy or a placer that declares needs."""

    @property
    def needs(self) -> Needs: ...


def needs_of(part: object) -> Needs:
    """Return what a policy or a placer declares: nothing, if it has no `needs`."""
    return part.needs if isinstance(part, HasNeeds) else Needs()
