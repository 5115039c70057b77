"""Bar charts, for figures by category, such as placements or policies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from rota.report.plots import FAINT, INK, PALETTE, WIDTH, Plot

LABELS, RIGHT, TOP, ROW, GAP = 236, 150, 60, 21, 14
"""Layout in pixels: width of the labels, space for notes on the right, top of the first bar, height of a row, gap between
groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: a figure, and its range."""

    label: str
    value: float
    low: float | None = None
    """Smallest value, if the figure is a mean of several."""
    high: float | None = None
    """Largest value, if the figure is a mean of several."""
    note: str
    """Text after the bar."""


def bars(
    title: str, subtitle: str, groups: Sequence[tuple[str, Sequence[Bar]]], *, mark: tuple[float, str] | None = None
) -> Plot:
    """Draw groups of bars, each below its name. Equal labels have equal colours. `mark`: value and name of a vertical line."""
    every = [bar for _, group in groups for bar in group]
    most = (
        max([bar.high if bar.high is not None else bar.value for bar in every] + ([mark[0]] if mark else []), default=0.0) or 1.0
    )
    inks = {label: PALETTE[n % len(PALETTE)] for n, label in enumerate(dict.fromkeys(bar.label for bar in every))}

    def at(value: float) -> float:
        return LABELS + max(value, 0.0) / most * (WIDTH - LABELS - RIGHT)

    parts = [_text(8, 22, title, size=15, weight=600), _text(8, 42, subtitle)]
    y = float(TOP)
    for name, group in groups:
        if name:
            parts.append(_text(8, y + 14, name, weight=600))
            y += ROW
        for bar in group:
            parts += _drawn(bar, y, at, inks[bar.label])
            y += ROW
        y += GAP
    if mark is not None:
        parts.append(f'<line x1="{at(mark[0]):.1f}" y1="{TOP}" x2="{at(mark[0]):.1f}" y2="{y - GAP:.1f}" {_DASHED}/>')
        parts.append(_text(at(mark[0]), y + 2, mark[1], anchor="middle"))
        y += ROW
    summary = "; ".join(f"{name} {bar.label} {bar.note}".strip() for name, group in groups for bar in group)
    return Plot(
        title,
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:g}" width="{WIDTH}" height="{y:g}" role="img" '
        "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif\" font-size=\"12\" "
        f'fill="{INK}">\n<title>{escape(f"{title}. {subtitle}. {summary}.")}</title>\n' + "\n".join(parts) + "\n</svg>\n",
    )


_DASHED = f'stroke="{FAINT}" stroke-dasharray="4 4"'


def _drawn(bar: Bar, y: float, at: Callable[[float], float], ink: str) -> list[str]:
    middle, filled = y + 8, f'fill="{ink}" fill-opacity="0.6"'
    end = at(bar.value if bar.high is None else max(bar.high, bar.value))
    parts = [
        _text(LABELS - 10, y + 12, bar.label, anchor="end"),
        f'<rect x="{LABELS}" y="{y:.1f}" width="{at(bar.value) - LABELS:.1f}" height="16" rx="2" {filled}/>',
        _text(end + 8, y + 12, bar.note),
    ]
    if bar.low is not None and bar.high is not None and bar.high > bar.low:
        low, high = at(bar.low), at(bar.high)
        parts.append(
            f'<path d="M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} {middle - 4:.1f}V{middle + 4:.1f}'
            f'M{high:.1f} {middle - 4:.1f}V{middle + 4:.1f}" stroke="{ink}" stroke-width="1.5" fill="none"/>'
        )
    return parts


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, weight: int = 400) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">{escape(text)}</text>'
