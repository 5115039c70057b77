"""Length predictions: how long jobs will still train, from finished jobs of the same model (after ONES, SC'21).

The finished fraction of a job's training is estimated to be Beta(e, 1 + r) distributed, with e epochs done and r epochs left. The
number of epochs left is the mean of what those finished jobs of the model that trained longer had left at that point. If no job
of a model has finished yet, its length is estimated from jobs of all models.
"""

from collections.abc import Sequence

import numpy as np

from rota.model.units import Floats

USUAL_EPOCHS = 30.0
"""Length of a job about which nothing is known, in epochs."""

EPOCH_SECONDS = 60.0
"""Assumed duration of an epoch at a job's fastest size, for jobs that do not give the length of an epoch, in seconds."""

MIN_LEFT = 1.0
"""Minimum number of epochs left of a job that has trained longer than all others."""
LEFT_OF_DONE = 0.1
"""Minimum of the epochs left of such a job, as a fraction of the epochs done."""


def epochs_left(done: Floats, finished: Sequence[float], usual: float) -> Floats:
    """Return the epochs that jobs of one model have left, by the epochs they have done. `finished` has the lengths of jobs that
    ended; `usual` counts as one more."""
    lengths = np.sort(np.array([*finished, usual]))
    after = np.concatenate((np.cumsum(lengths[::-1])[::-1], [0.0]))
    at = lengths.searchsorted(done, side="right")
    longer = len(lengths) - at
    left = after[at] / np.maximum(longer, 1) - done
    return np.where(longer > 0, np.maximum(left, 0.0), np.maximum(MIN_LEFT, LEFT_OF_DONE * done))
