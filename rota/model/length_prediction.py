"""Foresight: how long jobs of a view are believed to train still."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rota.model.units import Floats


@dataclass(frozen=True, slots=True, eq=False)
class LengthPredictions:
    """What is foreseen of each job of a view, by position."""

    epoch_steps: Floats
    """Steps of an epoch."""
    epochs: Floats
    """Epochs done."""
    epochs_left: Floats
    """Epochs that it is believed to have left."""

    @property
    def steps_left(self) -> Floats:
        return self.epochs_left * self.epoch_steps

    def drawn_left(self, rng: np.random.Generator) -> Floats:
        """Steps left, drawn from what is believed: a job that has done nothing yet is as long as it is believed to be."""
        done = np.maximum(self.epochs, 1e-3)
        part = np.maximum(rng.beta(np.maximum(done, 1.0), 1.0 + self.epochs_left), 1e-6)
        drawn = done * (1.0 / part - 1.0)
        found: Floats = np.where(self.epochs < 1.0, self.epochs_left, drawn) * self.epoch_steps
        return found


class LengthPrediction(NamedTuple):
    """What was believed of a job at some point, and what came true."""

    model: str
    at_epochs: float
    believed_epochs: float
    """In all."""
    epochs: float
    """That it really took."""
