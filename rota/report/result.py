"""Results that print themselves: what was simulated, its figures, and their distance from the best possible ones."""

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
from rota.report.tenants_summary import TenantsSummary
from rota.report.trials_summary import TrialsSummary
from rota.sim.record import Record

if TYPE_CHECKING:
    from rota.report.comparison import Comparison
    from rota.report.plots import Plot


@dataclass(frozen=True, eq=False)
class Result:
    """Result of one simulation."""

    summary: Summary
    """Figures such as mean JCT, makespan and cost."""
    params: Mapping[str, Any]
    """Facts about the simulation for people and files: resolved names, counts and notes."""
    record: Record
    """Events as columns: when each job ran, and on which GPUs."""
    arrivals: Sequence[Arrival]
    """Jobs with their submission times."""
    cluster: Cluster
    """Cluster that the jobs ran on."""
    variability: Variability | None = None
    """Real slowness of each GPU for each application class; None if all GPUs of a type are equally fast."""
    believed: Variability | None = None
    """Slowness of each GPU that the scheduler believed at the end."""
    cordoned: tuple[int, ...] = ()
    """GPUs that were cordoned at the end because they were too slow."""
    predictions: PredictionsSummary | None = field(default=None, kw_only=True)
    """Accuracy of length predictions; None if the policy uses no predictions."""
    trials: TrialsSummary | None = field(default=None, kw_only=True)
    """Trials of the tactics; None if there were no tactics."""
    tenants: TenantsSummary | None = field(default=None, kw_only=True)
    """Figures of tenants; None if there were none."""
    assumptions: tuple[str, ...] = field(default=(), kw_only=True)
    """Notes that name an unknown input and the assumption that was made."""
    study: Study = field(kw_only=True)
    """Study that was run. `rota.simulate(**study.plain())` runs it again."""

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """One row per job, in trace order."""
        return jobs_table(self.record, self.arrivals, self.cluster)

    @property
    def notes(self) -> list[str]:
        """Assumptions, options without effect and problems of the run; printed with the result."""
        return list(self.params["notes"])

    @property
    def rounds(self) -> int | None:
        """Number of plans."""
        return self.summary.plans

    def to_dict(self, *, per_job: bool = False) -> dict[str, Any]:
        """Return summary, params, trials and tenants if any and, with `per_job`, jobs."""
        whole: dict[str, Any] = {"summary": self.summary.to_dict(), "params": dict(self.params)}
        if self.trials is not None:
            whole["trials"] = self.trials.to_dict()
        if self.tenants is not None:
            whole["tenants"] = self.tenants.to_dict()
        if self.predictions is not None:
            whole["predictions"] = self.predictions.to_dict()
        if per_job:
            whole["jobs"] = self.jobs
        return whole

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one row per job. Raise RotaError if pandas is not installed."""
        return pandas().DataFrame(self.jobs).set_index("id")

    def plot(self, what: str = "jct") -> "Plot":
        """Return a plot that shows itself in a notebook and saves itself as SVG: `jct`, `busy`, `queue`, `spread` or `moves`."""
        return self._alone().plot(what)

    def page(self) -> str:
        """Return one self-contained HTML page."""
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
            + (f"\n{self.tenants.table()}" if self.tenants is not None else "")
            + note_lines(self.notes)
        )

    def __repr__(self) -> str:
        return f"<Result of {self.params['policy']}>\n{self}"

    def _repr_html_(self) -> str:
        return self._alone()._repr_html_()


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return columns with two blanks between them, the first `left` of them aligned left and all others right."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = []
    for row in [heads, *rows]:
        cells = zip(row, widths, strict=True)
        lines.append("  ".join(c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(cells)).rstrip())
    return "\n".join(lines)


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], footing: str = "", notes: Sequence[str] = ()) -> str:
    """Return an HTML table for notebooks; everything in it is escaped."""
    listed = "".join(f"<p>note: {escape(note)}</p>" for note in notes)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(footing)}</p>{listed}"


def note_lines(notes: Sequence[str]) -> str:
    """Return the notes below a printed result, one line each."""
    return "".join(f"\nnote: {note}" for note in notes)


def pandas() -> Any:
    """Import pandas, which Rota does not install. Raise RotaError if it is missing."""
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise RotaError("pandas is not installed.", hint="pip install pandas, or use .to_dict()") from None


UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))
"""Units of time in seconds, with their letters. A duration is shown in the largest unit of which it has at least two."""


def duration(seconds: float | None) -> str:
    """Format a length of time."""
    if seconds is None:
        return "-"
    for size, unit in UNITS:
        if seconds >= 2 * size:
            return _count(seconds / size) + unit
    return f"{seconds:.3g}s"


def durations(
    seconds: Sequence[float | None], besides: Sequence[float | None] = (), like: Sequence[float | None] | None = None
) -> list[str]:
    """Format lengths of time in one unit, which suits their geometric mean, or that of `like`. `besides`: values that are printed
    after each with a ±."""
    known = [value for value in (seconds if like is None else like) if value]
    middle = math.exp(sum(map(math.log, known)) / len(known)) if known else 0.0
    size, unit = next(((size, unit) for size, unit in UNITS if middle * (1 + 1e-9) >= 2 * size), (1.0, "s"))

    def formatted(value: float | None) -> str:
        return "-" if value is None else f"{_count(value / size)}{unit}" if value else f"0{unit}"

    more = [f" ±{formatted(each)}" if each is not None else "" for each in besides] or [""] * len(seconds)
    return [formatted(value) + extra for value, extra in zip(seconds, more, strict=True)]


def _count(count: float) -> str:
    return f"{count:,.0f}" if count >= 999.5 else f"{count:#.3g}".rstrip(".")


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}%"
