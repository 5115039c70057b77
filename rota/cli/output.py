"""Print results as tables, JSON, CSV or pages. Standard output has the result and nothing else."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rota.errors import OptionError
from rota.files.text import as_csv

if TYPE_CHECKING:
    from rota.report.comparison import Comparison

_WIDE = {
    "P95": "p95_jct_seconds",
    "GEOMEAN": "geomean_jct_seconds",
    "FIRST RUN": "mean_first_run_seconds",
    "MOVES": "migrations",
    "LOST GPU-H": "lost_gpu_seconds",
    "COST": "cost_dollars",
    "DECISIONS": "decisions",
}
"""Additional columns of the wide table -> fields of the summary."""


def say(
    shaped: str,
    whole: "Comparison | None" = None,
    *,
    value: Any = None,
    rows: Sequence[Mapping[str, Any]] | None = None,
    heads: Sequence[str] = (),
    note: str = "",
) -> None:
    """Print a comparison or plain rows in the requested format. `heads` are the columns of a CSV without rows."""
    if shaped == "json":
        typer.echo(json.dumps(value if value is not None else rows))
    elif shaped == "csv":
        typer.echo(as_csv(rows if rows is not None else _flat(value), heads), nl=False)
    elif whole is not None:
        _table(whole, wide=shaped == "wide", note=note)
    else:
        _plain(rows or [])


def _table(whole: "Comparison", *, wide: bool, note: str) -> None:
    """Print one row per policy. The row with the best mean JCT is highlighted."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    heads, cells = whole.cells()
    if wide:
        heads = [*heads, *_WIDE]
        columns = [_column(name, [line.summary[name] for line in whole.lines]) for name in _WIDE.values()]
        cells = [[*row, *(column[i] for column in columns)] for i, row in enumerate(cells)]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for i, head in enumerate(heads):
        table.add_column(
            Text(head), justify="left" if i == 0 else "right", no_wrap=i > 0, overflow="fold", max_width=48 if i == 0 else None
        )
    best = whole.best
    for line, row in zip(whole.lines, cells, strict=True):
        table.add_row(*(Text(cell) for cell in row), style="bold green" if line is best and len(whole.lines) > 1 else None)
    console = Console()
    # A table wider than the terminal keeps whole columns, since a truncated figure would be a wrong figure.
    console.width = max(console.width, console.measure(table, options=console.options.update(width=400)).maximum)
    console.print(table)
    console.print(whole.footing(), highlight=False, markup=False, soft_wrap=True)
    if note:
        console.print(note, highlight=False, markup=False, soft_wrap=True, style="dim")


def _plain(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for name in rows[0] if rows else ():
        table.add_column(str(name).upper(), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_short(value)) for value in row.values()))
    Console().print(table)


def _column(name: str, values: Sequence[Any]) -> list[str]:
    """Format one column, all values in the same unit."""
    from rota.report.result import durations

    if name == "lost_gpu_seconds":
        return [f"{value / 3600:.3g}h" for value in values]
    if name == "cost_dollars":
        return ["-" if value is None else f"${value:,.0f}" for value in values]
    return durations(values) if name.endswith("_seconds") else [f"{value:,.0f}" for value in values]


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return (
        f"{value:,.0f}"
        if isinstance(value, float) and abs(value) >= 100
        else f"{value:.3g}"
        if isinstance(value, float)
        else str(value)
    )


def _flat(value: Any) -> list[dict[str, Any]]:
    """Return one row per run: its parameters, then its summary."""
    found = []
    for each in value if isinstance(value, list) else [value]:
        params = {name: _cell(item) for name, item in each["params"].items()}
        row = params | each["summary"]
        if each.get("paired"):
            row |= {"paired_against": each["paired"]["against"], "mean_jct_ratio": each["paired"]["mean_jct_ratio"]}
        for name, (low, high) in each.get("intervals", {}).items():
            row |= {f"{name}_low": low, f"{name}_high": high}
        found.append(row)
    return found


def _cell(item: Any) -> Any:
    """Format one cell: lists joined by slashes, mappings as NAME=VALUE."""
    if isinstance(item, dict):
        item = [f"{name}={value}" for name, value in item.items()]
    return "/".join(map(str, item)) if isinstance(item, list) else item


def say_notes(whole: "Comparison") -> None:
    """Print the assumptions that Rota made to standard error."""
    for note in whole.notes:
        sys.stderr.write(f"note: {note}\n")


def note_shape(text: str) -> None:
    """Print a note that this output format does not show something that was requested."""
    sys.stderr.write(f"note: {text}\n")


def write_page(whole: "Comparison", path: str | None) -> None:
    """Write the page to a file, and the file's path to standard error."""
    if path is None:
        return
    save(Path(path), whole.page())
    sys.stderr.write(f"page: {path}\n")


def save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise OptionError(
            f"cannot be written: {problem.strerror or problem}.", field="--html", value=str(path), hint="another folder"
        ) from None
