"""The experiments of ONES (Bian et al., SC'21): elastic batch sizes against rigid jobs and against elastic ones with a fixed
batch.

We do not read the paper's own trace. Jobs are generated in its shape (`ones:` traces), with the published examples per second and
epochs. How models scale beyond that is our assumption (`profiles/ones_models.py`). A larger batch needs more training: every run
uses the statistical efficiency that Pollux measured. The paper's baseline by reinforcement learning is left out, because its
network was never published and would have to be trained.

Fixed before the results: thresholds of Tiresias (from 100 to 10,000 GPU-seconds) and the interval of Optimus (from 30 to 600 s),
each the best on seeds 100 to 102, which are in no result. The options of `ones` were set on the same seeds. Its score and first
size were tried on seed 0 before, with fewer jobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.compose.study import Study
from rota.papers.experiment import PaperCell, ReproduceRequest
from rota.traces.generator_settings import format_settings

TITLE = "ONES: elastic batch sizes, measured again"
CLUSTER = "16x(4xRTX5000)"
POLLUX_CLUSTER = "16x(4xT4)"
NEEDS = ("cifar10/placements.csv", "workloads/workload-1.csv")
FACTS = {
    "Paper": "Online Evolutionary Batch Size Orchestration for Scheduling Deep Learning Workloads in GPU Clusters, SC 2021",
    "Cluster": f"{CLUSTER}, 64 GPUs as the paper's; Pollux's workloads on {POLLUX_CLUSTER}",
    "Jobs": "drawn in the shape of the authors' trace: 400 jobs, one every 30 s, with the epochs and rates that they published",
    "Costs": "starting, saving and loading a job take 5 s each; another size on the same nodes 1 s",
}
RULE = "Figures are means over seeds, each of which draws other jobs. In brackets: 95% intervals of the mean."

TIRESIAS, OPTIMUS, ONES = "Tiresias", "Optimus", "ONES"
PUBLISHED, FIXED = "ONES as published", "ONES, fixed batch size"
GOODPUT, GOODPUT_FIXED, MAX_MIN, SRSF, FIFO = "goodput", "goodput, fixed batch size", "max-min, elastic", "SRSF, elastic", "FIFO"
RIGID_GOODPUT = "goodput, fixed sizes"
AS_PUBLISHED = "score=gpu-seconds,batch=largest,epochs_before=2,first_gpus=1,draws=true,interval_seconds=10,generations=4"
CONTENDERS: Mapping[str, Mapping[str, str]] = {
    FIFO: {"policy": "fifo", "elastic": "none"},
    TIRESIAS: {"policy": "tiresias:thresholds=10000", "elastic": "none"},
    OPTIMUS: {"policy": "optimus:interval_seconds=120", "elastic": "gpus"},
    MAX_MIN: {"policy": "max-min-fairness", "elastic": "batch"},
    SRSF: {"policy": "srsf", "elastic": "batch"},
    GOODPUT: {"policy": "goodput", "elastic": "batch"},
    PUBLISHED: {
        "policy": f"ones:{AS_PUBLISHED}",
        "elastic": "batch",
        "tactics": "none",
    },
    FIXED: {"policy": "ones:batch=requested", "elastic": "gpus"},
    ONES: {"policy": "ones", "elastic": "batch"},
    GOODPUT_FIXED: {"policy": "goodput:batch=requested", "elastic": "gpus"},
    RIGID_GOODPUT: {"policy": "goodput", "elastic": "none"},
}
MAIN = (FIFO, TIRESIAS, OPTIMUS, MAX_MIN, SRSF, GOODPUT, PUBLISHED, FIXED, ONES)
COMPARED = (TIRESIAS, OPTIMUS, ONES)
ON_POLLUX = (TIRESIAS, RIGID_GOODPUT, OPTIMUS, GOODPUT_FIXED, GOODPUT, ONES)

COST = 15.0
"""Time that a job loses when it is stopped and started again, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnesScale:
    """The size of the experiments."""

    seeds: int
    jobs: int
    fewer: int
    """Number of jobs in experiments that vary something."""
    populations: Sequence[int]
    costs: Sequence[float]
    gaps: Sequence[float]
    workloads: int


FULL = OnesScale(seeds=5, jobs=400, fewer=150, populations=(2, 4, 8, 32), costs=(1.5, 60.0), gaps=(20.0, 45.0, 60.0), workloads=8)
QUICK = OnesScale(seeds=1, jobs=150, fewer=60, populations=(4,), costs=(60.0,), gaps=(60.0,), workloads=1)


def cells(request: ReproduceRequest) -> list[PaperCell]:
    return grid(QUICK if request.quick else FULL, str(request.data) if request.data is not None else "")


def grid(scale: OnesScale, data: str) -> list[PaperCell]:
    """Return every simulation of every experiment."""
    found: list[PaperCell] = []

    def add(experiment: str, labels: Sequence[str], x: float, jobs: int, gap: float = 30.0, **more: Any) -> None:
        for seed in range(scale.seeds):
            for label in labels:
                trace = f"ones:{format_settings({'jobs': jobs, 'seed': seed, 'gap_seconds': gap})}"
                fields: dict[str, Any] = {**priced(COST), **CONTENDERS[label], **more}
                study = Study(trace, cluster=CLUSTER, seed=seed, **fields)
                found.append(_cell(experiment, label, x, str(seed), study, jobs))

    add("main", MAIN, 0.0, scale.jobs)
    add("fewer", COMPARED, 0.0, scale.fewer)
    for population in scale.populations:
        add("population", (ONES,), population, scale.fewer, policy=f"ones:population={population}")
    for cost in scale.costs:
        add("cost", COMPARED, cost, scale.fewer, **priced(cost))
    for gap in scale.gaps:
        add("load", COMPARED, gap, scale.fewer, gap)
    for number in range(1, scale.workloads + 1 if data else 1):
        for label in ON_POLLUX:
            fields: dict[str, Any] = {"cluster": POLLUX_CLUSTER, "profile": data, **CONTENDERS[label]}
            study = Study(f"{data}/workloads/workload-{number}.csv", **fields)
            found.append(_cell("pollux", label, 0.0, str(number), study, 500))
    return found


def priced(seconds: float) -> dict[str, float]:
    """Return costs of stopping and starting that add up to this, in seconds."""
    each = seconds / 3
    return {
        "launch_seconds": each,
        "checkpoint_seconds": each,
        "restore_seconds": each,
        "resize_seconds": min(1.0, each),
    }


def _cell(experiment: str, label: str, x: float, group: str, study: Study, jobs: int) -> PaperCell:
    slow = label in (ONES, FIXED, PUBLISHED)
    return PaperCell(experiment=experiment, label=label, x=x, group=group, study=study, effort=jobs * (1.0 if slow else 0.1))
