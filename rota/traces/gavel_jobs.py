"""Jobs as Gavel draws them for its simulations (Narayanan et al., OSDI'20), to the last digit: the same seed gives the same jobs.

Run times are those on exclusive V100s: four jobs of five take 32 minutes to 17 hours, the fifth 17 hours to a week. A job trains
one of 26 models; of the jobs that may use several GPUs, three in ten do. Jobs arrive as a Poisson process, or all at once.

The order of draws is fixed. The jobs come from one stream of random numbers, in this order for each job: GPUs (drawn for
single-GPU traces too), run time, model (repeatedly until it can use that many GPUs), weight. Gaps between arrivals come from a
second stream and deadlines from a third, so neither changes the jobs.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from rota.beliefs.rates import Rates
from rota.errors import OptionError, TraceError
from rota.files.csv_table import MAX_COUNT
from rota.model.accelerators import REFERENCE
from rota.model.job import Arrival, JobSpec
from rota.profiles.catalogue import Catalogue
from rota.profiles.simulation_rates import read_rates
from rota.traces.generator_settings import (
    NumberSetting,
    Setting,
    SwitchSetting,
    TextSetting,
    check_settings,
    format_settings,
    read_settings,
)
from rota.traces.trace import Trace

EXAMPLE = "gavel:jobs=500,load=0.5,multi=true,seed=0"

SETTINGS: Mapping[str, Setting] = {
    "jobs": NumberSetting(1, MAX_COUNT),
    "seed": NumberSetting(0, 10**18),
    "mean_gap_seconds": NumberSetting(0, 1e9, whole=False),
    "load": NumberSetting(0.001, 1000, whole=False),
    "gpus": NumberSetting(1, MAX_COUNT),
    "multi": SwitchSetting(),
    "priorities": SwitchSetting(),
    "slo": SwitchSetting(),
    "duration": NumberSetting(1, 1e9, whole=False),
    "tenants": NumberSetting(0, MAX_COUNT),
    "profile": TextSetting("the path of a table of rates"),
}

LOAD, GPUS = 0.5, 108
"""Defaults. The paper's cluster has 108 GPUs."""

_BATCHES: Mapping[str, tuple[int, ...]] = {
    "ResNet-18": (16, 32, 64, 128, 256),
    "ResNet-50": (16, 32, 64, 128),
    "Transformer": (16, 32, 64, 128, 256),
    "LM": (5, 10, 20, 40, 80),
    "Recommendation": (512, 1024, 2048, 4096, 8192),
}
_ALONE = ("Recommendation", "A3C", "CycleGAN")
"""Models that use one GPU only."""

MODELS = (*(f"{name} (batch size {size})" for name, sizes in _BATCHES.items() for size in sizes), "A3C", "CycleGAN")
"""Profiles. A draw is a position in this order."""

_JOBS_SEED, _GAPS_SEED, _SLO_SEED = 2, 3, 6
"""Numbers that are added to the seed for each stream."""


@dataclass(frozen=True, slots=True)
class GavelJob:
    """One drawn job."""

    profile: str
    gpus: int
    seconds: float
    """Run time on exclusive V100s, in seconds."""
    weight: float
    slo: float | None
    """Deadline after the submission, as a multiple of the run time; None if there is none."""


def draw(jobs: int, seed: int, *, multi: bool, priorities: bool, slo: bool, duration: float | None = None) -> list[GavelJob]:
    """Return the jobs of a seed. A larger number of jobs begins with the same jobs."""
    work, limits = random.Random(seed + _JOBS_SEED), random.Random(seed + _SLO_SEED)
    found = []
    for _ in range(jobs):
        size = _gpus(work.uniform(0, 1))
        gpus = size if multi else 1
        seconds = duration if duration is not None else _seconds(work)
        profile = work.choice(MODELS)
        while gpus > 1 and profile.partition(" ")[0] in _ALONE:
            profile = work.choice(MODELS)
        weight = 5.0 if priorities and work.uniform(0, 1) <= 0.2 else 1.0
        found.append(GavelJob(profile, gpus, seconds, weight, _slo(limits.uniform(0, 1)) if slo else None))
    return found


def _gpus(r: float) -> int:
    # The boundaries are those of the published code: exactly 0.8 gives 2, exactly 0.95 gives 4.
    return 2 if 0.7 <= r <= 0.8 else 4 if 0.8 < r <= 0.95 else 8 if r > 0.95 else 1


def _seconds(work: random.Random) -> float:
    exponent = work.uniform(3, 4) if work.random() >= 0.8 else work.uniform(1.5, 3)
    return float(60 * 10**exponent)


def _slo(r: float) -> float:
    return 1.2 if r < 0.33 else 2.0 if r < 0.67 else 10.0


def gaps(jobs: int, seed: int) -> list[float]:
    """Return the times between arrivals for a mean of one second. The first job arrives at 0."""
    stream = random.Random(seed + _GAPS_SEED)
    return [-math.log(1.0 - stream.random()) for _ in range(jobs - 1)]


def gavel_jobs(
    jobs: int = 500,
    seed: int = 0,
    *,
    mean_gap_seconds: float | None = None,
    load: float | None = None,
    gpus: int = GPUS,
    multi: bool = False,
    priorities: bool = False,
    slo: bool = False,
    duration: float | None = None,
    tenants: int = 0,
    profile: str = "",
    rates: Rates | None = None,
) -> Trace:
    """Return a trace of jobs that Gavel would draw.

    `mean_gap_seconds` is the mean time between arrivals; with 0 all jobs arrive at once. Instead of it, `load` is met exactly:
    GPU-seconds of all jobs on exclusive V100s, divided by the GPU-seconds of `gpus` GPUs between the first arrival and the last,
    as if each were a V100. A cluster with slower GPUs is full at a load below 1. The draws stay the same; only the mean depends
    on the load.

    `multi` adds jobs of 2, 4 and 8 GPUs. `priorities` gives one job in five weight 5. `slo` adds deadlines. With `duration` every
    job runs for this time. The jobs belong to the `tenants` in turn. Steps are the run time times the rate on V100s, from the
    table of rates at `profile`, from `rates`, or else from the built-in catalogue. Simulate the trace with the same profile.
    """
    given = {
        "jobs": jobs,
        "seed": seed,
        **({"mean_gap_seconds": mean_gap_seconds} if mean_gap_seconds is not None else {}),
        **({"load": load} if load is not None else {}),
        "gpus": gpus,
        "multi": multi,
        "priorities": priorities,
        "slo": slo,
        **({"duration": duration} if duration is not None else {}),
        "tenants": tenants,
        **({"profile": profile} if profile else {}),
    }
    check_settings("gavel", given, SETTINGS, EXAMPLE)
    if mean_gap_seconds is not None and load is not None:
        raise TraceError(
            "cannot be combined with `load`. Give one of the two.",
            where="gavel",
            field="mean_gap_seconds",
            value=mean_gap_seconds,
            hint=f"like {EXAMPLE}",
        )
    known = rates or (read_rates(profile) if profile else Rates(model=Catalogue()))
    drawn = draw(jobs, seed, multi=multi, priorities=priorities, slo=slo, duration=duration)
    mean = mean_gap_seconds if mean_gap_seconds is not None else _mean_gap(drawn, gaps(jobs, seed), load or LOAD, gpus)
    arrivals, at_s = [], 0.0
    for number, (job, gap) in enumerate(zip(drawn, [0.0, *gaps(jobs, seed)], strict=True)):
        at_s += gap * mean
        arrivals.append(Arrival(at_s, _spec(job, number, tenants, known)))
    return Trace(
        f"gavel:{format_settings({key: value for key, value in given.items() if value or key == 'seed'})}",
        "gavel",
        tuple(arrivals),
    )


def named_gavel(text: str) -> Trace:
    """Return the trace of `gavel:jobs=500,load=0.5,multi=true,seed=0`."""
    return gavel_jobs(**read_settings(text, SETTINGS, EXAMPLE))


def _mean_gap(drawn: list[GavelJob], between: list[float], load: float, gpus: int) -> float:
    """Return the mean time between arrivals that gives this load, in seconds; 0 for a single job."""
    work = sum(job.gpus * job.seconds for job in drawn)
    return work / (gpus * load) / sum(between) if between else 0.0


def _spec(job: GavelJob, number: int, tenants: int, rates: Rates) -> JobSpec:
    rate, _ = rates.rate(job.profile, REFERENCE, job.gpus)
    if not rate > 0:
        raise OptionError(
            f"{job.profile} does not run on {job.gpus} {REFERENCE}s, and Gavel's run times are times on {REFERENCE}s.",
            field="profile",
            value=rate,
            hint="leave profile= out, or give Gavel's simulation_throughputs.json",
        )
    return JobSpec(
        name=f"gavel-{number}",
        gpus=job.gpus,
        # As in the published code, steps are not rounded: a job runs for exactly the time that was drawn.
        steps=job.seconds * rate,
        profile=job.profile,
        weight=job.weight,
        deadline_seconds=None if job.slo is None else job.slo * job.seconds,
        tenant=f"tenant-{number % tenants + 1}" if tenants else "",
    )
