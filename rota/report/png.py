"""Plots as PNG, drawn by matplotlib, which Rota does not install."""

import importlib
import io
from typing import TYPE_CHECKING, Any

from rota.errors import RotaError

if TYPE_CHECKING:
    from rota.report.plots import Picture

PIXELS_PER_INCH = 160
DASHED = ("-", "--", ":", "-.")


def png(picture: "Picture", subtitle: str, palette: tuple[str, ...]) -> bytes:
    """Draw the plot like the SVG: the same curves, axes, ticks and marks. Raise RotaError if matplotlib is not installed."""
    try:
        figure_module = importlib.import_module("matplotlib.figure")
        ticker = importlib.import_module("matplotlib.ticker")
    except ImportError:
        raise RotaError(
            "a PNG needs matplotlib, which is not installed.", hint='pip install matplotlib, or plot.save("plot.svg")'
        ) from None
    figure = figure_module.Figure(figsize=(8.0, 4.8), dpi=PIXELS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    for number, curve in enumerate(picture.curves):
        style = {"color": palette[number % len(palette)], "linestyle": DASHED[number // 4 % len(DASHED)]}
        label = f"{curve.label} {curve.note}".strip()
        if len(curve.x) == len(curve.y):
            marker = "o" if curve.dots else ""
            axes.plot(curve.x, curve.y, label=label, marker=marker, **(style if curve.line else {**style, "linestyle": ""}))
        else:
            axes.stairs(curve.y, curve.x, label=label, baseline=None, **style)
        for at, low, high in curve.intervals:
            axes.plot([at, at], [low, high], marker="_", color=style["color"], alpha=0.75)
    for axis, which in ((picture.x, axes.xaxis), (picture.y, axes.yaxis)):
        _scale(axes, axis, which, ticker)
    if picture.mark_x is not None:
        axes.axvline(picture.mark_x[0], color="0.5", linestyle="--", label=picture.mark_x[1])
    if picture.mark_y is not None:
        axes.axhline(picture.mark_y[0], color="0.5", linestyle="--", label=picture.mark_y[1])
    axes.set_title(f"{picture.title}\n{subtitle}".strip(), loc="left", fontsize=9, parse_math=False)
    axes.grid(alpha=0.3)
    for text in axes.legend(fontsize=8).get_texts():
        text.set_parse_math(False)
    return _bytes(figure)


def _scale(axes: Any, axis: Any, which: Any, ticker: Any) -> None:
    """Set the ends, ticks and title of one axis."""
    across = which is axes.xaxis
    (axes.set_xscale if across else axes.set_yscale)("log" if axis.log else "linear")
    (axes.set_xlim if across else axes.set_ylim)(axis.low, axis.high)
    which.set_major_locator(ticker.FixedLocator([value for value, _ in axis.ticks]))
    which.set_major_formatter(ticker.FixedFormatter([label for _, label in axis.ticks]))
    which.set_minor_locator(ticker.NullLocator())
    which.set_label_text(axis.title, parse_math=False)


def _bytes(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()
