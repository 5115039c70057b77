"""Results that print themselves: what was simulated, what came out, and how far that is from the best possible."""

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from rota.beliefs.variability import Variability
from rota.compose.study import Study
from rota.errors import RotaError
from rota.model.cluster import Cluster
from rota.model.job import Arrival
from rota.report.metrics import Summary, jobs_table
from rota.report.predictions import PredictionsSummary
from rota.report.trials_summary import TrialsSummary
from rota.sim.record import Record

if TYPE_CHECKING:
    from rota.report.comparison import Comparison
    from rota.report.plots import Plot


@dataclass(frozen=True, eq=False)
class Result:
    """One simulation."""

    summary: Summary
    """The figures: mean JCT, makespan, cost and so on."""
    params: Mapping[str, Any]
    """What was simulated, as facts for people and files: names that were resolved, counts and notes."""
    record: Record
    """What happened, as columns: when each job ran, on which GPUs."""
    arrivals: Sequence[Arrival]
    """The jobs, with the times they were submitted at."""
    cluster: Cluster
    """What they ran on."""
    variability: Variability | None = None
    """How slow each GPU really was for each application class; None: all of a type alike."""
    believed: Variability | None = None
    """How slow each was believed to be in the end."""
    cordoned: tuple[int, ...] = ()
    """GPUs that were out of service in the end because they were too slow."""
    predictions: PredictionsSummary | None = field(default=None, kw_only=True)
    """How well it was foreseen how long jobs train; None: the policy did not ask."""
    trials: TrialsSummary | None = field(default=None, kw_only=True)
    """What its tactics tried; None: it had none."""
    guesses: tuple[str, ...] = field(default=(), kw_only=True)
    """Those of the notes that tell of an unknown input and what it was taken for."""
    study: Study = field(kw_only=True)
    """What was asked for. `rota.simulate(**study.plain())` runs it again."""

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """One row per job, in trace order."""
        return jobs_table(self.record, self.arrivals, self.cluster)

    @property
    def notes(self) -> list[str]:
        """What was taken for something else, does nothing here or went wrong on the way; printed with the result."""
        return list(self.params["notes"])

    @property
    def rounds(self) -> int | None:
        """Plans that were made."""
        return self.summary.rounds

    def to_dict(self, *, per_job: bool = False) -> dict[str, Any]:
        """The machine-readable form: summary, params, the trials of its tactics if it had some and, if asked for, jobs."""
        whole: dict[str, Any] = {"summary": self.summary.to_dict(), "params": dict(self.params)}
        if self.trials is not None:
            whole["trials"] = self.trials.to_dict()
        if self.predictions is not None:
            whole["predictions"] = self.predictions.to_dict()
        if per_job:
            whole["jobs"] = self.jobs
        return whole

    def to_pandas(self) -> Any:
        """A data frame with one row per job, for those who have pandas."""
        return pandas().DataFrame(self.jobs).set_index("id")

    def plot(self, what: str = "jct") -> "Plot":
        """A picture that draws itself in a notebook and saves itself as SVG: `jct`, `busy`, `queue`, `spread` or `moves`."""
        return self._alone().plot(what)

    def page(self) -> str:
        """One self-contained HTML page."""
        return self._alone().page()

    def _alone(self) -> "Comparison":
        from rota.report.comparison import Comparison

        return Comparison({str(self.params["policy"]): [self]})

    def __str__(self) -> str:
        s = self.summary
        bound = f"{duration(s.mean_jct_bound_seconds)} at best" if s.mean_jct_bound_seconds else "no bound"
        load = f"load {s.offered_load:.2f}" if s.offered_load is not None else "load unknown"
        return (
            f"{self.params['policy']} on {self.params['cluster']}: {s.finished} of {s.jobs} jobs, {load}\n"
            f"JCT mean {duration(s.mean_jct_seconds)} ({bound})  median {duration(s.median_jct_seconds)}  "
            f"p99 {duration(s.p99_jct_seconds)}   queueing {duration(s.mean_queueing_seconds)}   "
            f"makespan {duration(s.makespan_seconds)}   GPUs busy {percent(s.utilization)}   suspensions {s.suspensions}"
            + (f"   {self.trials}" if self.trials is not None else "")
            + (f"   {self.predictions}" if self.predictions is not None else "")
            + note_lines(self.notes)
        )

    def __repr__(self) -> str:
        return f"<Result of {self.params['policy']}>\n{self}"

    def _repr_html_(self) -> str:
        return self._alone()._repr_html_()


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns with two blanks between, the first so many to the left and figures to the right."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = []
    for row in [heads, *rows]:
        cells = zip(row, widths, strict=True)
        lines.append("  ".join(c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(cells)).rstrip())
    return "\n".join(lines)


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], footing: str = "", notes: Sequence[str] = ()) -> str:
    """A plain table for notebooks; everything in it is escaped."""
    listed = "".join(f"<p>note: {escape(note)}</p>" for note in notes)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(footing)}</p>{listed}"


def note_lines(notes: Sequence[str]) -> str:
    """Notes as they stand below a printed result, a line each."""
    return "".join(f"\nnote: {note}" for note in notes)


def pandas() -> Any:
    """The library, which Rota does not install."""
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise RotaError("pandas is not installed.", hint="pip install pandas, or use .to_dict()") from None


UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))
"""Seconds, and the letter for them; a length of time has the first of which there are two."""


def duration(seconds: float | None) -> str:
    """A length of time as people say it."""
    if seconds is None:
        return "-"
    for size, unit in UNITS:
        if seconds >= 2 * size:
            return _count(seconds / size) + unit
    return f"{seconds:.3g}s"


def durations(
    seconds: Sequence[float | None], besides: Sequence[float | None] = (), like: Sequence[float | None] | None = None
) -> list[str]:
    """A column of them, all in the unit that suits their geometric mean, or that of others (`like`). `besides`: what stands
    behind each after a ±."""
    known = [value for value in (seconds if like is None else like) if value]
    middle = math.exp(sum(map(math.log, known)) / len(known)) if known else 0.0
    size, unit = next(((size, unit) for size, unit in UNITS if middle * (1 + 1e-9) >= 2 * size), (1.0, "s"))

    def told(value: float | None) -> str:
        return "-" if value is None else f"{_count(value / size)}{unit}" if value else f"0{unit}"

    more = [f" ±{told(each)}" if each is not None else "" for each in besides] or [""] * len(seconds)
    return [told(value) + extra for value, extra in zip(seconds, more, strict=True)]


def _count(count: float) -> str:
    return f"{count:,.0f}" if count >= 999.5 else f"{count:#.3g}".rstrip(".")


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}%"
