"""The floor: what a placer may see. GPUs, who may be put where, and what moving costs."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rota.model.cluster import Cluster
from rota.model.units import Bools, Floats, Ints
from rota.model.view import keyed_rng


@dataclass(slots=True, eq=False)
class PlacementRequest:
    """One granted unit that needs GPUs: a job, or two that will share them."""

    job: int
    """One of its jobs."""
    pool: int
    gpus: int
    move_seconds: float
    """The price of putting it elsewhere than where it is."""
    current: Ints | None = None
    """The GPUs it has now; of a parked job, those it had."""
    parked: bool = False
    """It sleeps on the nodes of those GPUs, which other jobs may have by now."""
    application_class: int = 0
    """Its application class: row of `PlacementView.scores`, those that suffer most from slow GPUs first."""
    penalties: tuple[float, ...] = (1.0,)
    """How many times longer a step is believed to take across 0, 1, 2, ... levels of locality; beyond the last, as that."""
    skew: float | None = None
    """The part of the model that its largest tensor is; None: nobody knows."""

    def penalty(self, levels: int) -> float:
        return self.penalties[min(levels, len(self.penalties) - 1)]


@dataclass(slots=True, eq=False)
class PlacementView:
    """The GPUs at one decision. `available` is the placer's to strike off as it hands GPUs out."""

    cluster: Cluster
    available: Bools
    """May be handed out now."""
    idle: Bools
    """Nobody holds it: a job placed there starts at once."""
    seed: int
    decision: int
    scores: Floats | None = None
    """How many times longer a step takes on each GPU, in levels, by application class: shape (classes, GPUs). None: all alike."""
    exact: Floats | None = None
    """The same, not in levels: it decides between GPUs that are equally good otherwise."""

    def rng(self) -> np.random.Generator:
        return keyed_rng(self.seed, self.decision, 2)


class Placer(Protocol):
    """Picks GPUs. Never changes who runs, never makes a job wait: every request fits by count."""

    @property
    def sticky(self) -> bool:
        """A job that keeps its option keeps its GPUs and is not asked about again."""
        ...

    def keeps_together(self, request: PlacementRequest) -> bool:
        """Whether it would rather have these GPUs as close together as they can be. Where the mechanism waits for places, such
        a request gets no others."""
        ...

    def place(self, floor: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        """For each request, in the order given, that many sorted GPU numbers of its pool."""
        ...
