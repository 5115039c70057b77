"""What a sweep came to: a table with one line per point of the grid, seeds averaged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rota.errors import RotaError
from rota.report.comparison import interval
from rota.report.result import duration, html_table, note_lines, pandas, percent, plain_table
from rota.sweeps.grid import SweepCell

_SHOWN = {
    "MEAN JCT": "mean_jct_seconds",
    "xBOUND": "gap_to_jct_bound",
    "MEDIAN": "median_jct_seconds",
    "P99": "p99_jct_seconds",
    "SPAN": "makespan_seconds",
    "BUSY": "utilization",
    "LOAD": "offered_load",
    "SUSP": "suspensions",
}


@dataclass(frozen=True, slots=True)
class Failed:
    """A cell that has no result."""

    cell: SweepCell
    error: str
    hint: str


@dataclass(frozen=True, slots=True)
class Point:
    """All seeds of one point of the grid."""

    axes: Mapping[str, Any]
    seeds: int
    mean: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float]]

    def to_dict(self) -> dict[str, Any]:
        return {
            "axes": dict(self.axes),
            "seeds": self.seeds,
            "summary": dict(self.mean),
            "intervals": {name: list(bounds) for name, bounds in self.intervals.items()},
        }


@dataclass(frozen=True)
class Swept:
    """A finished sweep. It prints itself."""

    folder: Path
    rows: list[dict[str, Any]]
    """One per finished cell, in the order of the grid: key, axes, params, summary."""
    failed: list[Failed]
    reused: int
    """Cells that were there before."""
    untried: int = 0
    """Cells that were not run because workers kept dying."""
    guesses: tuple[str, ...] = ()
    """Inputs that are unknown, and what they were taken for."""

    def points(self) -> list[Point]:
        return list(_points(self.rows))

    @property
    def notes(self) -> list[str]:
        """The notes of all cells, each once."""
        return list(dict.fromkeys(note for row in self.rows for note in row["params"]["notes"]))

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """The table that people read: the axes that have more than one value, then the figures."""
        points = self.points()
        names = [name for name in (points[0].axes if points else ()) if len({str(p.axes.get(name)) for p in points}) > 1]
        heads = [name.upper() for name in names or ["policy"]] + list(_SHOWN)
        rows = [
            [str(p.axes[name]) for name in names or ["policy"]] + [_shown(p, name) for name in _SHOWN.values()] for p in points
        ]
        return heads, rows

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "points": [point.to_dict() for point in self.points()],
            "cells": self.rows,
            "failed": [{"axes": dict(f.cell.axes), "seed": f.cell.seed, "error": f.error} for f in self.failed],
        }

    def to_pandas(self) -> Any:
        """A data frame with one row per cell, for those who have pandas."""
        return pandas().DataFrame([{**row["axes"], "seed": row["params"]["seed"], **row["summary"]} for row in self.rows])

    def problem(self) -> RotaError | None:
        """One error for all cells that failed."""
        if not self.failed:
            return RotaError(f"{self.untried} cells were not tried.", hint="the same command again") if self.untried else None
        first = self.failed[0]
        where = ", ".join(f"{name} {value}" for name, value in first.cell.axes.items())
        untried = f" and {self.untried} were not tried" if self.untried else ""
        return RotaError(
            f"{len(self.failed)} cells failed{untried}; the first ({where}, seed {first.cell.seed}): {first.error}",
            hint=first.hint or "rota sweep --help",
        )

    def table(self) -> str:
        """The table with its footing, without notes."""
        heads, rows = self.cells()
        return f"{plain_table(heads, rows, left=len(heads) - len(_SHOWN))}\n{self.footing()}"

    def __str__(self) -> str:
        return self.table() + note_lines(self.notes)

    def _repr_html_(self) -> str:
        heads, rows = self.cells()
        return html_table(heads, rows, self.footing(), self.notes)

    def footing(self) -> str:
        """How many there are, and what became of the others."""
        count = f"{len(self.rows)} cell{'' if len(self.rows) == 1 else 's'} in {self.folder}"
        problem = self.problem()
        return count if problem is None else f"{count}; {problem.message}"


def _points(rows: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(repr(row["axes"]), []).append(row)
    for group in groups.values():
        summaries = [row["summary"] for row in group]
        mean: dict[str, float | None] = {}
        bounds: dict[str, tuple[float, float]] = {}
        for name in summaries[0]:
            values = [summary[name] for summary in summaries]
            known = [value for value in values if value is not None]
            mean[name] = float(np.mean(known)) if len(known) == len(values) else None
            if len(known) == len(values) > 1:
                bounds[name] = interval(known)
        yield Point(group[0]["axes"], len(group), mean, bounds)


def _shown(point: Point, name: str) -> str:
    value = point.mean.get(name)
    if value is None:
        return "-"
    if name == "mean_jct_seconds" and name in point.intervals:
        low, high = point.intervals[name]
        return f"{duration(value)} ±{duration((high - low) / 2)}"
    if name.endswith("_seconds"):
        return duration(value)
    if name == "utilization":
        return percent(value)
    if name == "suspensions":
        return f"{value:,.0f}"
    return f"{1 + value:.2f}" if name == "gap_to_jct_bound" else f"{value:.2f}"
