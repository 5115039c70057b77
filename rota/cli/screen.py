"""Fit text to the terminal. Files and pipes get the whole text."""

import shutil
import sys
from collections.abc import Mapping, Sequence

GAP = "  "
"""Between two columns of a table."""


def screen_columns() -> int | None:
    """Return the terminal's width in columns; None if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def shortened(text: str, most: int) -> str:
    """Return the text, cut to `most` characters with an ellipsis if it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def widths_of(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def fitted(cells: Sequence[tuple[str, ...]], columns: int | None, least: Mapping[int, int]) -> list[tuple[str, ...]]:
    """Shorten cells until the lines of a table fit. `least` maps the columns that may shrink to their minimum widths, in the
    order in which they shrink."""
    widths = widths_of(cells)
    excess = 0 if columns is None else sum(widths) + len(GAP) * (len(widths) - 1) - columns
    for column, width in least.items():
        cut = min(max(excess, 0), max(widths[column] - width, 0))
        widths[column] -= cut
        excess -= cut
    return [tuple(shortened(cell, width) for cell, width in zip(row, widths, strict=True)) for row in cells]


def aligned(cells: Sequence[tuple[str, ...]]) -> list[str]:
    widths = widths_of(cells)
    return [GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def wrapped(head: str, text: str, columns: int | None) -> list[str]:
    """Wrap the text to the terminal's width behind a head. Further lines are indented by the head's length."""
    import textwrap

    if columns is None or len(head) + len(text) <= columns:
        return [head + text]
    room = max(columns - len(head), 20)
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    return [head + lines[0], *(" " * len(head) + line for line in lines[1:])]
