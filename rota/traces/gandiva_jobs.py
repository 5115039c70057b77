"""Jobs of a cluster on which users search for models, for which Gandiva was made (Xiao et al., OSDI'18). Gandiva's own workload
was never published; these jobs are invented, in the shape that such clusters are known to have.

Some of the jobs are like Philly's: most request one GPU, some 2, 4 or 8, and run times have a long tail. The others come in
sweeps: one user submits 8 to 32 one-GPU jobs of one model at once, and three of four of them are stopped after a few hundred
steps, as a search with early stopping would do. The rest of a sweep trains to the end. With `feedback_steps` the trace does not
fix when they are stopped: that depends on the progress of the jobs of the sweep.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from rota.beliefs.rates import Rates
from rota.errors import OptionError
from rota.files.csv_table import MAX_COUNT
from rota.model.accelerators import REFERENCE
from rota.model.job import Arrival, JobSpec
from rota.profiles.catalogue import Catalogue
from rota.profiles.simulation_rates import read_rates
from rota.traces.generator_settings import NumberSetting, Setting, TextSetting, check_settings, format_settings, read_settings
from rota.traces.search import Search
from rota.traces.trace import Trace

EXAMPLE = "gandiva:jobs=1000,seed=0,load=1.2"

SETTINGS: Mapping[str, Setting] = {
    "jobs": NumberSetting(1, MAX_COUNT),
    "seed": NumberSetting(0, 10**18),
    "load": NumberSetting(0.001, 1000, whole=False),
    "gpus": NumberSetting(1, MAX_COUNT),
    "sweeps": NumberSetting(0, 1, whole=False),
    "longest_seconds": NumberSetting(1, 1e9, whole=False),
    "feedback_steps": NumberSetting(0, 10**9),
    "profile": TextSetting("the path of a table of rates"),
}

GPUS = 180
"""Number of GPUs of the paper's cluster."""

GIB: Mapping[str, float] = {
    "ResNet-18 (batch size 16)": 1.5,
    "ResNet-18 (batch size 32)": 1.8,
    "ResNet-18 (batch size 64)": 2.4,
    "ResNet-18 (batch size 128)": 3.6,
    "ResNet-18 (batch size 256)": 6.0,
    "ResNet-50 (batch size 16)": 3.0,
    "ResNet-50 (batch size 32)": 4.5,
    "ResNet-50 (batch size 64)": 7.5,
    "ResNet-50 (batch size 128)": 14.0,
    "Transformer (batch size 16)": 2.0,
    "Transformer (batch size 32)": 2.5,
    "Transformer (batch size 64)": 3.5,
    "Transformer (batch size 128)": 6.0,
    "Transformer (batch size 256)": 10.5,
    "LM (batch size 5)": 1.5,
    "LM (batch size 10)": 1.7,
    "LM (batch size 20)": 2.1,
    "LM (batch size 40)": 3.0,
    "LM (batch size 80)": 5.0,
    "Recommendation (batch size 512)": 1.5,
    "Recommendation (batch size 1024)": 1.8,
    "Recommendation (batch size 2048)": 2.4,
    "Recommendation (batch size 4096)": 3.6,
    "Recommendation (batch size 8192)": 6.0,
    "A3C": 1.5,
    "CycleGAN": 7.0,
}
"""Models, by their names in Gavel's table of rates, and the GPU memory that each needs: our own estimates, not measured."""

ONE_GPU = ("Recommendation", "A3C", "CycleGAN")
"""Models that use one GPU only."""

SIZES: Mapping[int, float] = {1: 0.70, 2: 0.10, 4: 0.13, 8: 0.07}
"""GPUs of a job outside sweeps, and how often it requests them."""
SERVER = 4
"""GPUs of a server. A job with more GPUs spans servers, and its run time is the run time across servers."""
MEDIAN_SECONDS, LOG_SPREAD, MIN_SECONDS = 900.0, 2.0, 30.0
MEMBERS = (8, 32)
"""Smallest and largest number of jobs in a sweep."""
STOPPED = 0.75
"""Fraction of a sweep that is stopped early."""
STOPPED_STEPS = (150, 500)
"""Smallest and largest number of steps after which a job is stopped."""
USERS = 40


class _Drawn(NamedTuple):
    name: str
    user: str
    profile: str
    gpus: int
    steps: float
    seconds: float
    """Run time on exclusive V100s, in seconds; for a job that a search stops, the time until it can be stopped."""
    rank: int = 0
    """Rank of the job in its sweep; 0 is the best."""


def gandiva_jobs(
    jobs: int = 1000,
    seed: int = 0,
    *,
    load: float = 1.0,
    gpus: int = GPUS,
    sweeps: float = 0.5,
    longest_seconds: float = 3600.0,
    feedback_steps: int = 0,
    profile: str = "",
) -> Trace:
    """Return a trace of such jobs, with about the fraction `sweeps` of them in sweeps. With `feedback_steps`, all jobs of a sweep
    have the same number of steps, and after `feedback_steps` steps a search sees how good a job is and stops the worse ones.

    `load` is met exactly: GPU-seconds of all jobs on exclusive V100s, divided by the GPU-seconds of `gpus` GPUs between the first
    arrival and the last. Steps are run time times the rate on V100s, from the table of rates at `profile` or else from the
    built-in catalogue.
    """
    given = {
        "jobs": jobs,
        "seed": seed,
        "load": load,
        "gpus": gpus,
        "sweeps": sweeps,
        "longest_seconds": longest_seconds,
        **({"feedback_steps": feedback_steps} if feedback_steps else {}),
        **({"profile": profile} if profile else {}),
    }
    check_settings("gandiva", given, SETTINGS, EXAMPLE)
    rates = read_rates(profile) if profile else Rates(model=Catalogue())
    draw = np.random.Generator(np.random.Philox(key=seed))
    groups = list(_groups(draw, jobs, gpus, sweeps, longest_seconds, feedback_steps, rates))
    at_s = np.zeros(len(groups))
    if len(groups) > 1:
        # Gaps are drawn freely and then stretched together, so that chance cannot move the load.
        np.cumsum(draw.standard_exponential(len(groups) - 1), out=at_s[1:])
        at_s *= sum(job.gpus * job.seconds for group in groups for job in group) / (gpus * load) / at_s[-1]
    arrivals = tuple(
        Arrival(
            submitted_s,
            JobSpec(name=job.name, user=job.user, profile=job.profile, gpus=job.gpus, steps=job.steps, gpu_gib=GIB[job.profile]),
        )
        for submitted_s, group in zip(at_s.tolist(), groups, strict=True)
        for job in group
    )
    searches = [_search(group, feedback_steps) for group in groups if feedback_steps and sweep_of(group[0].name)]
    return Trace(f"gandiva:{format_settings(given)}", "gandiva", arrivals, searches=tuple(searches))


def named_gandiva(text: str) -> Trace:
    """Return the trace of `gandiva:jobs=1000,seed=0,load=1.2`."""
    return gandiva_jobs(**read_settings(text, SETTINGS, EXAMPLE))


def sweep_of(name: str) -> str:
    """Return the sweep that a job belongs to, by the job's name; empty if it belongs to none."""
    return name.rpartition("/")[0]


def _groups(
    draw: np.random.Generator, jobs: int, gpus: int, sweeps: float, longest_seconds: float, feedback_steps: int, rates: Rates
) -> Iterator[list[_Drawn]]:
    """Generate groups of jobs that are submitted together, until there are enough jobs."""
    sizes = [size for size in SIZES if size <= gpus]
    weights = np.array([SIZES[size] for size in sizes]) / sum(SIZES[size] for size in sizes)
    mean = sum(MEMBERS) / 2
    # The share of sweeps among submissions, such that the fraction `sweeps` of jobs is in sweeps.
    often = sweeps / (sweeps + (1 - sweeps) * mean)
    left, number, sweep = jobs, 0, 0
    while left:
        user = f"user-{int(draw.integers(USERS)) + 1}"
        seconds = float(np.clip(np.exp(np.log(MEDIAN_SECONDS) + LOG_SPREAD * draw.standard_normal()), MIN_SECONDS, None))
        seconds = min(seconds, longest_seconds)
        if draw.random() < often:
            sweep += 1
            members = min(int(draw.integers(MEMBERS[0], MEMBERS[1] + 1)), left)
            model = list(GIB)[int(draw.integers(len(GIB)))]
            group = list(_sweep(draw, f"sweep-{sweep}", user, model, members, seconds, _rate(rates, model, 1), feedback_steps))
        else:
            number += 1
            size = int(draw.choice(sizes, p=weights))
            models = [model for model in GIB if size == 1 or model.partition(" ")[0] not in ONE_GPU]
            model = models[int(draw.integers(len(models)))]
            group = [_Drawn(f"job-{number}", user, model, size, seconds * _rate(rates, model, size), seconds)]
        left -= len(group)
        yield group


def _sweep(
    draw: np.random.Generator,
    name: str,
    user: str,
    model: str,
    members: int,
    seconds: float,
    rate: float,
    feedback_steps: int,
) -> Iterator[_Drawn]:
    order = draw.permutation(members).tolist()  # worst first

    stopped = set(order[: int(STOPPED * members)])
    all_steps = max(seconds * rate, 2.0 * feedback_steps)
    for member, few in enumerate(draw.integers(STOPPED_STEPS[0], STOPPED_STEPS[1] + 1, size=members).tolist()):
        made = min(float(feedback_steps or few), all_steps) if member in stopped else all_steps
        steps = all_steps if feedback_steps else made
        yield _Drawn(f"{name}/{member + 1}", user, model, 1, steps, made / rate, members - 1 - order.index(member))


def _search(sweep: list[_Drawn], feedback_steps: int) -> Search:
    best_first = sorted(sweep, key=lambda job: job.rank)
    keep = len(sweep) - int(STOPPED * len(sweep))
    return Search(tuple(job.name for job in best_first), float(feedback_steps), keep)


def _rate(rates: Rates, model: str, gpus: int) -> float:
    rate, _ = rates.rate(model, REFERENCE, gpus, 1 if gpus > SERVER else 0)
    if not rate > 0:
        raise OptionError(
            f"{model} does not run on {gpus} {REFERENCE}s, and run times are times on {REFERENCE}s.",
            field="profile",
            value=rate,
            hint="leave profile= out, or give Gavel's simulation_throughputs.json",
        )
    return rate
