"""Static plots of a comparison for notebooks and papers: SVG, with the same bytes for the same runs.

Colours and greys have medium brightness, so that a plot reads on a white page and on a dark one. Lines that some readers could
not tell apart by colour differ in their dashes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np

from rota.errors import OptionError, UnknownNameError
from rota.model.units import Floats
from rota.report.comparison import Comparison
from rota.report.placement import moves, scattered, spread
from rota.report.png import png
from rota.report.result import Result, duration, percent
from rota.report.timeline import busy, edges, queue

PALETTE = ("#2673c4", "#d95f02", "#0f9d77", "#b455a0", "#b58900", "#2aa1cf", "#7a7a7a", "#9c5a35")
DASHES = ("", "7 3", "2 3", "9 3 2 3")
"""Each dash pattern is used for four colours: more are hard to tell apart for many readers."""

INK, FAINT = "#767676", "#7f7f7f"

WIDTH, LEFT, RIGHT, TOP, HEIGHT = 760, 62, 18, 62, 270
"""Size of the plot: width, margins, and height of the area with the lines, in pixels."""
LEGEND_ROW, LETTER = 19, 6.4
"""Height of a row of the legend, and the approximate mean width of a letter, in pixels."""
MAX_LABEL_CHARS = 44

ASIDE = 5.0
"""Pixels between points of the same x that have intervals."""

BINS = 160
"""Number of time bins: fine enough to see what happens, coarse enough to tell many lines apart."""

MAX_TICKS = 12
"""Maximum number of values that have a tick each; with more values, ticks are at round numbers."""

MAX_DOTS, MIN_LOG_FACTOR = 40, 4.0
"""Maximum number of points that are drawn as dots; minimum ratio of largest to smallest value for a logarithmic scale."""

SECOND, MINUTE, HOUR, DAY = 1.0, 60.0, 3600.0, 86400.0

MIN_TICKS = 3
"""Minimum number of ticks of a time axis; with fewer, readers cannot estimate durations."""
LOG_TIMES = (0.01, 0.1, *(n * unit for unit in (SECOND, MINUTE, HOUR) for n in (1.0, 10.0)), *(DAY * 10.0**n for n in range(8)))
FINE_LOG_TIMES = (
    *(n * unit for unit in (0.001, 0.01, 0.1) for n in (1.0, 2.0, 5.0)),
    *(n * unit for unit in (SECOND, MINUTE) for n in (1.0, 2.0, 5.0, 10.0, 20.0, 30.0)),
    *(n * HOUR for n in (1.0, 2.0, 5.0, 10.0)),
    *(n * 10.0**power * DAY for power in range(8) for n in (1.0, 2.0, 5.0)),
)
"""Ticks of a logarithmic axis, and ticks for ranges that contain too few of them."""
STEPS = [
    n * unit
    for unit, ns in ((SECOND, (1, 2, 5, 10, 15, 30)), (MINUTE, (1, 2, 5, 10, 15, 30)), (HOUR, (1, 2, 3, 6, 12)))
    for n in ns
]
"""Distances between ticks of a time axis; from a day on they are 1, 2 and 5 times a power of ten."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Plot that shows itself in a notebook."""

    title: str
    """Title of the plot."""
    svg: str
    """Text of the SVG file."""
    drawn: "tuple[Picture, str] | None" = field(default=None, repr=False, compare=False)
    """Content of the SVG, and its subtitle."""

    def save(self, path: str | Path) -> None:
        """Write the plot to a file: .svg, or .png if matplotlib is installed."""
        file = Path(path)
        suffix = file.suffix.lower()
        if suffix == ".png" and self.drawn is not None:
            file.write_bytes(png(*self.drawn, PALETTE))
        elif suffix == ".svg":
            file.write_text(self.svg, encoding="utf-8")
        else:
            raise OptionError(
                "a plot is written as .svg or .png.",
                field="path",
                value=str(path),
                hint=f'plot.save("{file.stem or "plot"}.svg")',
            )

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return f'Plot: {self.title}. It shows itself in a notebook; .save("plot.svg") writes it.'

    def __repr__(self) -> str:
        return f"<Plot: {self.title}>"


@dataclass(frozen=True, slots=True)
class _Curve:
    label: str
    note: str
    """Text behind the label in the legend."""
    x: Floats
    y: Floats
    """One value for each interval between two x, or one for each x, joined by straight lines."""
    intervals: Sequence[tuple[float, float, float]] = ()
    """Error bars: x, lower end, upper end."""
    dots: bool = True
    line: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points of a chart, joined by a line."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    note: str = ""
    """Text behind the label in the legend."""
    intervals: Sequence[tuple[float, float] | None] = ()
    """Lower and upper end of each y's interval; None if unknown."""
    dots: bool = True
    """Whether points have dots. A level that was not measured at its ends has none."""


@dataclass(frozen=True, slots=True)
class _Axis:
    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def at(self, values: Floats, begin: float, end: float) -> Floats:
        """Return where these values are between two edges of the plot; values outside are put on the edge."""
        inside = np.clip(values, self.low, self.high)
        share = (
            np.log(inside / self.low) / math.log(self.high / self.low)
            if self.log
            else (inside - self.low) / (self.high - self.low)
        )
        placed: Floats = begin + share * (end - begin)
        return placed


@dataclass(frozen=True, slots=True)
class Picture:
    """Content of a plot, before it is drawn."""

    title: str
    x: _Axis
    y: _Axis
    curves: Sequence[_Curve]
    mark_x: tuple[float, str] | None = None
    mark_y: tuple[float, str] | None = None


def plot(comparison: Comparison, what: str = "jct") -> Plot:
    """Plot `jct`, the fraction of jobs done within a time; or over time `busy`, the busy GPUs; `queue`, the waiting jobs;
    `spread`, the GPUs of jobs on more nodes than they need; or `moves`, the moves of jobs to other GPUs."""
    if what not in _PICTURES:
        raise UnknownNameError("plot", str(what), _PICTURES, hint='.plot("jct")')
    if not comparison.lines:
        raise OptionError("there is no run to draw.", field="comparison", value="empty", hint="compare at least one policy")
    runs = {line.label: line.results[0] for line in comparison.lines}
    picture = _PICTURES[what](runs)
    return _plot(picture, _subtitle(comparison))


def chart(
    title: str,
    subtitle: str,
    series: Sequence[Series],
    *,
    x_title: str,
    y_title: str,
    log_x: bool = False,
    log_y: bool = False,
    x_names: Sequence[str] = (),
    narrow_x: bool = False,
) -> Plot:
    """Plot any figures against any others; points without a finite value are left out. With `x_names`, x is an index of these
    names, and no line joins the points. `narrow_x`: x does not begin at 0."""
    curves = []
    for each in series:
        x, y = np.array(each.x, dtype=np.float64), np.array(each.y, dtype=np.float64)
        known = np.isfinite(y) & np.isfinite(x)
        ends = [(at, *both) for at, both in zip(x.tolist(), each.intervals, strict=False) if both is not None]
        curves.append(_Curve(each.label, each.note, x[known], y[known], ends, each.dots, not x_names))
    xs, ys = (np.concatenate([np.empty(0), *each]) for each in ([c.x for c in curves], [c.y for c in curves]))
    if not len(xs):
        raise OptionError("there is no point to draw.", field="series", value=title, hint="give at least one finite value")
    x_axis = _names(x_title, x_names) if x_names else _narrow(x_title, xs) if narrow_x else _numbers(x_title, xs, log_x)
    tops = np.array([top for curve in curves for _, _, top in curve.intervals])
    y_axis = _numbers(y_title, np.concatenate((ys, tops)), log_y)
    return _plot(Picture(title, x_axis, y_axis, curves), subtitle)


def _plot(picture: Picture, subtitle: str) -> Plot:
    return Plot(picture.title, _svg(picture, subtitle), (picture, subtitle))


# What is in them -------------------------------------------------------------------------------------------------


def _jct(runs: Mapping[str, Result]) -> Picture:
    records = {label: result.record for label, result in runs.items()}
    jct = {label: np.sort((r.finished_s - r.submitted_s)[np.isfinite(r.finished_s)]) for label, r in records.items()}
    x = _log_time("job completion time (JCT)", np.concatenate(list(jct.values())))
    # One value per pixel, so that the text for a million jobs is not longer than for a thousand.
    at = x.low * (x.high / x.low) ** np.linspace(0, 1, WIDTH - LEFT - RIGHT + 1)
    curves = [
        _Curve(label, duration(runs[label].summary.mean_jct_seconds), at, _share_within(values, at[:-1]))
        for label, values in jct.items()
    ]
    bound = next(iter(runs.values())).summary.mean_jct_bound_seconds
    mark = (bound, f"no mean JCT below {duration(bound)}") if bound else None
    ticks = [(share / 100, f"{share}%") for share in (0, 25, 50, 75, 100)]
    return Picture("Jobs that finish within a time (legend: mean JCT)", x, _Axis("jobs", 0, 1, ticks), curves, mark_x=mark)


def _share_within(values: Floats, at: Floats) -> Floats:
    return np.searchsorted(values, at, side="right") / max(len(values), 1)


def _busy(runs: Mapping[str, Result]) -> Picture:
    at = edges(list(runs.values()), BINS)
    curves = []
    for label, result in runs.items():
        total = busy(result, at).sum(axis=0)
        curves.append(_Curve(label, percent(result.summary.utilization), at - at[0], total))
    gpus = max(result.cluster.gpus for result in runs.values())
    y = _count("busy GPUs", gpus)
    return Picture(
        "Busy GPUs over time (legend: share of all GPU time)", _time(at), y, curves, mark_y=(gpus, f"all {gpus:,} GPUs")
    )


def _queue(runs: Mapping[str, Result]) -> Picture:
    at = edges(list(runs.values()), BINS)
    curves = []
    for label, result in runs.items():
        waiting = queue(result, at)
        curves.append(_Curve(label, duration(result.summary.mean_queueing_seconds), at - at[0], waiting))
    return Picture(
        "Waiting jobs over time (legend: mean queueing time)",
        _time(at),
        _count("waiting jobs", max(curve.y.max() for curve in curves)),
        curves,
    )


def _spread(runs: Mapping[str, Result]) -> Picture:
    at = edges(list(runs.values()), BINS)
    curves = []
    for label, result in runs.items():
        found = spread(result)
        share = found.beyond_gpu_seconds / found.gpu_seconds if found.gpu_seconds > 0 else None
        curves.append(_Curve(label, percent(share), at - at[0], scattered(result, at)))
    return Picture(
        "GPUs of jobs on more nodes than needed (legend: share of the GPU time of jobs of several GPUs)",
        _time(at),
        _count("GPUs", max(curve.y.max() for curve in curves)),
        curves,
    )


def _moves(runs: Mapping[str, Result]) -> Picture:
    at = edges(list(runs.values()), BINS)
    curves = []
    for label, result in runs.items():
        so_far = np.searchsorted(moves(result), at[1:], side="right").astype(np.float64)
        curves.append(_Curve(label, f"{so_far[-1]:,.0f}", at - at[0], so_far))
    return Picture(
        "Moves of jobs to other GPUs so far (legend: all)",
        _time(at),
        _count("moves", max(curve.y.max() for curve in curves)),
        curves,
    )


_PICTURES: Mapping[str, Callable[[Mapping[str, Result]], Picture]] = {
    "jct": _jct,
    "busy": _busy,
    "queue": _queue,
    "spread": _spread,
    "moves": _moves,
}


def _subtitle(comparison: Comparison) -> str:
    first = comparison.lines[0].results[0]
    load = "unknown" if first.summary.offered_load is None else f"{first.summary.offered_load:.2f}"
    seeds = f", the first of {comparison.seeds} seeds" if comparison.seeds > 1 else ""
    return f"{first.params['trace']}: {len(first.arrivals):,} jobs on {first.params['cluster']}, offered load {load}{seeds}"


# Axes ------------------------------------------------------------------------------------------------------------


def _log_time(title: str, values: Floats) -> _Axis:
    """Return a logarithmic axis a little wider than the values, and at least a factor of ten."""
    seen = values[values > 0]
    smallest, largest = (float(seen.min()), float(seen.max())) if len(seen) else (1.0, 1.0)
    low = 0.8 * smallest
    high = max(1.08 * largest, 10 * low)
    coarse, fine = ([tick for tick in ticks if low <= tick <= high] for ticks in (LOG_TIMES, FINE_LOG_TIMES))
    return _Axis(
        title, low, high, [(tick, _format_duration(tick)) for tick in (coarse if len(coarse) >= MIN_TICKS else fine)], log=True
    )


def _time(at: Floats) -> _Axis:
    seconds = float(at[-1] - at[0])
    step = next((step for step in STEPS if seconds / step <= 9), None) or DAY * _nice(seconds / DAY / 9)
    if 0 < seconds < MIN_TICKS:
        step = _nice(seconds / 9)
    units = ((DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes"), (0.0, "seconds"))
    unit, name = next((unit or SECOND, name) for unit, name in units if step >= unit)
    ticks = [(n * step, f"{n * step / unit:,.10g}") for n in range(int(seconds / step) + 1)]
    return _Axis(f"{name} since the first submission", 0.0, seconds, ticks)


def _count(title: str, highest: float) -> _Axis:
    step = max(_nice(highest / 5), 1.0)
    high = max(highest * 1.04, step)
    return _Axis(title, 0.0, high, [(n * step, f"{n * step:,.0f}") for n in range(int(high / step) + 1)])


def _numbers(title: str, values: Floats, log: bool) -> _Axis:
    """Return an axis from 0; or a logarithmic one from a little below the smallest value, if `log` and the range is wide
    enough."""
    highest = float(values.max(initial=0.0))
    seen = values[values > 0]
    if not log or not len(seen) or highest < MIN_LOG_FACTOR * float(seen.min()):
        step = _nice(highest / 6)
        high = max(1.06 * highest, step)
        return _Axis(title, 0.0, high, [(n * step, f"{n * step:,.4g}") for n in range(int(high / step) + 1)])
    low, high = 0.85 * float(seen.min()), 1.15 * highest
    wide = high / low > 1000
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    nice = [n * 10.0**power for power in powers for n in ((1,) if wide else (1, 2, 5))]
    return _Axis(title, low, high, [(tick, f"{tick:,.4g}") for tick in nice if low <= tick <= high], log=True)


def _narrow(title: str, values: Floats) -> _Axis:
    """Return an axis from a little below the smallest value to a little above the largest."""
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 0.5 * abs(high) or 1.0
    seen = np.unique(values).tolist()
    if len(seen) > MAX_TICKS:
        step = _nice((high - low) / 6)
        seen = [n * step for n in range(math.ceil(low / step), int(high / step) + 1)]
    return _Axis(title, low - margin, high + margin, [(tick, f"{tick:,.6g}") for tick in seen])


def _names(title: str, names: Sequence[str]) -> _Axis:
    """Return an axis with one position for each name."""
    letters = max(3, int((WIDTH - LEFT - RIGHT) / len(names) / LETTER) - 1)
    return _Axis(title, -0.5, len(names) - 0.5, [(float(i), _cut(name, letters)) for i, name in enumerate(names)])


def _nice(value: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below the value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(n * power for n in (1, 2, 5, 10) if n * power >= value * (1 - 1e-9))


def _format_duration(seconds: float) -> str:
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:g} s"


# Drawing ---------------------------------------------------------------------------------------------------------


def _svg(picture: Picture, subtitle: str) -> str:
    right, bottom = WIDTH - RIGHT, TOP + HEIGHT
    legend, rows = _legend(picture.curves, bottom + 58)
    parts = [
        _text(LEFT, 22, picture.title, size=15, weight=600),
        _text(LEFT, 42, _cut(subtitle, 108)),
        *_grid(picture.x, picture.y, right, bottom),
    ]
    for number, curve in enumerate(picture.curves):
        aside = _aside(picture.curves, number)
        x, y = picture.x.at(curve.x, LEFT, right) + aside, picture.y.at(curve.y, bottom, TOP)
        joined = len(curve.x) == len(curve.y)
        parts += _intervals(picture, curve, number, right + aside, bottom, LEFT + aside)
        parts += _dots(x, y, number) if joined and curve.dots else []
        path = _lines(x, y) if joined else _steps(x, y)
        if curve.line:
            parts.append(f'<path d="{path}" fill="none" stroke-width="2" stroke-linejoin="round" {_stroke(number)}/>')
    parts += [*_marks(picture, right, bottom), *legend]
    height = bottom + 58 + rows * LEGEND_ROW
    described = f"{picture.title}. {subtitle}. Lines: {', '.join(f'{curve.label} {curve.note}' for curve in picture.curves)}."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f"font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif\" font-size=\"12\" "
        f'fill="{INK}">\n<title>{escape(described)}</title>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _grid(x: _Axis, y: _Axis, right: float, bottom: float) -> list[str]:
    parts = []
    for value, label in y.ticks:
        at = float(y.at(np.array([value]), bottom, TOP)[0])
        parts += [_rule(LEFT, at, right, at, opacity=0.28), _text(LEFT - 8, at + 4, label, anchor="end")]
    for value, label in x.ticks:
        at = float(x.at(np.array([value]), LEFT, right)[0])
        parts += [_rule(at, TOP, at, bottom + 4, opacity=0.28), _text(at, bottom + 18, label, anchor="middle")]
    middle = (TOP + bottom) / 2
    turned = f'<g transform="translate(16 {middle:g}) rotate(-90)">{_text(0, 0, y.title, anchor="middle")}</g>'
    return [
        *parts,
        _rule(LEFT, bottom, right, bottom, opacity=0.9),
        _text((LEFT + right) / 2, bottom + 38, x.title, anchor="middle"),
        turned,
    ]


def _marks(picture: Picture, right: float, bottom: float) -> list[str]:
    parts = []
    if picture.mark_x is not None:
        value, label = picture.mark_x
        at = float(picture.x.at(np.array([value]), LEFT, right)[0])
        late = at > (LEFT + right) / 2
        parts += [
            _rule(at, TOP, at, bottom, dash="4 4"),
            _text(at + (-6 if late else 6), TOP + 14, label, anchor="end" if late else "start"),
        ]
    if picture.mark_y is not None:
        value, label = picture.mark_y
        at = float(picture.y.at(np.array([value]), bottom, TOP)[0])
        parts += [_rule(LEFT, at, right, at, dash="4 4"), _text(right, at - 5, label, anchor="end")]
    return parts


def _legend(curves: Sequence[_Curve], top: float) -> tuple[list[str], int]:
    """Return legend entries side by side, in as many rows as they need."""
    parts, x, row = [], float(LEFT), 0
    for number, curve in enumerate(curves):
        label = _cut(curve.label, MAX_LABEL_CHARS)
        width = 34 + LETTER * (len(label) + len(curve.note) + 1) + 22
        if x > LEFT and x + width > WIDTH - RIGHT + 22:
            x, row = float(LEFT), row + 1
        y = top + row * LEGEND_ROW
        parts += [
            f'<line x1="{x:g}" y1="{y - 4:g}" x2="{x + 26:g}" y2="{y - 4:g}" stroke-width="3" {_stroke(number)}/>',
            f'<text x="{x + 34:g}" y="{y:g}">{escape(label)} <tspan font-weight="600">{escape(curve.note)}</tspan></text>',
        ]
        x += width
    return parts, row + 1


def _steps(x: Floats, y: Floats) -> str:
    """Return a path that keeps each value until the next x. Points that change nothing are left out."""
    kept = [0, *(i for i in range(1, len(y)) if abs(y[i] - y[i - 1]) >= 0.05)]
    path = f"M{x[0]:.1f} {y[0]:.1f}"
    for i in kept[1:]:
        path += f"H{x[i]:.1f}V{y[i]:.1f}"
    return path + f"H{x[-1]:.1f}"


def _lines(x: Floats, y: Floats) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)) if len(x) else ""


def _dots(x: Floats, y: Floats, number: int) -> list[str]:
    """Return a dot for each point, unless there are too many."""
    if len(x) > MAX_DOTS:
        return []
    ink = PALETTE[number % len(PALETTE)]
    return [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{ink}"/>' for a, b in zip(x.tolist(), y.tolist(), strict=True)]


def _aside(curves: Sequence[_Curve], number: int) -> float:
    """Return how far a curve is moved sideways, so that intervals do not hide each other."""
    with_intervals = [i for i, curve in enumerate(curves) if curve.intervals]
    return ASIDE * (with_intervals.index(number) - (len(with_intervals) - 1) / 2) if number in with_intervals else 0.0


def _intervals(picture: Picture, curve: _Curve, number: int, right: float, bottom: float, left: float) -> list[str]:
    """Return a bar with caps for each interval."""
    ink, parts = PALETTE[number % len(PALETTE)], []
    for at, low, high in curve.intervals:
        x = float(picture.x.at(np.array([at]), left, right)[0])
        y = picture.y.at(np.array([low, high]), bottom, TOP).tolist()
        path = f"M{x:.1f} {y[0]:.1f}V{y[1]:.1f}M{x - 4:.1f} {y[0]:.1f}h8M{x - 4:.1f} {y[1]:.1f}h8"
        parts.append(f'<path class="interval" d="{path}" fill="none" stroke="{ink}" stroke-width="1.5" stroke-opacity="0.75"/>')
    return parts


def _stroke(number: int) -> str:
    dash = DASHES[number // 4 % len(DASHES)]
    return f'stroke="{PALETTE[number % len(PALETTE)]}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _rule(x1: float, y1: float, x2: float, y2: float, *, opacity: float = 1.0, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    faded = f' stroke-opacity="{opacity:g}"' if opacity < 1 else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{FAINT}"{faded}{dashed}/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, weight: int = 400) -> str:
    shaped = (f' text-anchor="{anchor}"' if anchor != "start" else "") + (f' font-size="{size}"' if size != 12 else "")
    heavy = f' font-weight="{weight}"' if weight != 400 else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{shaped}{heavy}>{escape(text)}</text>'


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
