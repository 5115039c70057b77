"""Traits that make a generated trace realistic: tenants of unequal weight, days and nights, and real models."""

from collections.abc import Sequence

import numpy as np

from rota.model.accelerators import REFERENCE
from rota.model.units import Floats, Ints
from rota.profiles.catalogue import Catalogue

MODELS = (
    "resnet50/bs64",
    "lm/bs20",
    "recommendation/bs2048",
    "bert/bs12",
    "transformer/bs64",
    "resnet18/bs128",
    "deepspeech2/bs20",
    "cyclegan/bs1",
    "pointnet/bs32",
    "inception3/bs64",
    "yolov3/bs8",
    "vgg16/bs64",
)
"""Profiles of the built-in catalogue that fit into 12 GiB. Some gain a lot from a faster GPU, others hardly anything."""

USERS_PER_TENANT = 4
_DAY_S = 86_400.0
_PER_DAY = 1440
"""Number of points at which the rate of arrivals over a day is computed; between them it is interpolated."""


def owners(jobs: int, tenants: int, seed: int) -> list[tuple[str, str]]:
    """Return the tenant and user of each job. The k-th tenant submits 1/k as much as the first, and so does the k-th user of each
    (Zipf)."""
    # A separate stream: adding tenants changes nothing else about a trace.
    draw = np.random.Generator(np.random.Philox(key=seed + 2**64))
    tenant = draw.choice(tenants, size=jobs, p=_zipf(tenants)) + 1
    user = draw.choice(USERS_PER_TENANT, size=jobs, p=_zipf(USERS_PER_TENANT)) + 1
    return [(f"tenant-{t}", f"user-{t}-{u}") for t, u in zip(tenant.tolist(), user.tolist(), strict=True)]


def trained(sizes: Ints, seconds: Floats, models: int, seed: int) -> list[tuple[str, float]]:
    """Return the profile and steps of each job, drawn evenly from this many models. The run time on the reference GPU does not
    change."""
    draw = np.random.Generator(np.random.Philox(key=seed + 2**65))
    catalogue, found = Catalogue(), []
    drawn = draw.integers(models, size=len(sizes)).tolist()
    for model, gpus, length in zip(drawn, sizes.tolist(), seconds.tolist(), strict=True):
        known = catalogue.rate(MODELS[model], REFERENCE, gpus)
        assert known is not None
        found.append((MODELS[model], float(max(round(length * known[0]), 1))))
    return found


def by_day(submitted_s: Floats, strength: float) -> Floats:
    """Move evenly spread arrivals so that their rate varies over the day: 1 - strength * cos(time of day).

    A day begins with the trace and at its quietest. At strength 1 its middle is twice as busy as the mean, and no job arrives at
    its ends. The first and the last arrival stay where they are, and so does the load.
    """
    at_s = np.linspace(0.0, _DAY_S, _PER_DAY + 1)
    # Arrivals until then, if one came per second on average: over a whole day as many as without a rhythm.
    until = at_s - strength * _DAY_S / (2 * np.pi) * np.sin(2 * np.pi * at_s / _DAY_S)
    end_s = float(submitted_s[-1])
    days, rest_s = divmod(end_s, _DAY_S)
    total = days * _DAY_S + float(np.interp(rest_s, at_s, until))
    day, rest = np.divmod(submitted_s * (total / end_s), _DAY_S)
    moved = np.maximum.accumulate(day * _DAY_S + np.interp(rest, until, at_s))
    moved = np.minimum(moved, end_s)
    moved[-1] = end_s
    return moved


def _zipf(n: int) -> Floats:
    shares: Floats = 1.0 / np.arange(1, n + 1)
    shares /= shares.sum()
    return shares


def dealt(weights: Sequence[float], count: int) -> Ints:
    """Distribute `count` places over the weights: each gets its exact number rounded down, and the rest go to the ones that lost
    most by the rounding. Return the position of the weight for each place."""
    exact = np.array(weights) * (count / sum(weights))
    each = np.floor(exact).astype(np.int64)
    behind = np.argsort(each - exact, kind="stable")[: count - int(each.sum())]
    each[behind] += 1
    places: Ints = np.repeat(np.arange(len(each)), each)
    return places
