"""Statistical efficiency: how much training a step does at each batch size. A larger batch is not free progress.

With a batch of B examples a step does the training of (n + b) / (n + B) * B / b steps of b examples, where n is the gradient
noise scale (McCandlish et al. 2018; Pollux, OSDI'21): nearly B / b steps while B is small, and ever less beyond n.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Efficiency:
    """The number of steps that each model takes to the same result at each batch size, as far as it is known."""

    curves: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Model -> batch size -> measured number of steps until it is trained."""
    noise: Mapping[str, float] = field(default_factory=dict)
    """Model -> gradient noise scale, in examples. It is used if there is no curve."""

    def knows(self, model: str) -> bool:
        return model in self.curves or model in self.noise

    def progress(self, model: str, batch_size: int) -> float:
        """Return the training that a step does, in steps of one example. For an unknown model it is the number of examples."""
        curve = self._logs.get(model)
        if curve is None:
            noise = self.noise.get(model, math.inf)
            return batch_size if noise == math.inf else batch_size * (noise + 1.0) / (noise + batch_size)
        sizes, steps = curve
        size = math.log(batch_size)
        if size <= sizes[0]:
            return batch_size  # below the smallest batch size every example counts in full
        return math.exp(sizes[0] + steps[0] - float(np.interp(size, sizes, steps)))

    def sizes(self, model: str) -> tuple[int, ...]:
        """Return the batch sizes at which the model was measured, smallest first."""
        return tuple(sorted(self.curves.get(model, ())))

    def modelled(self) -> "Efficiency":
        """Return the same knowledge as one noise scale for each model, which a scheduler can have without training at every
        size."""
        return Efficiency(noise={**self.noise, **{model: fitted_noise(curve) for model, curve in self.curves.items()}})

    @cached_property
    def _logs(self) -> dict[str, tuple[list[float], list[float]]]:
        return {
            model: ([math.log(size) for size in sorted(curve)], [math.log(curve[size]) for size in sorted(curve)])
            for model, curve in self.curves.items()
        }


def fitted_noise(curve: Mapping[int, float]) -> float:
    """Return the noise scale that fits a curve best, in the logarithm of its steps."""
    sizes = np.array(sorted(curve), dtype=np.float64)
    if len(sizes) < 2:
        return math.inf
    steps = np.log([curve[int(size)] for size in sizes])
    noises = np.geomspace(sizes[0] / 10, sizes[-1] * 1000, 2000)
    found = np.log((noises[:, None] + sizes) / sizes)
    found -= found.mean(axis=1, keepdims=True) - steps.mean()
    return float(noises[((found - steps) ** 2).sum(axis=1).argmin()])
