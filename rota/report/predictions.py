"""Accuracy of length predictions: predicted epochs while jobs ran, compared with their real epochs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rota.core.state.beliefs import Beliefs
from rota.model.length_prediction import LengthPrediction

QUARTERS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class PredictionErrors:
    """Errors of the predictions made in one quarter of the training."""

    done_upto: float
    """Fraction of the training done: from the previous quarter up to this one. The last quarter includes jobs that had trained
    longer than predicted."""
    predictions: int
    typical_factor: float
    """Factor of the truth within which half of the predictions were."""
    p90_factor: float
    """Factor of the truth within which nine tenths of the predictions were."""
    bias: float
    """Median of predicted / real epochs: above 1, predictions were too long."""


@dataclass(frozen=True, slots=True)
class PredictionsSummary:
    """Errors of all predictions, by progress of the jobs and by model."""

    predictions: int
    by_progress: tuple[PredictionErrors, ...]
    by_model: dict[str, float]
    """Typical factor of all predictions of each model."""

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
