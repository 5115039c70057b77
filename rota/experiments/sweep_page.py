"""The page of a sweep: each figure over the varied values, with a line for each policy and intervals. It is one file without
scripts that loads nothing."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota import __version__
from rota.experiments.sweep_result import NONE, Point, SweepResult
from rota.report.html import asset, security_policy, text
from rota.report.plots import DAY, HOUR, MINUTE, SECOND, Plot, Series, chart
from rota.report.result import duration

WHO = ("policy", "placer")
"""Axes whose values are the lines of a chart."""

MAX_PANELS = 12
"""Largest number of combinations of further values that are drawn, each in its own charts. The table has all of them."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a summary that is drawn."""

    key: str
    title: str
    name: str
    """Field of the summary."""


METRICS = (
    Metric("jct", "Mean JCT", "mean_jct_seconds"),
    Metric("queueing", "Mean queueing", "mean_queueing_seconds"),
    Metric("rho", "Rho, 95th percentile", "finish_time_fairness_p95"),
)


@dataclass(frozen=True)
class SweepChart:
    """The layout of the charts of a sweep."""

    points: Sequence[Point]
    over: str
    """Axis along x."""
    lines: tuple[str, ...]
    """Axes whose values are the lines of one chart."""
    panels: tuple[str, ...]
    """Axes whose values have separate charts."""

    @classmethod
    def of(cls, points: Sequence[Point]) -> "SweepChart":
        """Lay out the charts of some points. The axis along x is the one with most values, numbers first; the policy if nothing
        else varies."""
        names = dict.fromkeys(name for point in points for name in point.axes)
        counts = {name: len({str(point.axes.get(name)) for point in points} - {str(None)}) for name in names}
        free = [name for name in names if name not in WHO and counts[name] > 1]
        over = max(free, key=lambda name: (_all_numbers(points, name), counts[name]), default="policy")
        lines = tuple(name for name in WHO if name in names and name != over and (counts[name] > 1 or name == "policy"))
        return cls(points, over, lines, tuple(name for name in free if name != over))

    @property
    def values(self) -> list[Any]:
        """Values along x, in order."""
        found = list(dict.fromkeys(v for point in self.points if (v := point.axes.get(self.over)) is not None))
        return sorted(found) if _all_numbers(self.points, self.over) else found

    def groups(self) -> dict[str, list[Point]]:
        """Return title of each panel -> its points. A point to which an axis does not apply is in the panels of all its
        values."""
        each = [list(dict.fromkeys(v for p in self.points if (v := p.axes.get(name)) is not None)) for name in self.panels]
        found = {}
        for combination in itertools.product(*each):
            wanted = dict(zip(self.panels, combination, strict=True))
            chosen = [p for p in self.points if all(p.axes.get(name) in (None, value) for name, value in wanted.items())]
            if chosen:
                found[", ".join(f"{name} {value}" for name, value in wanted.items())] = chosen
        return found

    def chart(self, metric: Metric, points: Sequence[Point], subtitle: str) -> Plot | None:
        """Draw one figure over x; None if no point has it."""
        known = [point for point in points if point.mean.get(metric.name) is not None]
        if not known:
            return None
        unit, word = _unit(max(point.mean[metric.name] or 0.0 for point in known)) if _is_time(metric) else (1.0, "")
        values, numbers = self.values, _all_numbers(self.points, self.over)
        series = []
        for label, line in _by_line(known, self.lines).items():
            level = [point for point in line if point.axes.get(self.over) is None]
            drawn = level * len(values) if level else sorted(line, key=lambda point: values.index(point.axes[self.over]))
            at = values if level else [point.axes[self.over] for point in drawn]
            series.append(
                Series(
                    label=label,
                    note="at any value" if level else "",
                    x=[float(v) if numbers else float(values.index(v)) for v in at],
                    y=[(point.mean[metric.name] or 0.0) / unit for point in drawn],
                    intervals=[_interval(point, metric.name, unit) for point in drawn] if not level else (),
                    dots=not level or not numbers,
                )
            )
        return chart(
            f"{metric.title} over {self.over}",
            subtitle,
            series,
            x_title=self.over,
            y_title=f"{metric.title}, {word}" if word else metric.title,
            x_names=[] if numbers else [str(value) for value in values],
            narrow_x=numbers,
        )


def sweep_page(swept: SweepResult) -> str:
    """Return the HTML page of a sweep."""
    drawing = SweepChart.of(swept.points())
    groups = drawing.groups()
    style = asset("page.css") + asset("paper.css") + asset("sweep.css")
    heads, rows = swept.cells()
    shown = dict(itertools.islice(groups.items(), MAX_PANELS))
    notes = [*swept.notes]
    if len(shown) < len(groups):
        notes.append(f"charts of {len(shown)} of {len(groups)} combinations of {', '.join(drawing.panels)}; the table has all")
    problem = swept.problem()
    parts = {
        "policy": security_policy(style),
        "style": style,
        "title": text(
            f"{_names_of(swept, 'policy')} over {drawing.over}" if drawing.over != "policy" else "Policies side by side"
        ),
        "finding": text(_finding(drawing)),
        "facts": _facts(swept, drawing),
        "notes": _list([*([problem.message] if problem is not None else []), *notes]),
        "links": "\n".join(f'<a href="#{metric.key}">{text(metric.title)}</a>' for metric in METRICS),
        "sections": "\n".join(_section(metric, drawing, shown) for metric in METRICS),
        "table": _table(heads, rows, len(swept.varied())),
        "footing": text(swept.count()),
        "version": text(__version__),
    }
    # In one pass, so that braces in a name are not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], asset("sweep.html"))


def _section(metric: Metric, drawing: SweepChart, groups: Mapping[str, Sequence[Point]]) -> str:
    plots = [drawing.chart(metric, points, title) for title, points in groups.items()]
    pictures = "".join(f'<figure class="picture">{plot.svg}</figure>' for plot in plots if plot is not None)
    nothing = '<p class="note">No cell has this figure.</p>'
    return f'<section id="{metric.key}">\n<h2>{text(metric.title)}</h2>\n{pictures or nothing}\n</section>'


def _finding(drawing: SweepChart) -> str:
    """Return a sentence on which line has the lowest mean JCT, and where."""
    known = [point for point in drawing.points if point.mean.get("mean_jct_seconds") is not None]
    if not known:
        return "No job finished."
    wins: dict[str, int] = {}
    for group in drawing.groups().values():
        for value in drawing.values:
            here = [p for p in group if p in known and p.axes.get(drawing.over) in (None, value)]
            if len(here) > 1 or drawing.over == "policy":
                best = min(here or known, key=lambda point: point.mean["mean_jct_seconds"] or 0.0)
                wins[_label(best, drawing.lines)] = wins.get(_label(best, drawing.lines), 0) + 1
    least = min(known, key=lambda point: point.mean["mean_jct_seconds"] or 0.0)
    where = f" at {drawing.over} {least.axes[drawing.over]}" if least.axes.get(drawing.over) is not None else ""
    if drawing.over == "policy":
        return f"{least.axes['policy']} has the lowest mean JCT: {duration(least.mean['mean_jct_seconds'])}."
    lowest = f"The lowest mean JCT is {duration(least.mean['mean_jct_seconds'])}, of {_label(least, drawing.lines)}{where}."
    if not wins:
        return lowest
    total, leader = sum(wins.values()), max(wins, key=lambda label: wins[label])
    return f"{leader} has the lowest mean JCT at {wins[leader]} of {total} places. {lowest}"


def _facts(swept: SweepResult, drawing: SweepChart) -> str:
    rows = {"Over": drawing.over, "Lines": ", ".join(drawing.lines), "Charts by": ", ".join(drawing.panels)}
    varied = swept.varied()
    rows |= {name.capitalize(): _names_of(swept, name) for name in ("trace", "cluster", "placer") if name not in varied}
    rows["Seeds"] = str(max((point.seeds for point in drawing.points), default=0))
    rows["Cells"] = str(len(swept.rows))
    return "".join(f"<div><dt>{text(name)}</dt><dd><bdi>{text(value)}</bdi></dd></div>" for name, value in rows.items() if value)


def _names_of(swept: SweepResult, axis: str) -> str:
    """Return the values of an axis, without repetitions."""
    return ", ".join(dict.fromkeys(str(row["axes"][axis]) for row in swept.rows if row["axes"].get(axis) is not None))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    axis = ' class="axis"'
    head = "".join(f'<th scope="col"{axis if i < left else ""}>{text(cell)}</th>' for i, cell in enumerate(heads))
    body = ""
    for row in rows:
        cells = "".join(f"<td>{text(cell)}</td>" for cell in row[left:])
        body += "<tr>" + "".join(f'<th scope="row"><bdi>{text(cell)}</bdi></th>' for cell in row[:left]) + cells + "</tr>\n"
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _list(lines: Sequence[str]) -> str:
    items = "".join(f"<li><bdi>{text(line)}</bdi></li>" for line in lines)
    return f'<ul class="notes">{items}</ul>' if lines else ""


def _by_line(points: Sequence[Point], lines: Sequence[str]) -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(_label(point, lines), []).append(point)
    return found


def _label(point: Point, lines: Sequence[str]) -> str:
    return " + ".join(NONE if point.axes.get(name) is None else str(point.axes[name]) for name in lines) or "mean"


def _all_numbers(points: Sequence[Point], name: str) -> bool:
    values = [value for point in points if (value := point.axes.get(name)) is not None]
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _is_time(metric: Metric) -> bool:
    return metric.name.endswith("_seconds")


def _unit(seconds: float) -> tuple[float, str]:
    """Return the largest unit of which a length of time has at least two."""
    units = ((DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes"), (SECOND, "seconds"))
    return next(((size, word) for size, word in units if seconds >= 2 * size), (SECOND, "seconds"))


def _interval(point: Point, name: str, unit: float) -> tuple[float, float] | None:
    bounds = point.intervals.get(name)
    return (max(bounds[0], 0.0) / unit, bounds[1] / unit) if bounds is not None and bounds[0] < bounds[1] else None
