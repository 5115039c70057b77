"""Jobs shaped like the workloads with which PAL (Jain et al., SC'24) was evaluated, which come from Sia and Philly.

160 jobs arrive within five hours. Two in five are short, on one GPU; nearly as many are short and request more than a node. A few
are large models that run for hours or days, and those few are most of the work: the queue is long when the last job arrives, and
drains for days. The number of jobs of each model and size is the same for every seed; their arrival times and lengths differ.
Profiles are the same as in PAL's own job lists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rota.files.csv_table import MAX_COUNT
from rota.model.accelerators import REFERENCE
from rota.model.job import Arrival, JobSpec
from rota.profiles.catalogue import Catalogue
from rota.traces.generator_settings import NumberSetting, Setting, check_settings, format_settings, read_settings
from rota.traces.shaping import dealt
from rota.traces.trace import Trace

EXAMPLE = "sia:jobs=160,seed=0"

SETTINGS: Mapping[str, Setting] = {
    "jobs": NumberSetting(1, MAX_COUNT),
    "seed": NumberSetting(0, 10**18),
    "hours": NumberSetting(0, 1e6, whole=False),
    "largest": NumberSetting(1, MAX_COUNT),
}


@dataclass(frozen=True, slots=True)
class SiaModel:
    """Distributions from which jobs of one model are drawn."""

    profile: str
    share: float
    """Fraction of all jobs that train this model."""
    sizes: Mapping[int, float]
    """GPU count -> relative frequency."""
    typical_seconds: float = 0.0
    spread: float = 0.0
    """Spread of the log-normal run times around the typical one; 0 for short jobs, of which a fifth end at once and the others
    are evenly spread."""


WIDE: Mapping[int, float] = {6: 0.35, 8: 0.24, 12: 0.22, 16: 0.19}

MODELS: Sequence[SiaModel] = (
    SiaModel("pal/vgg19", 0.435, {1: 1.0}),
    SiaModel("pal/pointnet", 0.37, WIDE),
    SiaModel("pal/dcgan", 0.065, {6: 0.34, 8: 0.33, 12: 0.33}, 320.0, 0.7),
    SiaModel("pal/bert", 0.03, WIDE, 1_100.0, 0.65),
    SiaModel("pal/gpt2", 0.02, WIDE, 24_000.0, 0.6),
    SiaModel("pal/resnet50", 0.09, {4: 0.68, 24: 0.1, 32: 0.12, 48: 0.1}, 17_000.0, 1.2),
)
AT_ONCE, EVENLY = (17.0, 25.0), (60.0, 900.0)
"""Shortest and longest run time of short jobs, in seconds: of jobs that end at once, and of the others."""
MAX_SECONDS = 300_000.0


def sia_jobs(jobs: int = 160, seed: int = 0, *, hours: float = 5.0, largest: int = 48) -> Trace:
    """Return a trace whose jobs arrive evenly within this many hours. No job requests more than `largest` GPUs. Steps are run
    time times the rate in the built-in catalogue, which for these profiles does not depend on the number of GPUs."""
    given = {"jobs": jobs, "seed": seed, "hours": hours, "largest": largest}
    check_settings("sia", given, SETTINGS, EXAMPLE)
    draw = np.random.Generator(np.random.Philox(key=seed))
    kinds = [(model, gpus) for model in MODELS for gpus in model.sizes]
    which = draw.permutation(dealt([model.share * model.sizes[gpus] for model, gpus in kinds], jobs))
    at_s = np.sort(np.rint(draw.uniform(0.0, 3600.0 * hours, jobs)))
    catalogue = Catalogue()
    arrivals = []
    for number, (submitted_s, kind) in enumerate(zip(at_s.tolist(), which.tolist(), strict=True)):
        model, gpus = kinds[kind][0], min(kinds[kind][1], largest)
        rate, _ = catalogue.rate(model.profile, REFERENCE, gpus) or (1.0, 0.0)
        steps = max(round(_seconds(model, draw) * rate), 1)
        name = f"{model.profile.removeprefix('pal/')}-{number}"
        arrivals.append(Arrival(submitted_s, JobSpec(name=name, gpus=gpus, steps=float(steps), profile=model.profile)))
    return Trace(f"sia:{format_settings(given)}", "sia", tuple(arrivals))


def named_sia(text: str) -> Trace:
    """Return the trace of `sia:jobs=160,seed=0`."""
    return sia_jobs(**read_settings(text, SETTINGS, EXAMPLE))


def _seconds(model: SiaModel, draw: np.random.Generator) -> float:
    if model.spread:
        return float(min(model.typical_seconds * np.exp(model.spread * draw.standard_normal()), MAX_SECONDS))
    return float(draw.uniform(*AT_ONCE) if draw.random() < 0.2 else draw.uniform(*EVENLY))
