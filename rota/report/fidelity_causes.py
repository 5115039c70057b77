"""The error of a simulation by cause: how long each job did what, in reality and in the simulation.

At any moment a job is in one of the parts of `JobTime`, and each part belongs to one cause. So the errors of the causes add up to
the error of the JCT, for each job and on average.
"""

import statistics
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rota.report.job_time import JobTime

CAUSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "starting": ("starting",),
        "switching": ("switching",),
        "interference": ("training",),
        "order": ("waiting",),
        "other": ("leaving", "lost"),
    }
)
"""Parts of a job's time that each cause accounts for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseError:
    """Error that one cause adds to a simulation."""

    cause: str
    real_seconds: float
    """Mean real time that jobs spent on it, in seconds."""
    simulated_seconds: float
    """Mean simulated time that jobs spent on it, in seconds."""
    error: float
    """Simulated less real seconds, divided by the real mean JCT. The errors of all causes add up to that of the mean JCT."""
    per_job_error: float
    """Mean absolute difference per job, divided by the real mean JCT."""
    usual_error: float
    """Error of a simulation in which every start, suspension and end takes the average time, and a job always has its mean
    rate."""
    usual_per_job_error: float
    """Mean absolute difference per job in that simulation with average times."""
    alone_error: float
    """Error of a simulation in which no job slows another down: each has its best rate, and starts as if no other job starts."""
    alone_per_job_error: float
    """Mean absolute difference per job in that simulation without slowdown."""


def errors_by_cause(
    real: Sequence[JobTime], simulated: Sequence[JobTime], usual: Sequence[JobTime], alone: Sequence[JobTime]
) -> tuple[CauseError, ...]:
    """Compare the times of the same jobs, which are in the same order, in reality and in three simulations."""
    jct = statistics.mean(job.jct_seconds for job in real)
    found = []
    for cause, parts in CAUSES.items():
        really, *each = ([_seconds(job, parts) for job in jobs] for jobs in (real, simulated, usual, alone))
        error, usual_error, alone_error = (_error(really, ours) / jct for ours in each)
        distance, usual_distance, alone_distance = (_distance(really, ours) / jct for ours in each)
        found.append(
            CauseError(
                cause=cause,
                real_seconds=statistics.mean(really),
                simulated_seconds=statistics.mean(each[0]),
                error=error,
                per_job_error=distance,
                usual_error=usual_error,
                usual_per_job_error=usual_distance,
                alone_error=alone_error,
                alone_per_job_error=alone_distance,
            )
        )
    return tuple(found)


def pairs_in_other_order(real: Sequence[float], simulated: Sequence[float]) -> float:
    """Return the fraction of all pairs of jobs whose order of ending differs between reality and simulation."""
    in_order = [end_s for _, end_s in sorted(zip(real, simulated, strict=True))]
    before: list[float] = []
    swapped = 0
    for end_s in in_order:
        swapped += len(before) - bisect_right(before, end_s)
        insort(before, end_s)
    pairs = len(in_order) * (len(in_order) - 1) // 2
    return swapped / pairs if pairs else 0.0


def _seconds(job: JobTime, parts: Sequence[str]) -> float:
    return float(sum(getattr(job, part) for part in parts))


def _error(real: Sequence[float], simulated: Sequence[float]) -> float:
    return statistics.mean(simulated) - statistics.mean(real)


def _distance(real: Sequence[float], simulated: Sequence[float]) -> float:
    return statistics.mean(abs(ours - theirs) for ours, theirs in zip(simulated, real, strict=True))
