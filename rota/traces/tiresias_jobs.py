"""Jobs shaped like the testbed workload of Tiresias (Gu et al., NSDI'19). They are generated, since the published list has no
licence.

Ten image models; a job arrives every 30 seconds on average and runs for two minutes to two hours. Half of the jobs request one
GPU, a quarter more than a node. The numbers of short and long, narrow and wide jobs are as published and the same for every seed;
which job is which, arrival times and lengths differ.
"""

from collections.abc import Mapping

import numpy as np

from rota.files.csv_table import MAX_COUNT
from rota.model.accelerators import REFERENCE
from rota.model.job import Arrival, JobSpec
from rota.profiles.catalogue import Catalogue
from rota.traces.generator_settings import NumberSetting, Setting, check_settings, format_settings, read_settings
from rota.traces.shaping import dealt
from rota.traces.trace import Trace

EXAMPLE = "tiresias:jobs=480,seed=0"

SETTINGS: Mapping[str, Setting] = {
    "jobs": NumberSetting(1, MAX_COUNT),
    "seed": NumberSetting(0, 10**18),
    "mean_gap_seconds": NumberSetting(0, 1e9, whole=False),
    "spread_penalty": NumberSetting(1, 1000, whole=False),
}

MODELS = (
    "vgg19",
    "vgg16",
    "vgg11",
    "alexnet",
    "resnet152",
    "resnet101",
    "resnet50",
    "inception4",
    "inception3",
    "googlenet",
)
"""Profiles of the built-in catalogue."""
SKEWED = MODELS[:4]
"""Models that are mostly one tensor. They suffer when their GPUs are spread over more nodes than necessary."""

SIZES: Mapping[int, int] = {1: 244, 2: 42, 4: 80, 8: 85, 16: 24, 32: 5}
"""GPU count -> how many of 480 jobs request it."""

NARROW = 4
"""GPUs of a node. A job with more is wide."""
LONG: Mapping[bool, float] = {False: 0.125 / 0.762, True: 0.075 / 0.238}
"""Fraction of long jobs, among narrow jobs and among wide ones."""
SHORT_SECONDS, LONG_SECONDS = (120.0, 800.0), (800.0, 7200.0)
LEAN: Mapping[tuple[bool, bool], float] = {(False, False): 2.2, (False, True): 2.2, (True, False): 2.8, (True, True): 1.2}
"""By long and wide: 1 spreads run times evenly over their range on a logarithmic scale, more leans to the lower end. The values
are chosen such that half of the jobs run for at most four minutes, one in twenty for forty-five or more, and the mean is 3,200
GPU-seconds."""


def tiresias_jobs(jobs: int = 480, seed: int = 0, *, mean_gap_seconds: float = 30.0, spread_penalty: float = 1.0) -> Trace:
    """Return a trace of such jobs. `mean_gap_seconds` is the mean time between arrivals; with 0 all arrive at once.

    Steps are run time times the rate on V100s in one node, so with the preset `ideal` a job runs for the drawn time on any type.
    If skewed models pay a `spread_penalty` for spanning nodes in the simulation, give it here too: wide jobs cannot avoid it, and
    the drawn time is the time on as few nodes as possible.
    """
    given = {"jobs": jobs, "seed": seed, "mean_gap_seconds": mean_gap_seconds, "spread_penalty": spread_penalty}
    check_settings("tiresias", given, SETTINGS, EXAMPLE)
    draw = np.random.Generator(np.random.Philox(key=seed))
    sizes = np.array(list(SIZES))[draw.permutation(dealt(list(SIZES.values()), jobs))]
    wide = sizes > NARROW
    long = np.zeros(jobs, dtype=bool)
    for kind, part in LONG.items():
        members = draw.permutation(np.flatnonzero(wide == kind))
        long[members[: round(part * len(members))]] = True
    models = draw.integers(len(MODELS), size=jobs)
    height = draw.random(jobs)
    gaps = draw.standard_exponential(jobs) * mean_gap_seconds
    at_s = np.cumsum(gaps) - gaps[0]
    catalogue = Catalogue()
    arrivals = []
    for number in range(jobs):
        profile, gpus = MODELS[models[number]], int(sizes[number])
        low, high = LONG_SECONDS if long[number] else SHORT_SECONDS
        seconds = low * (high / low) ** (height[number] ** LEAN[bool(long[number]), bool(wide[number])])
        rate, _ = catalogue.rate(profile, REFERENCE, gpus) or (1.0, 0.0)
        apart = spread_penalty if gpus > NARROW and profile in SKEWED else 1.0
        spec = JobSpec(name=f"{profile}-{number}", gpus=gpus, steps=float(seconds * rate / apart), profile=profile)
        arrivals.append(Arrival(float(at_s[number]), spec))
    return Trace(f"tiresias:{format_settings(given)}", "tiresias", tuple(arrivals))


def named_tiresias(text: str) -> Trace:
    """Return the trace of `tiresias:jobs=480,seed=0`."""
    return tiresias_jobs(**read_settings(text, SETTINGS, EXAMPLE))
