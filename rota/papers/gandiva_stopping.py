"""Searches with early stopping: after some steps it is known how good each job is, and the worse jobs are stopped."""

from collections.abc import Mapping, Sequence

from rota.papers.by_seed import by_seed, interval, judged, percent, places, problems, times
from rota.papers.claims import Claim
from rota.papers.experiment import CellResult
from rota.papers.gandiva_experiments import FEEDBACK, FEW_LOAD, FIFO, GANDIVA, TURNS
from rota.papers.paper_page import Section

BEST, SETTLED, HOURS, STOPPED = "search_best_seconds", "search_settled_seconds", "search_gpu_hours", "search_stopped_share"
LOADED, ALONE = "search", "search alone"
WHERE: Mapping[str, str] = {LOADED: "180 GPUs, load {:g}", ALONE: "{:g} GPUs"}


def early_stopping(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    """Compare how long searches take until only the best jobs are left and until the best job is trained, and their GPU-hours."""
    few = min(places(results, ALONE), default=4.0)
    settled, best, hours = (_gain(results, ALONE, GANDIVA, figure, few) for figure in (SETTLED, BEST, HOURS))
    claims = [
        judged(
            f"Search with early stopping: until only the best are left, {few:g} GPUs",
            10,
            settled,
            f"Against FIFO; published as up to an order of magnitude. It takes {interval(hours, 'x')} fewer GPU-hours.",
        ),
        judged(
            f"The same: until the best job is trained, {few:g} GPUs",
            10,
            best,
            "Against FIFO. The best job has to make all its steps in any case.",
        ),
    ]
    rows = [
        [where.format(x), label, *_row(results, experiment, label, x)]
        for experiment, where in WHERE.items()
        for x in places(results, experiment)
        for label in (FIFO, TURNS, GANDIVA)
        if by_seed(results, experiment, label, BEST, x)
    ]
    return claims, Section(
        key="stopping",
        title="Searches with early stopping",
        lead=f"All jobs of a sweep have the same number of steps. After {FEEDBACK} steps it is known how good a job is. It is "
        "stopped as soon as a quarter of the sweep, rounded up, is known to be better, which depends on when each job ran. The "
        f"load counts only the steps that must run. Searches on few GPUs arrive at load {FEW_LOAD:g}, so most of them have the "
        "GPUs to themselves.",
        heads=[
            "where",
            "contender",
            "only the best are left",
            "sooner",
            "best is trained",
            "sooner",
            "GPU-hours",
            "less",
            "stopped",
        ],
        rows=rows,
        problems=[*problems(results, LOADED), *problems(results, ALONE)],
    )


def _gain(results: Sequence[CellResult], experiment: str, label: str, figure: str, x: float) -> list[float]:
    """Return the ratio of FIFO's figure to that of a contender, by seed."""
    return times(by_seed(results, experiment, FIFO, figure, x), by_seed(results, experiment, label, figure, x))


def _row(results: Sequence[CellResult], experiment: str, label: str, x: float) -> list[str]:
    row = []
    for figure in (SETTLED, BEST):
        row.append(interval(list(by_seed(results, experiment, label, figure, x).values()), " s"))
        row.append("-" if label == FIFO else interval(_gain(results, experiment, label, figure, x), "x"))
    hours = by_seed(results, experiment, label, HOURS, x)
    less = [-each for each in percent(hours, by_seed(results, experiment, FIFO, HOURS, x))]
    stopped = [100 * share for share in by_seed(results, experiment, label, STOPPED, x).values()]
    return [*row, interval(list(hours.values()), ""), "-" if label == FIFO else interval(less, "%"), interval(stopped, "%")]
