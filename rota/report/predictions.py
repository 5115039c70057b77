"""How well it was foreseen how long jobs train: what was believed while they ran, beside what came true."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rota.core.state.beliefs import Beliefs
from rota.model.length_prediction import LengthPrediction

QUARTERS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class PredictionErrors:
    """Predictions made while a part of the training was done."""

    done_upto: float
    """From the part before up to this one; the last has also those of jobs that were believed to be further than they were."""
    predictions: int
    typical_factor: float
    """Half of them were within this factor of the truth."""
    p90_factor: float
    """Nine tenths were."""
    bias: float
    """Median of what was believed over what came true: above 1 jobs were believed to train longer than they did."""


@dataclass(frozen=True, slots=True)
class PredictionsSummary:
    """All that were noted, by how far jobs had come, and by model."""

    predictions: int
    by_progress: tuple[PredictionErrors, ...]
    by_model: dict[str, float]
    """Model -> typical factor, all predictions together."""

    @classmethod
    def of(cls, known: Beliefs) -> "PredictionsSummary":
        made = known.predictions
        low, parts = 0.0, []
        for high in QUARTERS:
            mine = [each for each in made if low < min(each.at_epochs / each.epochs, 1.0) <= high]
            if mine:
                parts.append(_errors(high, mine))
            low = high
        models = sorted({each.model for each in made})
        by_model = {model: _errors(1.0, [p for p in made if p.model == model]).typical_factor for model in models}
        return cls(len(made), tuple(parts), by_model)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "by_progress": [asdict(each) for each in self.by_progress]}

    def __str__(self) -> str:
        parts = ", ".join(f"{each.typical_factor:.2f}x at {each.done_upto:.0%}" for each in self.by_progress)
        return f"{self.predictions:,} predictions" + (f", typically off by {parts} done" if parts else "")


def _errors(upto: float, made: Sequence[LengthPrediction]) -> PredictionErrors:
    ratio = np.array([each.believed_epochs / each.epochs for each in made])
    off = np.exp(np.abs(np.log(ratio)))
    return PredictionErrors(upto, len(made), float(np.median(off)), float(np.quantile(off, 0.9)), float(np.median(ratio)))
