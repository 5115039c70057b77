"""The result of a sweep: a table with one line per point of the grid, averaged over seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rota.errors import RotaError
from rota.experiments.cell import FailedCell
from rota.report.comparison import interval
from rota.report.result import durations, html_table, note_lines, pandas, percent, plain_table

_SHOWN = {
    "MEAN JCT": "mean_jct_seconds",
    "xBOUND": "gap_to_jct_bound",
    "MEDIAN": "median_jct_seconds",
    "P99": "p99_jct_seconds",
    "QUEUE": "mean_queueing_seconds",
    "SPAN": "makespan_seconds",
    "BUSY": "utilization",
    "LOAD": "offered_load",
    "RHO": "finish_time_fairness_p95",
    "SUSP": "suspensions",
}

NONE = "-"
"""Shown for a value that does not apply to a policy, and for an unknown figure."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the grid, with all its seeds."""

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
class SweepResult:
    """The result of a sweep. It prints itself."""

    folder: Path
    rows: list[dict[str, Any]]
    """One per finished cell, in the order of the grid: key, axes, params, summary."""
    failed: list[FailedCell]
    reused: int
    """Number of cells that were finished before."""
    untried: int = 0
    """Number of cells that were not run because workers kept dying."""
    assumptions: tuple[str, ...] = ()
    """Notes that name an unknown input and the assumption that was made."""
    others: tuple[Path, ...] = ()
    """Folders with the results of other grids that are kept in this folder."""
    outdated: bool = False
    """Whether the folder had this grid from other input files or another version of Rota, so that all cells were run again."""

    def points(self) -> list[Point]:
        return list(_points(self.rows))

    @property
    def notes(self) -> list[str]:
        """Notes of all cells, without repetitions."""
        return list(dict.fromkeys(note for row in self.rows for note in row["params"]["notes"]))

    def varied(self) -> list[str]:
        """Return the axes with more than one value, also among failed cells; the policy if there are none."""
        every = [row["axes"] for row in self.rows] + [failed.cell.axes for failed in self.failed]
        names = list(dict.fromkeys(name for axes in every for name in axes))
        return [name for name in names if len({str(axes.get(name)) for axes in every}) > 1] or ["policy"]

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the heads and rows of the table: axes with more than one value, then figures."""
        names = self.varied()
        points = self.points()
        columns = [_column(points, name) for name in _SHOWN.values()]
        rows = [[_axis(p.axes.get(name)) for name in names] + [column[i] for column in columns] for i, p in enumerate(points)]
        there = {tuple(row[: len(names)]) for row in rows}
        lost = dict.fromkeys(tuple(_axis(failed.cell.axes.get(name)) for name in names) for failed in self.failed)
        rows += [[*axes, "failed", *[NONE] * (len(_SHOWN) - 1)] for axes in lost if axes not in there]
        return [name.upper() for name in names] + list(_SHOWN), rows

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "points": [point.to_dict() for point in self.points()],
            "cells": self.rows,
            "failed": [{"axes": dict(f.cell.axes), "seed": f.cell.seed, "error": f.error} for f in self.failed],
        }

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one row per cell. Raise RotaError if pandas is not installed."""
        return pandas().DataFrame([{**row["axes"], "seed": row["params"]["seed"], **row["summary"]} for row in self.rows])

    def problem(self) -> RotaError | None:
        """Return one error for all failed cells, grouped by reason; None if none failed."""
        if not self.failed:
            return RotaError(f"{self.untried} cells were not tried.", hint="the same command again") if self.untried else None
        reasons: dict[str, list[FailedCell]] = {}
        for each in self.failed:
            reasons.setdefault(each.error, []).append(each)
        failed = "; ".join(f"{_where(cells, self.varied())}: {error.rstrip('.')}" for error, cells in reasons.items())
        untried = f" and {self.untried} were not tried" if self.untried else ""
        return RotaError(
            f"{_cells(len(self.failed))} failed{untried}: {failed}.", hint=self.failed[0].hint or "rota sweep --help"
        )

    def table(self) -> str:
        """Return the table and the line below it, without notes."""
        heads, rows = self.cells()
        return f"{plain_table(heads, rows, left=len(heads) - len(_SHOWN))}\n{self.count()}"

    def page(self) -> str:
        """Return one self-contained HTML page: figures over the varied values, with a line for each policy."""
        from rota.experiments.sweep_page import sweep_page

        return sweep_page(self)

    def __str__(self) -> str:
        problem = self.problem()
        return self.table() + (f"\n{problem.message}" if problem is not None else "") + note_lines(self.notes)

    def _repr_html_(self) -> str:
        heads, rows = self.cells()
        return html_table(heads, rows, self.footing(), self.notes)

    def footing(self) -> str:
        """Return how many cells there are, and why others failed."""
        problem = self.problem()
        return self.count() if problem is None else f"{self.count()}; {problem.message}"

    def count(self) -> str:
        """Return how many cells there are, and which other grids are in the folder."""
        more = f"{len(self.others)} other grid{'' if len(self.others) == 1 else 's'}"
        return f"{_cells(len(self.rows))} in {self.folder}" + (
            f", which also has the results of {more}: {', '.join(map(str, self.others))}" if self.others else ""
        )


def _cells(count: int) -> str:
    return f"{count} cell{'' if count == 1 else 's'}"


def _where(failed: Sequence[FailedCell], names: Sequence[str]) -> str:
    """Return the varied values of the first of some cells, and how many more there are."""
    first = failed[0].cell
    place = ", ".join(f"{name} {_axis(first.axes.get(name))}" for name in names)
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    return f"{place}, seed {first.seed}{more}"


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


def _axis(value: Any) -> str:
    return NONE if value is None else str(value)


def _column(points: Sequence[Point], name: str) -> list[str]:
    """Return one figure of all points, in one unit."""
    values = [point.mean.get(name) for point in points]
    if not name.endswith("_seconds"):
        return [_shown(value, name) for value in values]
    halves = [(both[1] - both[0]) / 2 if (both := point.intervals.get(name)) else None for point in points]
    return durations(values, halves if name == "mean_jct_seconds" else ())


def _shown(value: float | None, name: str) -> str:
    if value is None:
        return NONE
    if name == "utilization":
        return percent(value)
    if name == "suspensions":
        return f"{value:,.0f}"
    return f"{1 + value:.2f}" if name == "gap_to_jct_bound" else f"{value:.2f}"
