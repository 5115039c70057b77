"""Results that print themselves: what was simulated, what came out, and how far that is from the best possible."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.model.job import Arrival
from rota.report.metrics import Summary, jobs_table
from rota.sim.record import Record


@dataclass(frozen=True, eq=False)
class Result:
    """One simulation."""

    summary: Summary
    params: Mapping[str, Any]
    """What was asked for, enough to run it again."""
    record: Record
    arrivals: Sequence[Arrival]

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """One row per job, in trace order."""
        return jobs_table(self.record, self.arrivals)

    def to_dict(self, *, per_job: bool = False) -> dict[str, Any]:
        """The machine-readable form: summary, params and, if asked for, jobs."""
        whole: dict[str, Any] = {"summary": self.summary.to_dict(), "params": dict(self.params)}
        if per_job:
            whole["jobs"] = self.jobs
        return whole

    def __str__(self) -> str:
        s = self.summary
        bound = f"{duration(s.mean_jct_bound_seconds)} at best" if s.mean_jct_bound_seconds else "no bound"
        load = f"load {s.offered_load:.2f}" if s.offered_load is not None else "load unknown"
        return (
            f"{self.params['policy']} on {self.params['cluster']}: {s.finished} of {s.jobs} jobs, {load}\n"
            f"JCT mean {duration(s.mean_jct_seconds)} ({bound})  median {duration(s.median_jct_seconds)}  "
            f"p99 {duration(s.p99_jct_seconds)}   queueing {duration(s.mean_queueing_seconds)}   "
            f"makespan {duration(s.makespan_seconds)}   GPUs busy {percent(s.utilization)}   suspensions {s.suspensions}"
        )


def duration(seconds: float | None) -> str:
    """A length of time as people say it."""
    if seconds is None:
        return "-"
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:#.3g}".rstrip(".") + unit
    return f"{seconds:.3g}s"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}%"
