"""Step times over GPUs and batch size: the model of Pollux (Qiao et al., OSDI'21), and how it is fitted to measurements.

A step computes for `compute + per_example * b` seconds with b examples on each GPU, and exchanges gradients for `inside +
inside_more * (gpus - 2)` seconds, or `between...` across nodes. The two overlap partially: a step takes (computing ** overlap +
exchanging ** overlap) ** (1 / overlap).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rota.model.units import Floats

MAX_OVERLAP = 10.0
TINY = 1e-9


class StepMeasurement(NamedTuple):
    """One measurement of a step."""

    gpus: int
    spans: bool
    """Whether the GPUs were on several nodes."""
    local_batch: float
    """Examples on each GPU."""
    seconds: float
    """Duration of a step."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of a step of one model on one accelerator type."""

    compute: float
    per_example: float
    inside: float
    """Exchange between two GPUs of a node, in seconds."""
    inside_more: float
    """Exchange time that each further GPU of the node adds, in seconds."""
    between: float
    """Exchange between two GPUs of different nodes, in seconds."""
    between_more: float
    overlap: float
    most_local: float
    """Largest measured batch on one GPU. A larger batch is accumulated over several passes."""
    error: float = 0.0
    """Mean absolute error of the fit, relative."""

    def seconds(self, gpus: int, batch_size: float, spans: bool) -> float:
        local = max(batch_size / gpus, 1.0)
        passes = math.ceil(local / self.most_local - TINY)
        computing = self.compute + self.per_example * local / passes
        exchange = 0.0
        if gpus > 1:
            first, more = (self.between, self.between_more) if spans else (self.inside, self.inside_more)
            exchange = first + more * (gpus - 2)
        last = computing if exchange <= 0 else (computing**self.overlap + exchange**self.overlap) ** (1 / self.overlap)
        return (passes - 1) * computing + last


def fit(seen: Sequence[StepMeasurement]) -> StepTime:
    """Return the parameters that fit these measurements best, in the logarithm of their seconds."""
    from scipy.optimize import least_squares

    gpus = np.array([each.gpus for each in seen], dtype=np.float64)
    spans = np.array([each.spans for each in seen])
    local = np.array([each.local_batch for each in seen])
    seconds = np.array([each.seconds for each in seen])
    inside, between = (gpus > 1) & ~spans, (gpus > 1) & spans

    def whole(values: Floats) -> Floats:
        computing = values[0] + values[1] * local
        exchange = np.zeros_like(gpus)
        exchange[inside] = values[2] + values[3] * (gpus[inside] - 2)
        exchange[between] = values[4] + values[5] * (gpus[between] - 2)
        overlap = values[6]
        taken: Floats = (computing**overlap + np.maximum(exchange, TINY) ** overlap) ** (1 / overlap)
        return taken

    shortest = float(seconds.min())
    slope = max(float(np.polyfit(local, seconds, 1)[0]) if len(set(local.tolist())) > 1 else shortest / local[0], TINY)
    start = np.array([shortest / 2, slope, shortest / 5, TINY * 10, shortest / 5, TINY * 10, 2.0])
    low = np.array([TINY] * 6 + [1.0])
    high = np.array([np.inf] * 6 + [MAX_OVERLAP])

    def errors(values: Floats) -> Floats:
        found: Floats = np.log(whole(values) / seconds)
        return found

    scale = np.maximum(start, 1e-4)
    found = least_squares(errors, start.clip(low * 1.01, high), bounds=(low, high), x_scale=scale).x
    off = np.abs(whole(found) / seconds - 1)
    compute, per_example, inside_s, inside_more, between_s, between_more, overlap = found.tolist()
    return StepTime(
        compute,
        per_example,
        inside_s,
        inside_more,
        between_s,
        between_more,
        overlap,
        most_local=float(local.max()),
        error=float(off.mean()),
    )
