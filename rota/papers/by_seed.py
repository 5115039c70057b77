"""Figures of an experiment that was run with several seeds: what they come to, with the least and the most."""

from collections.abc import Mapping, Sequence

from rota.papers.claims import Claim, claim, mean
from rota.papers.experiment import CellResult
from rota.report.plots import Plot, Series, chart

BySeed = Mapping[str, float]


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


def places(results: Sequence[CellResult], experiment: str) -> list[float]:
    return sorted({each.cell.x for each in results if each.cell.experiment == experiment})


def problems(results: Sequence[CellResult], experiment: str) -> list[str]:
    return [
        f"{each.cell.label} at {each.cell.x:g}, seed {each.cell.group}: {each.error}"
        for each in results
        if each.cell.experiment == experiment and each.error
    ]


def interval(values: Sequence[float], unit: str) -> str:
    """Where each seed has one: the mean, the least and the most."""
    if not values:
        return "-"
    told = f"{_short(mean(values))}{unit}"
    return told if len(values) == 1 else f"{told} ({_short(min(values))} to {_short(max(values))})"


def _short(value: float) -> str:
    # Rounded first, so that nothing is -0 or a tiny power of ten.
    return f"{value:,.0f}" if abs(value) >= 100 else f"{round(value, 3) + 0.0:.3g}"


def judged(
    name: str, paper: float, values: Sequence[float], note: str, unit: str = "x", *, below: bool = False, above: bool = False
) -> Claim:
    if not values:
        return claim(name, paper=paper, measured=None, unit=unit, note="No two of the runs that it needs have ended.")
    seeds = f"Mean of {len(values)} seeds, from {min(values):.3g}{unit} to {max(values):.3g}{unit}. " if len(values) > 1 else ""
    return claim(name, paper=paper, measured=mean(values), unit=unit, note=f"{seeds}{note}".strip(), below=below, above=above)


def curves(
    title: str, about: str, by_label: Mapping[str, Mapping[float, Sequence[float]]], y: str, *, log_y: bool = False
) -> list[Plot]:
    """A chart of means by load."""
    series = []
    for label, points in by_label.items():
        known = {x: mean(values) for x, values in points.items() if values}
        if known:
            series.append(Series(label=label, x=list(known), y=list(known.values())))
    return [chart(title, about, series, x_title="load", y_title=y, log_y=log_y)] if series else []


def vanishes(points: Mapping[float, Sequence[float]], little: float, told: str, what: str) -> list[str]:
    """A sentence on where there is little to gain."""
    gone = [x for x, values in points.items() if values and mean(values) < little]
    return [f"{told} at {what} {', '.join(f'{x:g}' for x in gone)}."] if gone else []
