"""The experiments of Tiresias (Gu et al., NSDI'19): queues by attained service, which need no knowledge of jobs, against first
come first served on whole nodes and against policies that know every run time.

The cluster is the paper's testbed, and the jobs are generated in the shape of its workload. There are three settings: that of the
published simulator, in which placement and preemption are free; one in which models that are mostly one tensor are slower if they
are spread; and one in which, in addition, a resume costs half a minute.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rota.compose.study import Study
from rota.papers.experiment import PaperCell, ReproduceRequest
from rota.traces.tiresias_jobs import SKEWED

TITLE = "Tiresias: least attained service, measured again"
CLUSTER = "15x(4xP100)"
JOBS = 480
FACTS = {
    "Paper": "Tiresias: A GPU Cluster Manager for Distributed Deep Learning, NSDI 2019",
    "Cluster": CLUSTER,
    "Jobs": f"{JOBS} per seed, drawn in the shape of the paper's testbed workload, which has no licence to be passed on",
    "Preset": "ideal: decisions at events, a job runs for the time that was drawn",
}
RULE = (
    "Where less is better, it holds up to a quarter more than published. Figures are means over seeds, each of which draws "
    "other jobs."
)

PENALTY = 1 / 0.6
"""Slowdown across nodes of a skewed model that fits on one node, as a factor. Wider jobs span nodes anyway, and other models are
not slower."""
SPREAD = {"": 1.0, **dict.fromkeys(SKEWED, PENALTY)}
RESUME = {"checkpoint_seconds": 10.0, "restore_seconds": 20.0}
"""Cost of suspending and resuming a job: half a minute."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "free": {},
    "placed": {"spread_penalty": SPREAD},
    "resumed": {"spread_penalty": SPREAD, **RESUME},
}


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy with a placer."""

    policy: str
    placer: str
    options: Mapping[str, Any] = field(default_factory=dict)


LAS, GITTINS = "tiresias:thresholds=3200", "gittins:thresholds=3200"
WAITS = {"wait_for_locality": True}
"""Option that makes a job wait for the best possible placement."""

YARN, FIFO, SRTF, SRSF, TIRESIAS_L, TIRESIAS_G = "YARN-CS", "FIFO", "SRTF", "SRSF", "Tiresias-L", "Tiresias-G"
GANDIVA = "Gandiva"
"""Only turns, as the authors of Tiresias simulate it: jobs do not share GPUs."""
CONTENDERS: Mapping[str, Contender] = {
    YARN: Contender("fifo", "packed", WAITS),
    FIFO: Contender("fifo", "packed"),
    SRTF: Contender("srtf", "packed"),
    SRSF: Contender("srsf", "packed"),
    GANDIVA: Contender("gandiva", "packed", {"tactics": "none"}),
    TIRESIAS_L: Contender(LAS, "skew", WAITS),
    TIRESIAS_G: Contender(GITTINS, "skew", WAITS),
    f"{TIRESIAS_L}, packed": Contender(LAS, "packed"),
    f"{TIRESIAS_G}, packed": Contender(GITTINS, "packed"),
    f"{TIRESIAS_L}, spread": Contender(LAS, "spread"),
    f"{TIRESIAS_L}, random": Contender(LAS, "random"),
}
EFFORT: Mapping[str, float] = {GITTINS: 2.0, "gandiva": 8.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class TiresiasScale:
    """The size of the experiments."""

    seeds: int
    jobs: int = JOBS
    contenders: Sequence[str] = tuple(CONTENDERS)


FULL, QUICK = TiresiasScale(seeds=5), TiresiasScale(seeds=2)


def cells(request: ReproduceRequest) -> list[PaperCell]:
    return grid(QUICK if request.quick else FULL)


def grid(scale: TiresiasScale) -> list[PaperCell]:
    """Return every simulation of every setting."""
    return [
        _cell(setting, label, seed, scale.jobs)
        for setting in SETTINGS
        for label in scale.contenders
        for seed in range(scale.seeds)
    ]


def _cell(setting: str, label: str, seed: int, jobs: int) -> PaperCell:
    contender, physics = CONTENDERS[label], SETTINGS[setting]
    penalty = PENALTY if "spread_penalty" in physics else 1.0
    study = Study(
        f"tiresias:jobs={jobs},seed={seed},spread_penalty={penalty}",
        policy=contender.policy,
        placer=contender.placer,
        cluster=CLUSTER,
        preset="ideal",
        seed=seed,
        **physics,
        **contender.options,
    )
    return PaperCell(experiment=setting, label=label, x=seed, study=study, effort=EFFORT.get(contender.policy, 1.0))
