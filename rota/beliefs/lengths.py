"""How long jobs still train, foreseen from those of the same model that have finished (after ONES, SC'21).

The part of its training that a job has behind it is believed to be Beta(e, 1 + r) distributed: e epochs done, r epochs left.
What is left is the mean of what finished jobs of the model that trained longer had left at that point. If no job of a model has
finished yet, it counts as long as jobs of all models do.
"""

from collections.abc import Sequence

import numpy as np

from rota.model.units import Floats

USUAL_EPOCHS = 30.0
"""How long a job trains that nothing is known of."""

EPOCH_SECONDS = 60.0
"""An epoch of a job that does not say how long its own is: so many seconds at its fastest size."""

LEAST_LEFT = 1.0
"""A job that has trained longer than all others is believed to have at least one epoch left..."""
LEFT_OF_DONE = 0.1
"""...or so much of what it has done."""


def epochs_left(done: Floats, finished: Sequence[float], usual: float) -> Floats:
    """What jobs of one model have left that have done so much. `finished` are the lengths of those that ended; `usual` is what
    counts as one more."""
    lengths = np.sort(np.array([*finished, usual]))
    after = np.concatenate((np.cumsum(lengths[::-1])[::-1], [0.0]))
    at = lengths.searchsorted(done, side="right")
    longer = len(lengths) - at
    left = after[at] / np.maximum(longer, 1) - done
    return np.where(longer > 0, np.maximum(left, 0.0), np.maximum(LEAST_LEFT, LEFT_OF_DONE * done))
