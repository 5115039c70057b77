"""The experiments of Gandiva (Xiao et al., OSDI'18): jobs that take turns and share GPUs, against first come first served, where
each job has its GPUs to itself and the others wait.

The paper's workload and code were never published. Jobs are generated in the shape of such a cluster (`gandiva:` traces), on as
many GPUs as in the paper, all V100s. The scheduler knows how fast jobs are alone. It knows nothing about pairs and must try them.

Fixed before we saw a result: `fifo` as it is, with backfilling; `gandiva` with its defaults, without packing as `--tactics none`;
`tiresias:thresholds=3200`, as in `rota reproduce tiresias`; load 1.2 for the claims, because turns and packing need jobs that
request more GPUs than there are.

Changed after the first results, which had one seed: the cost of spanning servers has its own experiment, because it dominated the
results of `fifo`; throughput is measured while jobs arrive, because later fewer and fewer jobs wait; load 2 was added, because
with packing the cluster keeps up with lower loads; run times are capped at an hour, so that the cluster fills sooner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rota.beliefs.rates import Rates
from rota.compose.study import Study
from rota.papers.experiment import PaperCell, ReproduceRequest
from rota.papers.gandiva_rates import disturbed, made_up_rates, measured_rates, write_rates
from rota.papers.tiresias_experiments import CLUSTER as TIRESIAS_CLUSTER
from rota.papers.tiresias_experiments import JOBS as TIRESIAS_JOBS
from rota.papers.tiresias_experiments import LAS
from rota.traces.generator_settings import format_settings

TITLE = "Gandiva: turns and packing, measured again"
RATES = "simulation_throughputs.json"
CLUSTER = "45x(4xV100)"
GPUS = 180
NOISE = 0.05
FACTS = {
    "Paper": "Gandiva: Introspective Cluster Scheduling for Deep Learning, OSDI 2018",
    "Cluster": f"{CLUSTER}, {GPUS} GPUs as the paper's; against Tiresias {TIRESIAS_CLUSTER}",
    "Jobs": "made up: half like Philly's, half in sweeps of 8 to 32 jobs with early stopping; memory of models is guessed",
    "Searches": "jobs of a sweep show after 500 steps how good they are; the worse are stopped once enough better ones have",
    "Costs": "a launch takes 5 s; a suspended job is parked on its host, at a cost by its memory; measurements are 5% off",
}
RULE = "Figures are means over seeds, each of which draws other jobs."

FIFO, TURNS, GANDIVA, TIRESIAS = "FIFO", "Gandiva without packing", "Gandiva", "Tiresias-L"
MOVES, STAYS = "FIFO with migration", "Gandiva without moves"
WAITS, WAITS_MOVES = "Gandiva, jobs wait for places", "the same with moves"
CONTENDERS: Mapping[str, Mapping[str, Any]] = {
    FIFO: {"policy": "fifo"},
    TURNS: {"policy": "gandiva", "tactics": "none"},
    GANDIVA: {"policy": "gandiva"},
    MOVES: {"policy": "fifo", "tactics": "migrate,defragment"},
    STAYS: {"policy": "gandiva", "tactics": "pack:min_gain=0,grow"},
    WAITS: {"policy": "gandiva", "tactics": "none", "wait_for_locality": True},
    WAITS_MOVES: {"policy": "gandiva", "tactics": "migrate,defragment", "wait_for_locality": True},
    TIRESIAS: {"policy": LAS},
}
BY_LOAD = (FIFO, TURNS, GANDIVA)
BY_PLACE = (FIFO, MOVES, TURNS, STAYS, GANDIVA)
BY_FRAGMENTS = (FIFO, MOVES, STAYS, GANDIVA, WAITS, WAITS_MOVES)
BY_SEARCH = (FIFO, TURNS, GANDIVA)

LOAD = 1.2
"""Load at which the claims are judged."""
FEEDBACK = 500
"""Number of steps after which a search knows how good a job is."""
FEW_LOAD = 0.3
"""Load of searches on few GPUs. Most of them have the GPUs to themselves."""
LINK, DRIVER, STORAGE = "link", "driver", "storage"
SUSPEND_METHODS: Mapping[str, Mapping[str, str]] = {LINK: {"park": "link"}, DRIVER: {"park": "driver"}, STORAGE: {}}
"""Options by how jobs are suspended: parked at link speed, parked by the driver's checkpoint, or saved to storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GandivaScale:
    """The size of the experiments."""

    seeds: int
    jobs: int
    loads: Sequence[float]
    factors: Sequence[float]
    """Factors on the measured rates of pairs."""
    ways: Sequence[str]
    """Ways to suspend jobs."""
    fragments: Sequence[float]
    """Loads at which fragmentation is measured."""
    searches: Sequence[float]
    """Loads at which searches stop bad jobs."""
    few: Sequence[int]
    """Numbers of GPUs for searches alone."""
    few_jobs: int = 200
    tiresias_jobs: int = TIRESIAS_JOBS


FULL = GandivaScale(
    seeds=5,
    jobs=800,
    loads=(0.6, 0.8, 1.0, LOAD, 1.5, 2.0),
    factors=(0.6, 0.8),
    ways=(LINK, DRIVER, STORAGE),
    fragments=(0.6, 0.8, 1.0),
    searches=(0.8, LOAD, 2.0),
    few=(4, 8, 16),
)
QUICK = GandivaScale(
    seeds=1, jobs=800, loads=(LOAD, 2.0), factors=(0.6,), ways=(LINK, STORAGE), fragments=(0.8,), searches=(LOAD,), few=(4,)
)


def cells(request: ReproduceRequest) -> list[PaperCell]:
    rates = measured_rates(request.data / RATES) if request.data is not None else made_up_rates()
    return grid(QUICK if request.quick else FULL, rates, request.inputs)


def grid(scale: GandivaScale, rates: Rates, inputs: Path) -> list[PaperCell]:
    """Return every simulation of every experiment."""
    close = replace(rates, across_nodes={})  # spanning servers is free, except in the experiments about it
    usual = str(write_rates(close, inputs / "rates.csv"))
    apart = str(write_rates(rates, inputs / "apart.csv"))
    found: list[PaperCell] = []

    def add(
        experiment: str,
        labels: Sequence[str],
        x: float,
        load: float,
        profile: str,
        drawn: Mapping[str, float] | None = None,
        **more: Any,
    ) -> None:
        for seed in range(scale.seeds):
            trace = {"jobs": scale.jobs, "seed": seed, "load": load, "gpus": GPUS, **(drawn or {}), "profile": profile}
            for label in labels:
                study = _study(label, trace, **{"park": "link", **more})
                found.append(
                    PaperCell(
                        experiment=experiment,
                        label=label,
                        x=x,
                        group=str(seed),
                        study=study,
                        gangs=experiment == "fragmentation",
                        effort=scale.jobs * load * (0.05 if label in (FIFO, MOVES) else 1.0),
                    )
                )

    for load in scale.loads:
        add("load", BY_LOAD, load, load, usual)
    for factor in scale.factors:
        profile = str(write_rates(disturbed(close, factor), inputs / f"pairs-{factor}.csv"))
        add("interference", (GANDIVA,), factor, LOAD, profile)
    for number, way in enumerate(SUSPEND_METHODS):
        if way in scale.ways and way != LINK:
            add("switching", (TURNS, GANDIVA), number, LOAD, usual, park=SUSPEND_METHODS[way].get("park"))
    add("locality", BY_PLACE, 0.0, LOAD, apart)
    for load in scale.fragments:
        add("fragmentation", BY_FRAGMENTS, load, load, apart, {"sweeps": 0.0})
    for load in scale.searches:
        add("search", BY_SEARCH, load, load, usual, {"feedback_steps": FEEDBACK})
    for gpus in scale.few:
        drawn = {"jobs": scale.few_jobs, "load": FEW_LOAD, "gpus": gpus, "sweeps": 1, "feedback_steps": FEEDBACK}
        add("search alone", BY_SEARCH, gpus, 0.1, usual, drawn, cluster=f"{gpus // 4}x(4xV100)")
    for seed in range(scale.seeds):
        found += [_against_tiresias(label, scale.tiresias_jobs, seed) for label in (TIRESIAS, TURNS)]
    return found


def _study(label: str, trace: Mapping[str, Any], **more: Any) -> Study:
    return Study(
        f"gandiva:{format_settings(trace)}",
        profile=trace["profile"],
        measurement_noise=NOISE,
        seed=trace["seed"],
        **{"cluster": CLUSTER, **CONTENDERS[label], **more},
    )


def _against_tiresias(label: str, jobs: int, seed: int) -> PaperCell:
    """Return a simulation like those of Tiresias' authors: nothing costs anything, and no jobs share GPUs."""
    study = Study(
        f"tiresias:jobs={jobs},seed={seed}",
        cluster=TIRESIAS_CLUSTER,
        preset="ideal",
        seed=seed,
        **CONTENDERS[label],
    )
    return PaperCell(experiment="tiresias", label=label, x=0.0, group=str(seed), study=study, effort=jobs)
