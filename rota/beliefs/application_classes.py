"""Application classes: profiles that use a GPU alike, found by K-Means over two features, both in percent of the peak: how busy
the compute pipes are and how much of the memory bandwidth is used.

The number of classes is the one with the best silhouette. Class A is the class whose centre has the busiest compute pipes: its
jobs depend most on a GPU's clock, so for them it matters most which GPU they get.
"""

import string
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rota.beliefs.kmeans import best_count, kmeans
from rota.errors import OptionError
from rota.model.units import Floats

MAX_CLASSES = 10
SEED = 1

Features = tuple[float, float]
"""Share of time that compute pipes are busy, and share of memory bandwidth that is used; in percent of the peak."""


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of each profile, and the centres of the classes."""

    names: Mapping[str, str]
    """Profile -> class."""
    centres: Floats
    """Features of the centres, one row per class, A first."""
    quality: float
    """Silhouette of the classes: near 1 if they are far apart, near 0 if other classes would be as good; 0 if there is only
    one."""

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(string.ascii_uppercase[: len(self.centres)])

    def nearest(self, features: Features) -> str:
        """Return the class of a profile that was not there when the classes were found: the class with the nearest centre."""
        spot = np.array(features, dtype=np.float64)
        if spot.shape != (2,) or not np.isfinite(spot).all():
            raise OptionError("must be two finite numbers.", field="features", value=features, hint="(compute %, DRAM %)")
        return self.classes[int(((self.centres - spot) ** 2).sum(axis=1).argmin())]


def classify(features: Mapping[str, Features], most: int = MAX_CLASSES) -> Classes:
    """Return the classes of profiles by their features. Nothing is random: the generator of the starts has a fixed key."""
    if not features:
        raise OptionError("nothing to classify.", field="features", value=0, hint="give the features of at least one profile")
    if not 1 <= most <= len(string.ascii_uppercase):
        raise OptionError("must be from 1 to 26.", field="most", value=most, hint=f"{MAX_CLASSES} is usual")
    # Sorted by name, so the order in which profiles are listed does not matter.
    profiles = sorted(features)
    points = np.array([features[profile] for profile in profiles], dtype=np.float64)
    draw = np.random.Generator(np.random.Philox(key=SEED))
    count, quality = best_count(points, most, draw)
    found = kmeans(points, count, draw)
    order = np.lexsort((found.centres[:, 1], -found.centres[:, 0]))
    letter = {int(cluster): string.ascii_uppercase[place] for place, cluster in enumerate(order)}
    names = {profile: letter[int(label)] for profile, label in zip(profiles, found.labels, strict=True)}
    return Classes(names, found.centres[order], quality)
