"""Conclusions from the experiments of ONES: claims, and a section of the page for each experiment."""

from collections.abc import Sequence

import numpy as np

from rota.papers.by_seed import BySeed, by_seed, places, problems
from rota.papers.claims import Claim, claim, unjudged
from rota.papers.experiment import CellResult, Experiment
from rota.papers.intervals import Interval
from rota.papers.ones_experiments import (
    COMPARED,
    COST,
    GOODPUT,
    GOODPUT_FIXED,
    MAIN,
    ON_POLLUX,
    ONES,
    OPTIMUS,
    PUBLISHED,
    RIGID_GOODPUT,
    TIRESIAS,
)
from rota.papers.paper_page import Section
from rota.report.plots import Series, chart

JCT = "mean_jct_seconds"


def lower(ours: BySeed, theirs: BySeed) -> list[float]:
    """Return by how many per cent our figure is lower, for each seed that both have."""
    return [100 * (1 - ours[group] / theirs[group]) for group in ours if theirs.get(group, 0.0) > 0]


def _format_interval(values: Sequence[float], unit: str = "") -> str:
    found = Interval.of(values)
    return "-" if found is None else found.format(unit)


def _reduction(results: Sequence[CellResult], ours: str, theirs: str, paper: float, note: str) -> Claim:
    values = lower(by_seed(results, "main", ours, JCT, 0.0), by_seed(results, "main", theirs, JCT, 0.0))
    found = Interval.of(values)
    name = f"Mean JCT of {ours} below {theirs}"
    if found is None:
        return claim(name, paper=paper, measured=None, unit="%", note="The runs that it compares did not end.")
    seeds = f"Interval {found.low:.3g}% to {found.high:.3g}% over {found.values} seeds. " if found.values > 1 else ""
    return claim(name, paper=paper, measured=found.mean, unit="%", note=f"{seeds}{note}")


def _main(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    claims = [
        _reduction(results, ONES, TIRESIAS, 45.6, "Tiresias keeps jobs at the requested sizes."),
        _reduction(
            results,
            ONES,
            OPTIMUS,
            41.7,
            "Optimus changes numbers of GPUs, not batch sizes, and predicts lengths in the same way.",
        ),
    ]
    as_published = Interval.of(lower(by_seed(results, "main", PUBLISHED, JCT, 0.0), by_seed(results, "main", TIRESIAS, JCT, 0.0)))
    claims.append(
        unjudged(
            f"Mean JCT of {PUBLISHED} below {TIRESIAS}",
            paper=45.6,
            measured=as_published.mean if as_published is not None else None,
            unit="%",
            note="With the score, start with one GPU, batch rule and random draws of the paper. Its score is the remaining GPU "
            "time of the jobs of a schedule. So the best schedules run few jobs with many GPUs each, at sizes where more GPUs "
            "gain little.",
        )
    )
    rows, curves = [], []
    for label in MAIN:
        jct = by_seed(results, "main", label, JCT, 0.0)
        if not jct:
            continue
        against = [lower(jct, by_seed(results, "main", other, JCT, 0.0)) for other in (TIRESIAS, OPTIMUS)]
        others = [
            list(by_seed(results, "main", label, figure, 0.0).values())
            for figure in ("median_jct_seconds", "mean_held_seconds", "makespan_seconds", "gap_to_jct_bound")
        ]
        busy = [100 * each for each in by_seed(results, "main", label, "utilization", 0.0).values()]
        stops = list(by_seed(results, "main", label, "suspensions", 0.0).values())
        rows.append(
            [
                label,
                _format_interval(list(jct.values()), " s"),
                *(_format_interval(values, "%") for values in against),
                *(_format_interval(values, unit) for values, unit in zip(others, (" s", " s", " s", ""), strict=True)),
                _format_interval(busy, "%"),
                _format_interval(stops),
            ]
        )
        spread = [
            each.figures["jct_quantiles"]
            for each in results
            if each.cell.experiment == "main" and each.cell.label == label and "jct_quantiles" in each.figures
        ]
        if spread:
            mean = np.mean(spread, axis=0).tolist()
            curves.append(Series(label=label, x=mean, y=np.linspace(0, 100, len(mean)).tolist()))
    plots = []
    if curves:
        plots.append(
            chart(
                "Finished jobs by time",
                "Quantiles of JCT, means over seeds",
                curves,
                x_title="JCT, seconds",
                y_title="finished jobs, %",
                log_x=True,
            )
        )
    return claims, Section(
        key="main",
        title="Mean JCT",
        lead="All contenders get the same jobs. Elastic jobs may get up to four times the requested GPUs, and other batch sizes "
        "up to the ceiling of the learning rate. The lower statistical efficiency of a larger batch is counted. Gap: distance "
        "of the mean JCT from a bound that no schedule of the same jobs can beat.",
        plots=plots,
        heads=[
            "contender",
            "mean JCT",
            "below Tiresias",
            "below Optimus",
            "median JCT",
            "time with GPUs",
            "makespan",
            "gap",
            "busy",
            "suspensions",
        ],
        rows=rows,
        problems=problems(results, "main"),
    )


def _prediction(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    parts: dict[float, list[tuple[float, float, float]]] = {}
    for each in results:
        if each.cell.experiment == "main" and each.cell.label == ONES:
            for part in each.figures.get("predictions", {}).get("by_progress", []):
                found = parts.setdefault(part["done_upto"], [])
                found.append((part["typical_factor"], part["p90_factor"], part["bias"]))
    rows = [
        [f"up to {upto:.0%}", *(_format_interval([values[at] for values in found], "x") for at in range(3))]
        for upto, found in sorted(parts.items())
    ]
    return [], Section(
        key="prediction",
        title="Predictions of how long jobs train",
        lead="Predictions are noted while a job runs, each time it has trained twice as long, and compared when it ends. At "
        "first nothing is known; later they are based on finished jobs of the same model.",
        heads=["training done", "typical factor off", "nine tenths within", "predicted over true"],
        rows=rows,
    )


def _population(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    usual = by_seed(results, "fewer", ONES, JCT, 0.0)
    rows = []
    for x in places(results, "population"):
        rows.append([f"{x:g}", _format_interval(list(by_seed(results, "population", ONES, JCT, x).values()), " s")])
    rows.append(["16", _format_interval(list(usual.values()), " s")])
    rows.sort(key=lambda row: float(row[0]))
    return [], Section(
        key="population",
        title="Population",
        lead="Number of schedules that are kept from one generation to the next; 16 is the default.",
        heads=["population", "mean JCT"],
        rows=rows if usual else [],
        problems=problems(results, "population"),
    )


def _compared(results: Sequence[CellResult], experiment: str, x: float) -> list[str]:
    jct = {label: by_seed(results, experiment, label, JCT, x) for label in COMPARED}
    against = [_format_interval(lower(jct[ONES], jct[other]), "%") for other in (TIRESIAS, OPTIMUS)]
    return [*(_format_interval(list(values.values()), " s") for values in jct.values()), *against]


_AGAINST = ["mean JCT, Tiresias", "Optimus", "ONES", "below Tiresias", "below Optimus"]


def _cost(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    rows = [[f"{x:g} s", *_compared(results, "cost", x)] for x in places(results, "cost")]
    rows.append([f"{COST:g} s", *_compared(results, "fewer", 0.0)])
    rows.sort(key=lambda row: float(row[0].split()[0]))
    return [], Section(
        key="cost",
        title="Cost of a change of size",
        lead="Time that a job loses when it is stopped and started again on other GPUs or with another size, in seconds. The "
        "paper resizes a job in about a second; Rota stops and starts it unless it stays on its nodes.",
        heads=["a change costs", *_AGAINST],
        rows=rows if len(rows) > 1 else [],
        problems=problems(results, "cost"),
    )


def _load(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    rows = [[f"{x:g} s", *_compared(results, "load", x)] for x in places(results, "load")]
    rows.append(["30 s", *_compared(results, "fewer", 0.0)])
    rows.sort(key=lambda row: float(row[0].split()[0]))
    return [], Section(
        key="load",
        title="Interval between jobs",
        lead="The jobs arrive at longer or shorter intervals.",
        heads=["a job every", *_AGAINST],
        rows=rows if len(rows) > 1 else [],
        problems=problems(results, "load"),
    )


def _pollux(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    jct = {label: by_seed(results, "pollux", label, JCT, 0.0) for label in ON_POLLUX}
    rows = []
    for label, mine in jct.items():
        if mine:
            against = [_format_interval(lower(mine, jct[other]), "%") for other in (TIRESIAS, RIGID_GOODPUT)]
            gap = list(by_seed(results, "pollux", label, "gap_to_jct_bound", 0.0).values())
            rows.append([label, _format_interval([each / 3600 for each in mine.values()], " h"), *against, _format_interval(gap)])
    found = []
    if jct[GOODPUT] and jct[TIRESIAS]:
        margins = lower(jct[GOODPUT], jct[TIRESIAS])
        found.append(f"goodput is below Tiresias on {sum(each > 0 for each in margins)} of {len(margins)} workloads.")
        fixed = lower(jct[GOODPUT], jct[GOODPUT_FIXED])
        found.append(f"Choosing the batch size saves goodput {_format_interval(fixed, '%')} of mean JCT.")
    return [], Section(
        key="pollux",
        title="Pollux's workloads",
        lead="Eight workloads of 160 jobs on 64 T4s, with measured step times for each number of GPUs and batch size. The "
        "scheduler uses a model that was fitted to them. The sizes in the trace were tuned by Pollux's authors for each job.",
        heads=["contender", "mean JCT", "below Tiresias", "below goodput with fixed sizes", "gap"],
        rows=rows,
        found=found,
        problems=problems(results, "pollux"),
    )


EXPERIMENTS: Sequence[Experiment] = (_main, _prediction, _population, _cost, _load, _pollux)
