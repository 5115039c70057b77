"""Conclusions from the experiments of Gandiva: claims, and a section of the page for each experiment."""

from collections.abc import Sequence

from rota.papers.by_seed import by_seed, curves, interval, judged, percent, places, problems, times, vanishes
from rota.papers.claims import Claim, mean
from rota.papers.experiment import CellResult, Experiment
from rota.papers.gandiva_experiments import BY_PLACE, FIFO, GANDIVA, LINK, LOAD, MOVES, STAYS, SUSPEND_METHODS, TIRESIAS, TURNS
from rota.papers.gandiva_moves import fragmentation
from rota.papers.gandiva_stopping import early_stopping
from rota.papers.paper_page import Section

THROUGHPUT, PER_GPU, FEEDBACK = "throughput", "work_per_gpu_second", "mean_feedback_seconds"
LOOK, BEST, JCT = "search_look_seconds", "search_best_seconds", "mean_jct_seconds"

LITTLE_PERCENT, LITTLE_TIMES = 1.0, 1.5
"""Smaller gains, in per cent and as a factor, count as none."""


# By load -------------------------------------------------------------------------------------------------------------


def _throughput(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    loads = places(results, "load")

    def gains(than: str, figure: str) -> dict[float, list[float]]:
        return {
            x: percent(by_seed(results, "load", GANDIVA, figure, x), by_seed(results, "load", than, figure, x)) for x in loads
        }

    colocation, against_fifo, per_gpu = gains(TURNS, THROUGHPUT), gains(FIFO, THROUGHPUT), gains(TURNS, PER_GPU)
    claims = [
        judged(
            f"Throughput from packing, load {x:g}",
            26,
            colocation.get(x, []),
            f"Work done while jobs arrive, against turns alone; against FIFO {interval(against_fifo.get(x, []), '%')}. "
            f"Per GPU-second occupied in the whole run, {interval(per_gpu.get(x, []), '%')} more.",
            "%",
        )
        for x in dict.fromkeys((LOAD, max(loads, default=LOAD)))
    ]
    rows = [
        [f"{x:g}", *(interval(each[x], "%") for each in (colocation, against_fifo, per_gpu)), *_work(results, x)]
        for x in loads
        if colocation[x]
    ]
    return claims, Section(
        key="throughput",
        title="Throughput",
        lead="Work done in the time in which jobs arrive, without its first quarter. The work of a job is the GPU-seconds that "
        "it needs without sharing. A cluster cannot do more work than arrives, so there is nothing more to gain once packing "
        "lets it keep up with the load.",
        plots=curves(
            "Throughput gained by packing",
            "Gandiva against the same without packing, and against FIFO; means over seeds",
            {"against turns alone": colocation, "against FIFO": against_fifo},
            "gain, %",
        ),
        heads=["load", "against turns alone", "against FIFO", "per GPU-second occupied", FIFO, TURNS, GANDIVA],
        rows=rows,
        found=vanishes(colocation, LITTLE_PERCENT, "Packing gains less than 1%", "load"),
        problems=problems(results, "load"),
    )


def _work(results: Sequence[CellResult], x: float) -> list[str]:
    return [interval(list(by_seed(results, "load", label, THROUGHPUT, x).values()), "") for label in (FIFO, TURNS, GANDIVA)]


def _feedback(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    loads = places(results, "load")
    seconds = {
        label: {x: list(by_seed(results, "load", label, FEEDBACK, x).values()) for x in loads} for label in (FIFO, TURNS, GANDIVA)
    }
    gains = {x: times(by_seed(results, "load", FIFO, FEEDBACK, x), by_seed(results, "load", GANDIVA, FEEDBACK, x)) for x in loads}
    late = times(
        by_seed(results, "load", FIFO, "p95_feedback_seconds", LOAD),
        by_seed(results, "load", GANDIVA, "p95_feedback_seconds", LOAD),
    )
    claims = [
        judged(
            "Mean time to the first 100 steps, against FIFO",
            4.5,
            gains.get(LOAD, []),
            f"At load {LOAD:g}; the 95th percentile {interval(late, 'x')} lower.",
        )
    ]
    rows = [
        [f"{x:g}", *(interval(each[x], " s") for each in seconds.values()), interval(gains[x], "x"), _jct(results, x)]
        for x in loads
        if gains[x]
    ]
    return claims, Section(
        key="feedback",
        title="Early feedback",
        lead="Time from the submission of a job to its first 100 steps, or to its end if it has fewer.",
        plots=curves("Time to the first 100 steps", "Means over jobs and seeds", seconds, "seconds", log_y=True),
        heads=["load", *seconds, "FIFO over Gandiva", "mean JCT, FIFO over Gandiva"],
        rows=rows,
        found=vanishes(gains, LITTLE_TIMES, f"Feedback comes less than {LITTLE_TIMES:g} times earlier", "load"),
    )


def _jct(results: Sequence[CellResult], x: float) -> str:
    return interval(times(by_seed(results, "load", FIFO, JCT, x), by_seed(results, "load", GANDIVA, JCT, x)), "x")


def _search(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    loads = places(results, "load")
    looks, bests = (
        {x: times(by_seed(results, "load", FIFO, figure, x), by_seed(results, "load", GANDIVA, figure, x)) for x in loads}
        for figure in (LOOK, BEST)
    )
    largest = _largest_sweep(results, LOAD)
    ends = interval(bests.get(LOAD, []), "x")
    note = f"At load {LOAD:g}; published as up to an order of magnitude. Until the best job ends {ends}."
    if largest is not None:
        note += f" Of single sweeps, {largest:.3g}x at most."
    rows = [[f"{x:g}", interval(looks[x], "x"), interval(bests[x], "x")] for x in loads if looks[x]]
    return [judged("Search: a first look at every job of a sweep, against FIFO", 10, looks.get(LOAD, []), note)], Section(
        key="search",
        title="Hyper-parameter search",
        lead="Sweeps of 8 to 32 one-GPU jobs that are submitted together. First look: every job of a sweep has made its first "
        "100 steps, so bad jobs can be stopped. Best job: the mean end of the jobs that were not stopped early, since any of "
        "them may be the best. Which jobs are stopped, and after how many steps, is part of the trace and does not depend on "
        "the policy.",
        plots=curves(
            "Searches: how many times sooner than with FIFO",
            "Means over sweeps and seeds",
            {"first look at all": looks, "best job": bests},
            "times",
            log_y=True,
        ),
        heads=["load", "first look at all", "best job"],
        rows=rows,
        found=vanishes(bests, LITTLE_TIMES, f"The best job ends less than {LITTLE_TIMES:g} times sooner", "load"),
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
    gains = {x: percent(by_seed(results, "interference", GANDIVA, THROUGHPUT, x), turns) for x in places(results, "interference")}
    gains[1.0] = percent(by_seed(results, "load", GANDIVA, THROUGHPUT, LOAD), turns)
    gains = {x: values for x, values in sorted(gains.items()) if values}
    return [], Section(
        key="interference",
        title="Interference between jobs",
        lead=f"Load {LOAD:g}. Both rates of every pair are multiplied by a factor; no job is faster than alone. 1 is as "
        "measured. Pairs are tried, so bad pairs cost only their trials.",
        heads=["pairs times", "throughput from packing"],
        rows=[[f"{x:g}", interval(values, "%")] for x, values in gains.items()],
        found=vanishes(gains, LITTLE_PERCENT, "Packing gains less than 1%", "a factor of"),
        problems=problems(results, "interference"),
    )


def _switching(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    fifo = {figure: by_seed(results, "load", FIFO, figure, LOAD) for figure in (FEEDBACK, PER_GPU, THROUGHPUT)}
    rows = []
    lost: dict[str, list[float]] = {}
    for number, way in enumerate(SUSPEND_METHODS):
        experiment, x = ("load", LOAD) if way == LINK else ("switching", float(number))
        for label in (TURNS, GANDIVA):
            sooner = times(fifo[FEEDBACK], by_seed(results, experiment, label, FEEDBACK, x))
            more = percent(by_seed(results, experiment, label, THROUGHPUT, x), fifo[THROUGHPUT])
            less = [-each for each in percent(by_seed(results, experiment, label, PER_GPU, x), fifo[PER_GPU])]
            stops = list(by_seed(results, experiment, label, "suspensions", x).values())
            if label == TURNS:
                lost[way] = less
            if sooner:
                figures = [
                    interval(sooner, "x"),
                    interval(more, "%"),
                    interval(less, "%") if label == TURNS else "-",
                    f"{mean(stops):,.0f}",
                ]
                rows.append([way, label, *figures])
    note = f"GPU-seconds of turns without packing that FIFO would not have taken. Load {LOAD:g}, {LINK}."
    return [judged("Lost to switching", 2, lost.get(LINK, []), f"Less is better. {note}", "%", below=True)], Section(
        key="switching",
        title="Cost of switching",
        lead="A suspended job is parked on its host at the speed of the link, parked by the driver's own checkpoint, or saved to "
        f"storage. Turns are long enough that at most 2% is lost to switching. Load {LOAD:g}.",
        heads=["suspended jobs", "contender", "feedback sooner than FIFO", "throughput over FIFO", "lost", "suspensions"],
        rows=rows,
        problems=problems(results, "switching"),
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
            rows.append([label, *(interval(values, unit) for values, unit in zip(figures, units, strict=True))])
    fifo = by_seed(results, "locality", FIFO, PER_GPU, 0.0)
    gained = {label: percent(by_seed(results, "locality", label, PER_GPU, 0.0), fifo) for label in (MOVES, TURNS, STAYS, GANDIVA)}
    return [], Section(
        key="locality",
        title="Gangs that are slower across servers",
        lead=f"Load {LOAD:g}. A gang that spans servers runs at the rate of a gang whose GPUs are all on different servers. "
        "Jobs of 8 GPUs always span two servers, and their run times are drawn for that. Jobs of 2 and 4 GPUs do so if no "
        "server has room, and stay there unless they are migrated.",
        heads=["contender", "throughput", "work per GPU-second", "first 100 steps", "mean JCT", "makespan"],
        rows=rows,
        found=[
            f"{label}: {interval(gains, '%')} more work per GPU-second than FIFO." for label, gains in gained.items() if gains
        ],
        problems=problems(results, "locality"),
    )


def _tiresias(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    slower = times(by_seed(results, "tiresias", TURNS, JCT, 0.0), by_seed(results, "tiresias", TIRESIAS, JCT, 0.0))
    sooner = times(by_seed(results, "tiresias", TIRESIAS, FEEDBACK, 0.0), by_seed(results, "tiresias", TURNS, FEEDBACK, 0.0))
    rows = [
        [label, *(interval(list(by_seed(results, "tiresias", label, figure, 0.0).values()), " s") for figure in (JCT, FEEDBACK))]
        for label in (TIRESIAS, TURNS)
        if by_seed(results, "tiresias", label, JCT, 0.0)
    ]
    note = (
        "On Tiresias' workload, where nothing costs; 2.2x in the simulator of its authors. Gandiva was not made for short JCTs."
    )
    if sooner:
        note += f" Its first 100 steps come {interval(sooner, 'x')} as soon."
    return [judged("Mean JCT of Gandiva without packing over Tiresias", 2.2, slower, note)], Section(
        key="tiresias",
        title="Against Tiresias",
        lead="480 jobs in the shape of Tiresias' testbed on 60 GPUs; neither placement nor switching costs anything.",
        heads=["contender", "mean JCT", "first 100 steps"],
        rows=rows,
        problems=problems(results, "tiresias"),
    )


EXPERIMENTS: Sequence[Experiment] = (
    _throughput,
    _feedback,
    _search,
    early_stopping,
    _interference,
    _switching,
    _locality,
    fragmentation,
    _tiresias,
)
