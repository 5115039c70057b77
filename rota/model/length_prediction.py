"""Length predictions: how long jobs will still train."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rota.model.units import Floats


@dataclass(frozen=True, slots=True, eq=False)
class LengthPredictions:
    """Prediction for each job of a view, by position."""

    epoch_steps: Floats
    """Steps of an epoch."""
    epochs: Floats
    """Epochs done."""
    epochs_left: Floats
    """Epochs that the job is predicted to have left."""

    @property
    def steps_left(self) -> Floats:
        return self.epochs_left * self.epoch_steps

    def drawn_left(self, rng: np.random.Generator) -> Floats:
        """Draw the steps left from the predicted distribution. A job without a finished epoch has its predicted length."""
        done = np.maximum(self.epochs, 1e-3)
        part = np.maximum(rng.beta(np.maximum(done, 1.0), 1.0 + self.epochs_left), 1e-6)
        drawn = done * (1.0 / part - 1.0)
        found: Floats = np.where(self.epochs < 1.0, self.epochs_left, drawn) * self.epoch_steps
        return found


class LengthPrediction(NamedTuple):
    """A prediction of a job's length, with the length that it turned out to have."""

    model: str
    at_epochs: float
    believed_epochs: float
    """Predicted number of epochs from start to end."""
    epochs: float
    """Real number of epochs from start to end."""
