"""The experiments of PAL (Jain et al., SC'24): placements that know how slow each GPU is, against packing that does not.

Rounds, free moves and scores are those of the simulator published with the paper (the preset `blox`). Jobs and GPUs come from the
paper's data; without it both are generated in the same shape. Some experiments go beyond the paper: other draws of the GPUs,
other machines, moves with a cost, rounds that begin at another second.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.compose.study import Study
from rota.papers.experiment import PaperCell, ReproduceRequest
from rota.papers.pal_scores import write_runs

TITLE = "PAL: placement by variability and locality, measured again"
CLUSTER = "16x(4xV100)"
SEED = 42
"""Seed of the published simulator, for scores and for random placement."""
FACTS = {
    "Paper": "PAL: A Variability-Aware Policy for Scheduling ML Workloads in GPU Clusters, SC 2024",
    "Cluster": CLUSTER,
    "Preset": "blox: rounds of 6 minutes at which jobs end, no overtaking, free moves, 1.7 times slower across nodes",
}
RULE = (
    "A gain of 40% means that the figure is 40% less than with sticky packed placement. Per workload it is one minus the "
    "ratio of the two, over workloads one minus the geometric mean of the ratios."
)
NEEDS = ("profiles.json", "traces/workload-*.csv")

PAL, PM_FIRST, OURS = "pal:wide=false", "pm-first", "pal"
PACKED, PACKED_ANEW, RANDOM, RANDOM_ANEW = "packed", "packed:sticky=false", "random", "random:sticky=false"
PAL_STAYS, OURS_STAYS = "pal:wide=false,sticky=true", "pal:sticky=true"
"""Placers that leave a running job where it is. Otherwise the preset places all jobs again in each round."""

PLACERS = (PAL, PM_FIRST, OURS, PACKED, PACKED_ANEW, RANDOM, RANDOM_ANEW)
MAIN = (PAL, PM_FIRST, PACKED)
PRICED = (PAL, PAL_STAYS, OURS, OURS_STAYS, PM_FIRST, PACKED, PACKED_ANEW)
COSTS: Mapping[str, Any] = {"launch_seconds": 5.0, "checkpoint_seconds": 6.0, "restore_seconds": 3.0}
"""Costs of a training process in the preset `measured`."""

SIM, MADE_UP = "Longhorn", "made-up GPUs"
MACHINES: Mapping[str, Mapping[str, str]] = {
    "Frontera": {
        "A": "frontera/frontera-resnet-agg.csv",
        "B": "frontera/frontera-bert-agg.csv",
        "C": "frontera/frontera-bert-agg.csv",
        "D": "frontera/frontera-pagerank-agg.csv",
    },
    "Lonestar6": {
        "A": "ls6/resnet-ls6-agg.csv",
        "B": "sim/bert-longhorn-agg.csv",
        "C": "sim/bert-longhorn-agg.csv",
        "D": "sim/pagerank-longhorn-agg.csv",
    },
}
"""Files of runs by class. At Lonestar6 only class A was measured."""

WORKLOADS = 3
"""Number of generated workloads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PalScale:
    """The size of the experiments."""

    workloads: int
    """Number of workloads for all experiments except that of placements."""
    policies: Mapping[str, Sequence[str]]
    """Policy -> placers."""
    penalties: Sequence[float]
    seeds: Sequence[int]
    machine_seeds: Sequence[int]
    shifts: Sequence[float]
    priced: Sequence[str]


FULL = PalScale(
    workloads=8,
    policies=dict.fromkeys(("fifo", "las", "srtf"), PLACERS),
    penalties=(1.0, 1.5, 2.0, 2.5, 3.0),
    seeds=tuple(range(8)),
    machine_seeds=(42, 0, 1),
    shifts=(0, 60, 120, 180, 240, 300, 359),
    priced=PRICED,
)
QUICK = PalScale(
    workloads=3,
    policies={"fifo": PLACERS, "las": (PAL, PACKED), "srtf": (PAL, PACKED)},
    penalties=(1.0, 3.0),
    seeds=(0, 1, 2, 3),
    machine_seeds=(42,),
    shifts=(0, 180, 359),
    priced=(PAL, PAL_STAYS, OURS_STAYS, PACKED),
)


def cells(request: ReproduceRequest) -> list[PaperCell]:
    scale = QUICK if request.quick else FULL
    if request.data is None:
        names = [f"sia:jobs=160,seed={seed}" for seed in range(WORKLOADS)]
        return grid(scale, {name: name for name in names}, {MADE_UP: str(write_runs(request.inputs))})
    found = {path.stem: str(path) for path in sorted(request.data.glob(NEEDS[1]))}
    return grid(scale, found, {SIM: str(request.data), **_machines(request.data, request.inputs)})


def _machines(data: Path, inputs: Path) -> dict[str, str]:
    """Return machine -> list of its files, for the machines whose files are all there."""
    found = {}
    for name, files in MACHINES.items():
        paths = {key: (data / file).resolve() for key, file in files.items()}
        if all(path.is_file() for path in paths.values()):
            listed = inputs / f"{name}.json"
            listed.write_text(json.dumps({f"class{key}": str(path) for key, path in paths.items()}), "utf-8")
            found[name] = str(listed)
    return found


def grid(scale: PalScale, workloads: Mapping[str, str], machines: Mapping[str, str]) -> list[PaperCell]:
    """Return every simulation of every experiment. Most of them use the first machine."""
    home, path = next(iter(machines.items()))
    few = dict(list(workloads.items())[: scale.workloads])
    found: list[PaperCell] = []

    def add(
        experiment: str,
        placers: Sequence[str],
        among: Mapping[str, str],
        x: float,
        policy: str = "fifo",
        shift_s: float = 0.0,
        **more: Any,
    ) -> None:
        """Add one simulation for each placer and workload."""
        for group, trace in among.items():
            for placer in placers:
                study = _study(trace, policy, placer, {"seed": SEED, "variability": path, **more})
                effort = 2.0 if policy == "las" else 1.0
                found.append(
                    PaperCell(experiment=experiment, label=placer, x=x, group=group, study=study, shift_s=shift_s, effort=effort)
                )

    for number, (policy, placers) in enumerate(scale.policies.items()):
        add("placements", placers, workloads, number, policy)
    for penalty in scale.penalties:
        add("locality", MAIN, few, penalty, spread_penalty=penalty)
    for seed in scale.seeds:
        add("seeds", MAIN, few, seed, seed=seed)
        add("medians", MAIN, few, seed, seed=seed, variability_medians=True)
    for name, other in machines.items():
        for seed in scale.machine_seeds if name != home else ():
            add(f"machine {name}", MAIN, few, seed, seed=seed, variability=other)
    add("moves", scale.priced, few, 0, **COSTS)
    for shift in scale.shifts:
        add("shifts", MAIN, few, shift, shift_s=shift)
    return found


def _study(trace: str, policy: str, placer: str, more: Mapping[str, Any]) -> Study:
    form = "auto" if trace.startswith("sia:") else "pal"
    return Study(trace, policy=policy, placer=placer, cluster=CLUSTER, preset="blox", format=form, **more)
