"""What the experiments of Gandiva come to: claims beside the paper's, and a section of the page for each experiment."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rota.papers.cells import CellResult
from rota.papers.claims import Claim, claim, mean
from rota.papers.gandiva import BY_PLACE, FIFO, GANDIVA, LINK, LOAD, MOVES, TIRESIAS, TURNS, WAYS
from rota.papers.page import Section
from rota.report.plots import Plot, Series, chart

THROUGHPUT, PER_GPU, FEEDBACK = "throughput", "work_per_gpu_second", "mean_feedback_seconds"
LOOK, BEST, JCT = "search_look_seconds", "search_best_seconds", "mean_jct_seconds"

LITTLE_PERCENT, LITTLE_TIMES = 1.0, 1.5
"""Gains that are less count as vanished."""

BySeed = Mapping[str, float]


def conclude(results: Sequence[CellResult]) -> tuple[list[Claim], list[Section]]:
    claims: list[Claim] = []
    sections: list[Section] = []
    for experiment in (_throughput, _feedback, _search, _interference, _switching, _locality, _tiresias):
        found, section = experiment(results)
        claims += found
        sections.append(replace(section, claims=found))
    return claims, sections


def by_seed(results: Sequence[CellResult], experiment: str, label: str, figure: str, x: float) -> BySeed:
    """One figure at one place of an experiment."""
    return {
        each.cell.group: float(each.figures[figure])
        for each in results
        if (each.cell.experiment, each.cell.label, each.cell.x) == (experiment, label, x) and each.figures.get(figure) is not None
    }


def times(more: BySeed, less: BySeed) -> list[float]:
    """How many times more one is than the other, by the seeds that both have."""
    return [more[seed] / less[seed] for seed in more if less.get(seed, 0.0) > 0]


def percent(more: BySeed, less: BySeed) -> list[float]:
    """How much more one is than the other."""
    return [100 * (ratio - 1) for ratio in times(more, less)]


def _places(results: Sequence[CellResult], experiment: str) -> list[float]:
    return sorted({each.cell.x for each in results if each.cell.experiment == experiment})


def _problems(results: Sequence[CellResult], experiment: str) -> list[str]:
    return [
        f"{each.cell.label} at {each.cell.x:g}, seed {each.cell.group}: {each.error}"
        for each in results
        if each.cell.experiment == experiment and each.error
    ]


def _over(values: Sequence[float], unit: str) -> str:
    """Where each seed has one: the mean, the least and the most."""
    if not values:
        return "-"
    told = f"{_short(mean(values))}{unit}"
    return told if len(values) == 1 else f"{told} ({_short(min(values))} to {_short(max(values))})"


def _short(value: float) -> str:
    # Rounded first, so that nothing is -0 or a tiny power of ten.
    return f"{value:,.0f}" if abs(value) >= 100 else f"{round(value, 3) + 0.0:.3g}"


def _judged(
    name: str, paper: float, values: Sequence[float], note: str, unit: str = "x", *, below: bool = False, above: bool = False
) -> Claim:
    if not values:
        return claim(name, paper=paper, measured=None, unit=unit, note="No two of the runs that it needs have ended.")
    seeds = f"Mean of {len(values)} seeds, from {min(values):.3g}{unit} to {max(values):.3g}{unit}. " if len(values) > 1 else ""
    return claim(name, paper=paper, measured=mean(values), unit=unit, note=f"{seeds}{note}".strip(), below=below, above=above)


def _curves(
    title: str, about: str, curves: Mapping[str, Mapping[float, Sequence[float]]], y: str, *, log_y: bool = False
) -> list[Plot]:
    series = []
    for label, points in curves.items():
        known = {x: mean(values) for x, values in points.items() if values}
        if known:
            series.append(Series(label=label, x=list(known), y=list(known.values())))
    return [chart(title, about, series, x_title="load", y_title=y, log_y=log_y)] if series else []


def _vanishes(points: Mapping[float, Sequence[float]], little: float, told: str, what: str) -> list[str]:
    """A sentence on where there is little to gain."""
    gone = [x for x, values in points.items() if values and mean(values) < little]
    return [f"{told} at {what} {', '.join(f'{x:g}' for x in gone)}."] if gone else []


# By load -------------------------------------------------------------------------------------------------------------


def _throughput(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    loads = _places(results, "load")

    def gains(than: str, figure: str) -> dict[float, list[float]]:
        return {
            x: percent(by_seed(results, "load", GANDIVA, figure, x), by_seed(results, "load", than, figure, x)) for x in loads
        }

    packing, against_fifo, per_gpu = gains(TURNS, THROUGHPUT), gains(FIFO, THROUGHPUT), gains(TURNS, PER_GPU)
    claims = [
        _judged(
            f"Throughput from packing, load {x:g}",
            26,
            packing.get(x, []),
            f"Work done while jobs arrive, against turns alone; against FIFO {_over(against_fifo.get(x, []), '%')}. "
            f"For each GPU-second taken in the whole run {_over(per_gpu.get(x, []), '%')} more.",
            "%",
        )
        for x in dict.fromkeys((LOAD, max(loads, default=LOAD)))
    ]
    rows = [
        [f"{x:g}", *(_over(each[x], "%") for each in (packing, against_fifo, per_gpu)), *_work(results, x)]
        for x in loads
        if packing[x]
    ]
    return claims, Section(
        key="throughput",
        title="Throughput",
        lead="Work done in the time in which jobs arrive, without its first quarter. The work of a job is the GPU-seconds that "
        "it takes on GPUs of its own. More than the load cannot be done: where packing lets the cluster keep up, there is "
        "nothing more to gain.",
        plots=_curves(
            "Throughput gained by packing",
            "Gandiva against the same without packing, and against FIFO; means over seeds",
            {"against turns alone": packing, "against FIFO": against_fifo},
            "gain, %",
        ),
        heads=["load", "against turns alone", "against FIFO", "per GPU-second taken", FIFO, TURNS, GANDIVA],
        rows=rows,
        found=_vanishes(packing, LITTLE_PERCENT, "Packing gains less than 1%", "load"),
        problems=_problems(results, "load"),
    )


def _work(results: Sequence[CellResult], x: float) -> list[str]:
    return [_over(list(by_seed(results, "load", label, THROUGHPUT, x).values()), "") for label in (FIFO, TURNS, GANDIVA)]


def _feedback(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    loads = _places(results, "load")
    seconds = {
        label: {x: list(by_seed(results, "load", label, FEEDBACK, x).values()) for x in loads} for label in (FIFO, TURNS, GANDIVA)
    }
    gains = {x: times(by_seed(results, "load", FIFO, FEEDBACK, x), by_seed(results, "load", GANDIVA, FEEDBACK, x)) for x in loads}
    late = times(
        by_seed(results, "load", FIFO, "p95_feedback_seconds", LOAD),
        by_seed(results, "load", GANDIVA, "p95_feedback_seconds", LOAD),
    )
    claims = [
        _judged(
            "Mean time to the first 100 steps, against FIFO",
            4.5,
            gains.get(LOAD, []),
            f"At load {LOAD:g}; the 95th percentile {_over(late, 'x')} lower.",
        )
    ]
    rows = [
        [f"{x:g}", *(_over(each[x], " s") for each in seconds.values()), _over(gains[x], "x"), _jct(results, x)]
        for x in loads
        if gains[x]
    ]
    return claims, Section(
        key="feedback",
        title="Early feedback",
        lead="Time from the submission of a job until it has made its first 100 steps, or all of them if it has fewer.",
        plots=_curves("Time to the first 100 steps", "Means over jobs and seeds", seconds, "seconds", log_y=True),
        heads=["load", *seconds, "FIFO over Gandiva", "mean JCT, FIFO over Gandiva"],
        rows=rows,
        found=_vanishes(gains, LITTLE_TIMES, f"Feedback comes less than {LITTLE_TIMES:g} times earlier", "load"),
    )


def _jct(results: Sequence[CellResult], x: float) -> str:
    return _over(times(by_seed(results, "load", FIFO, JCT, x), by_seed(results, "load", GANDIVA, JCT, x)), "x")


def _search(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    loads = _places(results, "load")
    looks, bests = (
        {x: times(by_seed(results, "load", FIFO, figure, x), by_seed(results, "load", GANDIVA, figure, x)) for x in loads}
        for figure in (LOOK, BEST)
    )
    largest = _largest_sweep(results, LOAD)
    note = (
        f"At load {LOAD:g}; published as up to an order of magnitude. Until the best job ends {_over(bests.get(LOAD, []), 'x')}."
    )
    if largest is not None:
        note += f" Of single sweeps, {largest:.3g}x at most."
    rows = [[f"{x:g}", _over(looks[x], "x"), _over(bests[x], "x")] for x in loads if looks[x]]
    return [_judged("Search: a first look at every job of a sweep, against FIFO", 10, looks.get(LOAD, []), note)], Section(
        key="search",
        title="Hyper-parameter search",
        lead="Sweeps of 8 to 32 one-GPU jobs that are submitted together. First look: every job of a sweep has made its first "
        "100 steps, and those that are not worth it can be stopped. Best job: one ends that was not stopped early, the mean over "
        "those, since any of them may be the best. Which jobs are stopped, and after how many steps, is part of the trace: it "
        "does not depend on the policy.",
        plots=_curves(
            "Searches: how many times sooner than with FIFO",
            "Means over sweeps and seeds",
            {"first look at all": looks, "best job": bests},
            "times",
            log_y=True,
        ),
        heads=["load", "first look at all", "best job"],
        rows=rows,
        found=_vanishes(bests, LITTLE_TIMES, f"The best job ends less than {LITTLE_TIMES:g} times sooner", "load"),
    )


def _largest_sweep(results: Sequence[CellResult], x: float) -> float | None:
    known = {
        (each.cell.label, each.cell.group, sweep): seconds
        for each in results
        if each.cell.experiment == "load" and each.cell.x == x
        for sweep, seconds in each.figures.get("searches", {}).items()
    }
    ratios = [
        seconds / known[GANDIVA, seed, sweep]
        for (label, seed, sweep), seconds in known.items()
        if label == FIFO and known.get((GANDIVA, seed, sweep), 0.0) > 0
    ]
    return max(ratios, default=None)


# What it depends on --------------------------------------------------------------------------------------------------


def _interference(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    turns = by_seed(results, "load", TURNS, THROUGHPUT, LOAD)
    gains = {
        x: percent(by_seed(results, "interference", GANDIVA, THROUGHPUT, x), turns) for x in _places(results, "interference")
    }
    gains[1.0] = percent(by_seed(results, "load", GANDIVA, THROUGHPUT, LOAD), turns)
    gains = {x: values for x, values in sorted(gains.items()) if values}
    return [], Section(
        key="interference",
        title="How much jobs disturb each other",
        lead=f"Load {LOAD:g}. Both rates of every pair times a factor; no job is faster than alone. 1 is as measured. What a "
        "pair does is found out by trials, so that bad pairs cost their trials and no more.",
        heads=["pairs times", "throughput from packing"],
        rows=[[f"{x:g}", _over(values, "%")] for x, values in gains.items()],
        found=_vanishes(gains, LITTLE_PERCENT, "Packing gains less than 1%", "a factor of"),
        problems=_problems(results, "interference"),
    )


def _switching(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    fifo = {figure: by_seed(results, "load", FIFO, figure, LOAD) for figure in (FEEDBACK, PER_GPU, THROUGHPUT)}
    rows = []
    lost: dict[str, list[float]] = {}
    for number, way in enumerate(WAYS):
        experiment, x = ("load", LOAD) if way == LINK else ("switching", float(number))
        for label in (TURNS, GANDIVA):
            sooner = times(fifo[FEEDBACK], by_seed(results, experiment, label, FEEDBACK, x))
            more = percent(by_seed(results, experiment, label, THROUGHPUT, x), fifo[THROUGHPUT])
            less = [-each for each in percent(by_seed(results, experiment, label, PER_GPU, x), fifo[PER_GPU])]
            stops = list(by_seed(results, experiment, label, "suspensions", x).values())
            if label == TURNS:
                lost[way] = less
            if sooner:
                said = [_over(sooner, "x"), _over(more, "%"), _over(less, "%") if label == TURNS else "-", f"{mean(stops):,.0f}"]
                rows.append([way, label, *said])
    note = f"GPU-seconds of turns without packing that FIFO would not have taken. Load {LOAD:g}, {LINK}."
    return [_judged("Lost to switching", 2, lost.get(LINK, []), f"Less is better. {note}", "%", below=True)], Section(
        key="switching",
        title="What switching costs",
        lead="A suspended job sleeps on its host: its memory goes there at the speed of the link, or by the driver's own "
        "checkpoint; or it is written to storage and launched anew. Turns are as long as their cost asks: no more than 2% is to "
        f"be lost. Load {LOAD:g}.",
        heads=["suspended jobs", "contender", "feedback sooner than FIFO", "throughput over FIFO", "lost", "suspensions"],
        rows=rows,
        problems=_problems(results, "switching"),
    )


def _locality(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    rows = []
    for label in BY_PLACE:
        figures = [
            list(by_seed(results, "locality", label, figure, 0.0).values())
            for figure in (THROUGHPUT, PER_GPU, FEEDBACK, JCT, "makespan_seconds")
        ]
        if figures[0]:
            units = ("", "", " s", " s", " s")
            rows.append([label, *(_over(values, unit) for values, unit in zip(figures, units, strict=True))])
    fifo = by_seed(results, "locality", FIFO, PER_GPU, 0.0)
    said = {label: percent(by_seed(results, "locality", label, PER_GPU, 0.0), fifo) for label in (MOVES, TURNS, GANDIVA)}
    return [], Section(
        key="locality",
        title="Where gangs that span servers are slower",
        lead=f"Load {LOAD:g}, with rates of gangs whose GPUs are all on other servers for every gang that spans servers. Jobs of "
        "8 GPUs span two in any case, and their run times are drawn so; jobs of 2 and 4 do where no server has room, and stay "
        "there unless they are migrated.",
        heads=["contender", "throughput", "work per GPU-second", "first 100 steps", "mean JCT", "makespan"],
        rows=rows,
        found=[f"{label}: {_over(gains, '%')} more work per GPU-second than FIFO." for label, gains in said.items() if gains],
        problems=_problems(results, "locality"),
    )


def _tiresias(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    slower = times(by_seed(results, "tiresias", TURNS, JCT, 0.0), by_seed(results, "tiresias", TIRESIAS, JCT, 0.0))
    sooner = times(by_seed(results, "tiresias", TIRESIAS, FEEDBACK, 0.0), by_seed(results, "tiresias", TURNS, FEEDBACK, 0.0))
    rows = [
        [label, *(_over(list(by_seed(results, "tiresias", label, figure, 0.0).values()), " s") for figure in (JCT, FEEDBACK))]
        for label in (TIRESIAS, TURNS)
        if by_seed(results, "tiresias", label, JCT, 0.0)
    ]
    note = (
        "On Tiresias' workload, where nothing costs; 2.2x in the simulator of its authors. Gandiva was not made for short JCTs."
    )
    if sooner:
        note += f" Its first 100 steps come {_over(sooner, 'x')} as soon."
    return [_judged("Mean JCT of Gandiva without packing over Tiresias", 2.2, slower, note)], Section(
        key="tiresias",
        title="Against Tiresias",
        lead="480 jobs in the shape of Tiresias' testbed on 60 GPUs; neither placement nor switching costs anything.",
        heads=["contender", "mean JCT", "first 100 steps"],
        rows=rows,
        problems=_problems(results, "tiresias"),
    )
