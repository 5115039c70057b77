"""What a placer sees: the GPUs that it may use, the requests, and what moving a job costs."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rota.model.cluster import Cluster
from rota.model.units import Bools, Floats, Ints
from rota.model.view import keyed_rng


@dataclass(slots=True, eq=False)
class PlacementRequest:
    """A granted unit that needs GPUs: a job, or two jobs that will share them."""

    job: int
    """Number of one of the unit's jobs."""
    pool: int
    gpus: int
    move_seconds: float
    """Cost of moving the unit to other GPUs, in seconds."""
    current: Ints | None = None
    """GPUs that the unit has now, or had when it was parked; None if it has none."""
    parked: bool = False
    """Whether the unit is parked on the nodes of `current`. Other jobs may have those GPUs by now."""
    application_class: int = 0
    """Application class of the unit: a row of `PlacementView.scores`. Class 0 suffers most from slow GPUs."""
    penalties: tuple[float, ...] = (1.0,)
    """Estimated factor by which a step takes longer across 0, 1, 2, ... levels of locality. Levels beyond the last are like the
    last."""
    skew: float | None = None
    """Size of the largest tensor of the model, as a fraction of the model; None if unknown."""

    def penalty(self, levels: int) -> float:
        return self.penalties[min(levels, len(self.penalties) - 1)]


@dataclass(slots=True, eq=False)
class PlacementView:
    """The GPUs at one decision. A placer may write to `available` while it chooses GPUs."""

    cluster: Cluster
    available: Bools
    """Whether each GPU may be used now."""
    idle: Bools
    """Whether each GPU is held by no job. A job that is placed on such GPUs starts at once."""
    seed: int
    decision: int
    scores: Floats | None = None
    """Factor by which a step takes longer on each GPU, rounded to levels, by application class: shape (classes, GPUs); None if
    all GPUs are alike."""
    exact: Floats | None = None
    """Factor by which a step takes longer on each GPU, not rounded. It decides between GPUs that are otherwise equally good."""

    def rng(self) -> np.random.Generator:
        return keyed_rng(self.seed, self.decision, 2)


class Placer(Protocol):
    """Chooses GPUs. A placer never changes which jobs run and never makes a job wait, since all requests fit by count."""

    @property
    def sticky(self) -> bool:
        """Whether a job that keeps its option keeps its GPUs, so that the placer is not called for it again."""
        ...

    def keeps_together(self, request: PlacementRequest) -> bool:
        """Return whether this request should get GPUs that are as close together as possible. If jobs wait for locality, this
        request waits until it can have such GPUs."""
        ...

    def place(self, view: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        """Return GPUs of the pool for each request, in the order of the requests. The numbers are sorted."""
        ...
