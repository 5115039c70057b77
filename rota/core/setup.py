"""The setup of a scheduler: how it decides, which placer it has, and what it is given to believe."""

from dataclasses import dataclass, field, replace

import numpy as np

from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import SAME_SPEED, Rates
from rota.beliefs.skews import Skews
from rota.beliefs.variability import Variability
from rota.core.settings import Settings
from rota.model.placement_view import Placer
from rota.model.tenants import Tenants


@dataclass(frozen=True, kw_only=True)
class GivenBeliefs:
    """Beliefs that the scheduler is given. What it measures itself overrides them."""

    rates: Rates = SAME_SPEED
    costs: MoveCosts = field(default_factory=MoveCosts)
    skews: Skews = field(default_factory=Skews)
    scores: Variability | None = None
    """Scores of GPUs by number; None if all GPUs of a type are alike."""

    def same_as(self, other: "GivenBeliefs") -> bool:
        """Whether both state the same, with scores compared by value."""
        return replace(self, scores=None) == replace(other, scores=None) and _same_scores(self.scores, other.scores)

    def scores_of(self, gpus: int) -> Variability | None:
        """Return the scores of this number of GPUs. GPUs without a score count as the median."""
        if self.scores is None or self.scores.gpus == gpus:
            return self.scores
        return self.scores.first(gpus) if self.scores.gpus > gpus else self.scores.grown(gpus - self.scores.gpus)


def _same_scores(one: Variability | None, other: Variability | None) -> bool:
    if one is None or other is None:
        return one is other
    return one is other or (
        one.classes == other.classes
        and one.class_of == other.class_of
        and np.array_equal(one.scores, other.scores)
        and np.array_equal(one.uncertainty, other.uncertainty)
    )


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a scheduler is set up. Each part is a value, so a journal can keep it."""

    settings: Settings
    placer: Placer
    given: GivenBeliefs = field(default_factory=GivenBeliefs)
    tenants: Tenants | None = None
    """The operator's tenants; None if there are none."""
