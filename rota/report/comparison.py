"""Several runs compared: one line per policy, with intervals over seeds, paired with the first policy.

A seed gives every policy the same jobs and the same random numbers, so policies are compared seed by seed before averaging.
Intervals are Student's, at 95%; a single seed has none.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from rota.model.counted import counted
from rota.report.metrics import Summary
from rota.report.result import Result, duration, durations, html_table, note_lines, percent, plain_table

if TYPE_CHECKING:
    from rota.report.plots import Plot

CONFIDENCE = 0.95

WALL_CLOCK = ("decision_seconds", "simulated_in_seconds", "peak_memory_mb")
"""Figures that describe the simulation instead of the cluster: they differ between any two runs."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """A policy's mean JCT compared with the baseline's on the same seeds."""

    against: str
    """Label of the baseline: the first policy."""
    ratio: float
    """Geometric mean over seeds of mean JCT / baseline mean JCT: below 1 is better."""
    interval: Interval | None
    """95% interval of the ratio; None with a single seed."""


@dataclass(frozen=True, eq=False)
class PolicyLine:
    """Results of one policy over all seeds."""

    label: str
    """The policy as requested."""
    results: tuple[Result, ...]
    """One result for each seed."""
    paired: PairedRatio | None
    """Comparison with the first policy; None for the first itself."""

    @cached_property
    def summary(self) -> dict[str, float | int | None]:
        """Mean of each figure over the seeds; with a single seed, its summary."""
        if len(self.results) == 1:
            return self.results[0].summary.to_dict()
        return {name: _mean(self._values(name)) for name in Summary.__dataclass_fields__}

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """95% intervals of the figures that every seed has; empty if all seeds gave the same schedule."""
        found = {}
        for name in Summary.__dataclass_fields__:
            values = [value for value in self._values(name) if value is not None]
            if name not in WALL_CLOCK and len(values) == len(self.results) > 1 and not self.alike:
                found[name] = interval(values)
        return found

    @property
    def alike(self) -> bool:
        """Whether every seed gave the same schedule."""
        first = self.results[0].record.finished_s
        return all(np.array_equal(result.record.finished_s, first, equal_nan=True) for result in self.results[1:])

    def half_width(self, name: str) -> float | None:
        """Return half the width of a figure's interval, which tables print after ±."""
        bounds = self.intervals.get(name)
        return (bounds[1] - bounds[0]) / 2 if bounds else None

    def _values(self, name: str) -> list[float | None]:
        return [getattr(result.summary, name) for result in self.results]

    def to_dict(self) -> dict[str, Any]:
        """Return the form of a single run, with the additional figures of several seeds."""
        whole: dict[str, Any] = {"summary": self.summary, "params": dict(self.results[0].params)}
        trials = [result.trials.to_dict() for result in self.results if result.trials is not None]
        if trials:
            whole |= {"trials": trials[0]} if len(self.results) == 1 else {"trials_by_seed": trials}
        foreseen = [result.predictions.to_dict() for result in self.results if result.predictions is not None]
        if foreseen:
            whole |= {"predictions": foreseen[0]} if len(self.results) == 1 else {"predictions_by_seed": foreseen}
        if len(self.results) > 1:
            whole["params"]["seeds"] = [result.params["seed"] for result in self.results]
            whole["seeds"] = [result.summary.to_dict() for result in self.results]
            whole["intervals"] = {name: list(bounds) for name, bounds in self.intervals.items()}
        if self.paired is not None:
            bounds = list(self.paired.interval) if self.paired.interval else None
            whole["paired"] = {"against": self.paired.against, "mean_jct_ratio": self.paired.ratio, "interval": bounds}
        return whole


class Comparison(Sequence[Result]):
    """Runs of several policies with the same jobs. As a sequence: every run, policy by policy, seed by seed."""

    def __init__(self, runs: Mapping[str, Sequence[Result]]) -> None:
        baseline = next(iter(runs), "")
        self.lines = tuple(
            PolicyLine(label, tuple(results), None if label == baseline else _paired(baseline, runs[baseline], results))
            for label, results in runs.items()
        )

    @property
    def seeds(self) -> int:
        """Number of seeds that each policy ran with."""
        return len(self.lines[0].results) if self.lines else 0

    @property
    def notes(self) -> list[str]:
        """Notes of all runs, without repetitions."""
        return list(dict.fromkeys(note for result in self for note in result.notes))

    @property
    def best(self) -> PolicyLine | None:
        """Line with the lowest mean JCT; None if no job finished."""
        known = [line for line in self.lines if line.summary["mean_jct_seconds"] is not None]
        return min(known, key=lambda line: float(line.summary["mean_jct_seconds"] or 0.0), default=None)

    def line(self, label: str) -> PolicyLine:
        """Return the line of the policy with this label."""
        return next(line for line in self.lines if line.label == label)

    @cached_property
    def _all(self) -> list[Result]:
        return [result for line in self.lines for result in line.results]

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, at: int) -> Result: ...
    @overload
    def __getitem__(self, at: slice) -> list[Result]: ...
    def __getitem__(self, at: int | slice) -> Result | list[Result]:
        return self._all[at]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._all)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return one JSON object per policy."""
        return [line.to_dict() for line in self.lines]

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one row per run. Raise RotaError if pandas is not installed."""
        from rota.report.result import pandas

        return pandas().DataFrame([{**_flat(result.params), **result.summary.to_dict()} for result in self])

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and rows of the printed table."""
        heads = ["POLICY", "MEAN JCT", "xBOUND", "MEDIAN", "P99", "QUEUE", "SPAN", "BUSY", "RHO", "SUSP"]
        compared = self.seeds > 1 and len(self.lines) > 1
        halves = [line.half_width("mean_jct_seconds") for line in self.lines]
        jct, median, p99, queueing, span = (
            durations([line.summary[name] for line in self.lines], halves if name == "mean_jct_seconds" else ())
            for name in ("mean_jct_seconds", "median_jct_seconds", "p99_jct_seconds", "mean_queueing_seconds", "makespan_seconds")
        )
        rows = []
        for i, line in enumerate(self.lines):
            s = line.summary
            gap, rho = s["gap_to_jct_bound"], s["finish_time_fairness_p95"]
            rows.append(
                [
                    line.label,
                    jct[i],
                    "-" if gap is None else f"{1 + gap:.2f}",
                    median[i],
                    p99[i],
                    queueing[i],
                    span[i],
                    percent(s["utilization"]),
                    "-" if rho is None else f"{rho:.1f}",
                    f"{s['suspensions']:,.0f}",
                ]
                + ([_against(line.paired)] if compared else [])
            )
        return heads + ([f"JCT vs {self.lines[0].label}"] if compared else []), rows

    def footing(self) -> str:
        """Return the line below the table: trace, cluster, load and bounds."""
        s, p = self.lines[0].summary, self.lines[0].results[0].params
        load = "unknown" if s["offered_load"] is None else f"{s['offered_load']:.2f}"
        jobs = counted(int(s["jobs"] or 0), "job")
        skipped = f"   {counted(p['skipped'], 'job')} skipped" if p["skipped"] else ""
        seeds = f"   {self.seeds} seeds, 95% intervals" if self.seeds > 1 else ""
        if self.seeds > 1 and all(line.alike for line in self.lines):
            seeds = f"   {self.seeds} seeds, with equal results: nothing here is random"
        return (
            f"{p['trace']}: {jobs} on {p['cluster']}   offered load {load}   no schedule beats mean JCT "
            f"{duration(s['mean_jct_bound_seconds'])} or makespan {duration(s['makespan_bound_seconds'])}{skipped}{seeds}"
        )

    def plot(self, what: str = "jct") -> "Plot":
        """Return a plot that shows itself in a notebook and saves itself as SVG: `jct`, `busy`, `queue`, `spread` or `moves`."""
        from rota.report.plots import plot

        return plot(self, what)

    def page(self) -> str:
        """Return one self-contained HTML page."""
        from rota.report.results_page import page

        return page(self)

    def __str__(self) -> str:
        heads, rows = self.cells()
        return f"{plain_table(heads, rows)}\n{self.footing()}{note_lines(self.notes)}"

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(line.label for line in self.lines)}: {len(self)} runs>\n{self}"

    def _repr_html_(self) -> str:
        heads, rows = self.cells()
        return html_table(heads, rows, self.footing(), self.notes) + self.plot()._repr_svg_()


def interval(values: Sequence[float]) -> Interval:
    """Return Student's interval of the mean."""
    from scipy.special import stdtrit

    sample = np.asarray(values, dtype=np.float64)
    half = float(stdtrit(len(sample) - 1, (1 + CONFIDENCE) / 2)) * float(sample.std(ddof=1)) / math.sqrt(len(sample))
    return float(sample.mean()) - half, float(sample.mean()) + half


def _paired(label: str, baseline: Sequence[Result], results: Sequence[Result]) -> PairedRatio | None:
    """Compare on a logarithmic scale, so that twice as long and half as long have the same weight."""
    both = [
        (ours.summary.mean_jct_seconds, theirs.summary.mean_jct_seconds) for ours, theirs in zip(results, baseline, strict=True)
    ]
    logs = [math.log(ours / theirs) for ours, theirs in both if ours and theirs]
    if len(logs) < len(results) or not logs:
        return None
    bounds = interval(logs) if len(set(logs)) > 1 else None
    return PairedRatio(
        label, math.exp(float(np.mean(logs))), (math.exp(bounds[0]), math.exp(bounds[1])) if bounds is not None else None
    )


def _against(paired: PairedRatio | None) -> str:
    if paired is None:
        return "-"
    if paired.interval is None:
        return f"x{paired.ratio:.2f}"
    return f"x{paired.ratio:.2f} ({paired.interval[0]:.2f}-{paired.interval[1]:.2f})"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) and known else None


def _flat(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if isinstance(value, str | int | float | bool) or value is None}
