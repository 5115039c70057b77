"""Figures of an experiment with several seeds: means, with the smallest and the largest value."""

from collections.abc import Mapping, Sequence

from rota.papers.claims import Claim, claim, mean
from rota.papers.experiment import CellResult
from rota.report.plots import Plot, Series, chart

BySeed = Mapping[str, float]


def by_seed(results: Sequence[CellResult], experiment: str, label: str, figure: str, x: float) -> BySeed:
    """Return seed -> one figure of a curve at one x."""
    return {
        each.cell.group: float(each.figures[figure])
        for each in results
        if (each.cell.experiment, each.cell.label, each.cell.x) == (experiment, label, x) and each.figures.get(figure) is not None
    }


def times(more: BySeed, less: BySeed) -> list[float]:
    """Return the ratio of two figures, for each seed that both have."""
    return [more[seed] / less[seed] for seed in more if less.get(seed, 0.0) > 0]


def percent(more: BySeed, less: BySeed) -> list[float]:
    """Return by how many per cent the first figure is larger, for each seed that both have."""
    return [100 * (ratio - 1) for ratio in times(more, less)]


def places(results: Sequence[CellResult], experiment: str) -> list[float]:
    """Return the values of x in an experiment."""
    return sorted({each.cell.x for each in results if each.cell.experiment == experiment})


def problems(results: Sequence[CellResult], experiment: str) -> list[str]:
    return [
        f"{each.cell.label} at {each.cell.x:g}, seed {each.cell.group}: {each.error}"
        for each in results
        if each.cell.experiment == experiment and each.error
    ]


def interval(values: Sequence[float], unit: str) -> str:
    """Format the mean of one value per seed, with the smallest and the largest."""
    if not values:
        return "-"
    middle = f"{_short(mean(values))}{unit}"
    return middle if len(values) == 1 else f"{middle} ({_short(min(values))} to {_short(max(values))})"


def _short(value: float) -> str:
    # Rounded first, so that no value is -0 or a tiny power of ten.
    return f"{value:,.0f}" if abs(value) >= 100 else f"{round(value, 3) + 0.0:.3g}"


def judged(
    name: str, paper: float, values: Sequence[float], note: str, unit: str = "x", *, below: bool = False, above: bool = False
) -> Claim:
    if not values:
        return claim(name, paper=paper, measured=None, unit=unit, note="The runs that it compares did not end.")
    seeds = f"Mean of {len(values)} seeds, from {min(values):.3g}{unit} to {max(values):.3g}{unit}. " if len(values) > 1 else ""
    return claim(name, paper=paper, measured=mean(values), unit=unit, note=f"{seeds}{note}".strip(), below=below, above=above)


def curves(
    title: str, about: str, by_label: Mapping[str, Mapping[float, Sequence[float]]], y: str, *, log_y: bool = False
) -> list[Plot]:
    """Draw means by load."""
    series = []
    for label, points in by_label.items():
        known = {x: mean(values) for x, values in points.items() if values}
        if known:
            series.append(Series(label=label, x=list(known), y=list(known.values())))
    return [chart(title, about, series, x_title="load", y_title=y, log_y=log_y)] if series else []


def vanishes(points: Mapping[float, Sequence[float]], little: float, finding: str, what: str) -> list[str]:
    """Return a sentence on where the gain is small, if it is anywhere."""
    gone = [x for x, values in points.items() if values and mean(values) < little]
    return [f"{finding} at {what} {', '.join(f'{x:g}' for x in gone)}."] if gone else []
