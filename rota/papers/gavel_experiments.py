"""The experiments of Gavel (Narayanan et al., OSDI'20): policies that know how fast each job is on each type of GPU, against
type-agnostic versions of these policies.

Jobs come from Gavel's own generator. Cluster, rounds and prices are those of the paper (the preset `gavel`). Only the length
differs: the paper averages over jobs 4,000 to 5,000 of each trace, and we average over a window in the middle of a shorter trace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.compose.study import Study
from rota.papers.experiment import PaperCell, ReproduceRequest
from rota.traces.generator_settings import format_settings

TITLE = "Gavel: heterogeneity-aware policies, measured again"
PROFILE = "simulation_throughputs.json"
CLUSTER = "36xV100 + 36xP100 + 36xK80"
FACTS = {
    "Paper": "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads, OSDI 2020",
    "Cluster": CLUSTER,
    "Preset": "gavel: rounds of 6 minutes, new shares at most every 32 minutes, free moves",
}
RULE = "Gains are the largest on the curves below, as the paper's are the largest it saw."

LAS, LAS_BLIND, LAS_PACKED = "max-min-fairness", "max-min-fairness:type_aware=false", "max-min-fairness:colocation=true"
FTF, FTF_BLIND = "finish-time-fairness", "finish-time-fairness:type_aware=false"
MAKESPAN, MAKESPAN_BLIND, FIFO, FIFO_BLIND = "makespan", "makespan:type_aware=false", "fifo", "fifo:type_aware=false"
COST, COST_SLO, THROUGHPUT = "min-cost:idle=true", "min-cost:idle=true,slo=true", "max-throughput"
COST_FILLED = "min-cost"
"""Policy that also fills idle GPUs, as in the simulator published with the paper."""
TENANTS = "hierarchical"

WEIGHTS = {"tenant-1": 1.0, "tenant-2": 2.0, "tenant-3": 3.0}
"""Weights of the tenants that share a cluster."""

TENANT_JOB_SECONDS = 3600.0
"""Mean time between the tenants' jobs, in seconds."""

SMALL = "4xV100 + 4xP100 + 4xK80"
"""Cluster for the shares of tenants, which are easier to see with few jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelScale:
    """The size of the experiments."""

    hours: float
    """Length of the arrivals of a continuous trace, in hours."""
    seeds: int
    single: Sequence[float]
    """Jobs per hour, with one GPU each."""
    packed: Sequence[float]
    """Jobs per hour where jobs share GPUs. There are fewer values, because many pairs make large programs."""
    multi: Sequence[float]
    """Jobs per hour, with up to eight GPUs each."""
    static: Sequence[int]
    """Numbers of jobs that are all submitted at the beginning."""
    priced: Sequence[float]
    """Jobs per hour with deadlines."""
    priced_jobs: int
    """Number of jobs with deadlines."""
    solved: Sequence[int]
    """Numbers of jobs for the time of a policy call."""


FULL = GavelScale(
    hours=800,
    seeds=1,
    single=(2, 4, 5, 5.5, 6),
    packed=(4, 6),
    multi=(1, 1.5, 2, 2.5, 3),
    static=(100, 300, 500, 700),
    priced=(4, 8, 12),
    priced_jobs=400,
    solved=(64, 128, 256, 512, 1024, 2048),
)
QUICK = GavelScale(
    hours=240,
    seeds=1,
    single=(2, 6),
    packed=(6,),
    multi=(1, 3),
    static=(100, 500),
    priced=(8,),
    priced_jobs=150,
    solved=(64, 256, 1024),
)
WINDOW = (0.58, 0.75)
"""Fractions of a continuous trace between which jobs count: the cluster is full by then, and most of these jobs end while others
still arrive. At 5.7 jobs per hour these are jobs 2,600 to 3,400; the paper's are 4,000 to 5,000."""

MAX_BY_JOB = 512
"""Largest number of jobs for timing a policy that works on single jobs instead of kinds."""


def cells(request: ReproduceRequest) -> list[PaperCell]:
    profile = str(request.data / PROFILE) if request.data is not None else None
    return grid(QUICK if request.quick else FULL, profile)


def grid(scale: GavelScale, profile: str | None) -> list[PaperCell]:
    """Return every simulation of every experiment."""
    found: list[PaperCell] = []
    for seed in range(scale.seeds):
        shared: dict[str, Any] = {"profile": profile, "seed": seed}
        for experiment, policies, multi, rates in (
            ("single", (LAS_BLIND, LAS), False, scale.single),
            ("single", (LAS_PACKED,), False, scale.packed),
            ("multi", (LAS_BLIND, LAS, FTF_BLIND, FTF), True, scale.multi),
        ):
            for policy in policies:
                found += [_continuous(scale, experiment, policy, rate, multi, shared) for rate in rates]
        for policy in (FIFO_BLIND, FIFO, MAKESPAN_BLIND, MAKESPAN):
            found += [_static(policy, jobs, shared) for jobs in scale.static]
        for policy in (THROUGHPUT, COST_FILLED, COST, COST_SLO):
            found += [_priced(policy, rate, scale.priced_jobs, shared) for rate in scale.priced]
    found.append(_tenants(profile))
    for policy in (LAS, LAS_PACKED, FTF, MAKESPAN):
        found += [_solved(policy, jobs, profile) for jobs in scale.solved if policy != FTF or jobs <= MAX_BY_JOB]
    return found


def _study(
    policy: str, trace: Mapping[str, Any], profile: str | None, seed: int = 0, cluster: str = CLUSTER, **fields: Any
) -> Study:
    """Return a study with jobs from Gavel's generator, drawn with the rates that they run at."""
    drawn = {**trace, "seed": seed, **({"profile": profile} if profile is not None else {})}
    return Study(
        f"gavel:{format_settings(drawn)}", policy=policy, cluster=cluster, preset="gavel", profile=profile, seed=seed, **fields
    )


def _continuous(
    scale: GavelScale, experiment: str, policy: str, rate: float, multi: bool, shared: Mapping[str, Any]
) -> PaperCell:
    jobs = round(rate * scale.hours)
    trace = {"jobs": jobs, "mean_gap_seconds": 3600 / rate, "multi": multi}
    window = (int(WINDOW[0] * jobs), int(WINDOW[1] * jobs))
    study = _study(policy, trace, **shared, window=window)
    return PaperCell(experiment=experiment, label=policy, x=rate, study=study, effort=jobs * rate * (3 if multi else 1))


def _static(policy: str, jobs: int, shared: Mapping[str, Any]) -> PaperCell:
    trace = {"jobs": jobs, "mean_gap_seconds": 0, "multi": True}
    return PaperCell(experiment="makespan", label=policy, x=jobs, study=_study(policy, trace, **shared), effort=jobs)


def _priced(policy: str, rate: float, jobs: int, shared: Mapping[str, Any]) -> PaperCell:
    trace = {"jobs": jobs, "mean_gap_seconds": 3600 / rate, "slo": True}
    return PaperCell(experiment="cost", label=policy, x=rate, study=_study(policy, trace, **shared), effort=jobs * rate)


def _tenants(profile: str | None) -> PaperCell:
    """Return a simulation of jobs that are so long that none ends before the last arrives."""
    trace = {"jobs": 36, "mean_gap_seconds": TENANT_JOB_SECONDS, "tenants": len(WEIGHTS), "duration": 300_000}
    study = _study(TENANTS, trace, profile, cluster=SMALL)
    return PaperCell(experiment="tenants", label=TENANTS, x=0.0, study=study, weights=WEIGHTS)


def _solved(policy: str, jobs: int, profile: str | None) -> PaperCell:
    """Return a policy call with as many GPUs as jobs, a third of each type."""
    gpus = -(-jobs // 3)
    cluster = f"{gpus}xV100 + {gpus}xP100 + {gpus}xK80"
    study = _study(policy, {"jobs": jobs, "mean_gap_seconds": 100}, profile, cluster=cluster)
    return PaperCell(experiment="solve", label=policy, x=jobs, study=study, effort=jobs, solve=True)
