"""Figures of a run: one summary, and one row per job.

Jobs count in trace order. The window selects the jobs of averages, totals and bounds. Only utilization and cost describe the
cluster over the whole run, and the fairness of a job in the window considers all jobs that were there with it.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rota.beliefs.deadlines import deadline_seconds
from rota.errors import OptionError
from rota.model.cluster import Cluster
from rota.model.job import Arrival
from rota.model.units import Floats, Ints
from rota.report.bounds import bounds
from rota.sim.physics import Physics
from rota.sim.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Figures of a run; None where unknown. Quantiles interpolate between jobs."""

    jobs: int
    """Jobs in the window."""
    finished: int
    """Jobs in the window that finished; times and bounds are about these."""
    mean_jct_seconds: float | None
    """Mean JCT (finish - submission) in seconds."""
    median_jct_seconds: float | None
    """Median JCT in seconds."""
    p95_jct_seconds: float | None
    """JCT in seconds that 95% of the jobs stay below."""
    p99_jct_seconds: float | None
    """JCT in seconds that 99% of the jobs stay below."""
    geomean_jct_seconds: float | None
    """Geometric mean of JCTs in seconds, in which short jobs count as much as long ones."""
    makespan_seconds: float | None
    """Last finish - first submission, in seconds."""
    mean_queueing_seconds: float | None
    """Mean of JCT - time on GPUs, in seconds. Time on GPUs includes overheads."""
    mean_first_run_seconds: float | None
    """Mean of first run - submission, in seconds."""
    mean_feedback_seconds: float | None
    """Mean time from submission to a first impression, in seconds: 100 steps, or all steps if there are fewer."""
    p95_feedback_seconds: float | None
    """Time to a first impression in seconds that 95% of the jobs stay below."""
    utilization: float | None
    """Occupied GPU-seconds / (cluster GPUs x makespan), of all jobs over the whole run; a GPU that two jobs share counts once."""
    offered_load: float | None
    """Fraction of the cluster that the jobs need at least during the time in which they were submitted, limited to what they
    would occupy at one time if none waited. Above 1, jobs have to wait."""
    mean_jct_bound_seconds: float | None
    """Lower bound on the mean JCT of these jobs, in seconds. Jobs outside the window only slow them down, so it holds with
    them."""
    makespan_bound_seconds: float | None
    """Lower bound on the makespan of these jobs, in seconds."""
    gap_to_jct_bound: float | None
    """Mean JCT / its bound - 1: the most that a better schedule could gain, relative to the bound."""
    finish_time_fairness_p95: float | None
    """95th percentile of rho, the metric of Themis (NSDI'20): JCT / JCT on a private 1/n of the cluster, where n is the mean
    number of unfinished jobs while the job was in the system. On its private share the job is assumed to run with its best option
    for min(1, cluster GPUs / (n x its GPUs)) of the time."""
    suspensions: int
    """Number of times a running job was stopped and later resumed."""
    migrations: int
    """Number of times a job resumed on other GPUs than before."""
    resizes: int
    """Resizes of running jobs. If a job cannot resize while running, the change counts as a suspension and a launch."""
    lost_gpu_seconds: float
    """GPU-seconds of work lost to crashes."""
    cost_dollars: float | None
    """GPU-hours times their price per accelerator type, of all jobs over the whole run; None if a type has no price."""
    slo_violations: int | None
    """Jobs that finished after their deadline; None if no job has a deadline."""
    plans: int | None
    """Number of plans."""
    decisions: int
    """Decisions: policy calls, and ends of jobs that needed none."""
    decision_seconds: float | None
    """Real time of the scheduler and of all policy calls, in seconds."""
    simulated_in_seconds: float | None
    """Real time of the whole run, in seconds."""
    peak_memory_mb: float | None
    """Peak memory of the process, in MB."""

    def to_dict(self) -> dict[str, float | int | None]:
        """Return the figures for JSON, with None for infinity, which JSON cannot express."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def summarise(
    record: Record,
    arrivals: Sequence[Arrival],
    cluster: Cluster,
    physics: Physics,
    *,
    window: tuple[int, int] | None = None,
    rounds: int | None,
    decisions: int,
    decision_seconds: float | None,
    simulated_in_seconds: float | None,
    peak_memory_mb: float | None,
) -> Summary:
    """Summarise a run. `window` is FIRST:LAST, half open, in trace order; None for every job. Averages and bounds are over the
    jobs in the window that finished."""
    first, last = _checked(window, len(arrivals))
    done = first + np.flatnonzero(np.isfinite(record.finished_s[first:last]))
    limits = bounds([arrivals[job] for job in done.tolist()], cluster, physics, colocation=record.colocation)
    jct = record.finished_s[done] - record.submitted_s[done]
    mean_jct = _mean(jct)
    return Summary(
        jobs=last - first,
        finished=len(done),
        mean_jct_seconds=mean_jct,
        median_jct_seconds=_quantile(jct, 0.5),
        p95_jct_seconds=_quantile(jct, 0.95),
        p99_jct_seconds=_quantile(jct, 0.99),
        geomean_jct_seconds=_geomean(jct),
        makespan_seconds=_makespan(record, done),
        # Only rounding can make this negative.
        mean_queueing_seconds=_mean(np.maximum(jct - record.occupied_seconds[done], 0.0)),
        mean_first_run_seconds=_mean(record.first_run_s[done] - record.submitted_s[done]),
        mean_feedback_seconds=_mean(record.feedback_s[done] - record.submitted_s[done]),
        p95_feedback_seconds=_quantile(record.feedback_s[done] - record.submitted_s[done], 0.95),
        utilization=_utilization(record, cluster),
        offered_load=limits.offered_load,
        mean_jct_bound_seconds=limits.mean_jct_seconds,
        makespan_bound_seconds=limits.makespan_seconds,
        gap_to_jct_bound=mean_jct / limits.mean_jct_seconds - 1 if mean_jct and limits.mean_jct_seconds else None,
        finish_time_fairness_p95=_quantile(_rho(record, done, limits.shortest_seconds, cluster.gpus), 0.95),
        suspensions=int(record.suspensions[first:last].sum()),
        migrations=int(record.migrations[first:last].sum()),
        resizes=int(record.resizes[first:last].sum()),
        lost_gpu_seconds=float(record.lost_gpu_seconds[first:last].sum()),
        cost_dollars=_cost(record, cluster),
        slo_violations=_late([arrivals[job] for job in done.tolist()], jct, physics),
        plans=rounds,
        decisions=decisions,
        decision_seconds=decision_seconds,
        simulated_in_seconds=simulated_in_seconds,
        peak_memory_mb=peak_memory_mb,
    )


def jobs_table(record: Record, arrivals: Sequence[Arrival], cluster: Cluster) -> list[dict[str, Any]]:
    """Return one row per job in trace order, ready for JSON; None for what has not happened. `run_seconds`: time on GPUs.
    `ran_on`: accelerator types that the job ran on, longest first, separated by bars; empty if it never ran."""
    columns = {
        "submitted_s": record.submitted_s,
        "started_s": record.first_run_s,
        "finished_s": record.finished_s,
        "jct_seconds": record.finished_s - record.submitted_s,
        "run_seconds": record.occupied_seconds,
        "suspensions": record.suspensions,
        "migrations": record.migrations,
        "resizes": record.resizes,
        "lost_gpu_seconds": record.lost_gpu_seconds,
    }
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    types = _ran_on(record, cluster)
    return [
        {
            "id": job,
            "name": arrival.spec.name,
            "user": arrival.spec.user,
            "tenant": arrival.spec.tenant,
            "profile": arrival.spec.profile,
            "gpus": arrival.spec.gpus,
            "ran_on": types[job],
        }
        | {name: _plain(value) for name, value in zip(columns, row, strict=True)}
        for job, (arrival, row) in enumerate(zip(arrivals, values, strict=True))
    ]


def _ran_on(record: Record, cluster: Cluster) -> list[str]:
    """Return the accelerator types that each job had GPUs of, longest first."""
    intervals = record.gpu_intervals
    pool = cluster.gpu_pool[intervals.gpus[intervals.first[:-1]]] if len(intervals) else np.empty(0, dtype=np.int64)
    seconds = np.zeros((len(record.submitted_s), len(cluster.pools)))
    np.add.at(seconds, (intervals.job, pool), intervals.end_s - intervals.start_s)
    order = np.argsort(-seconds, axis=1, kind="stable")
    return ["|".join(cluster.pools[p] for p in row if seconds[job, p] > 0) for job, row in enumerate(order.tolist())]


def _checked(window: tuple[int, int] | None, jobs: int) -> tuple[int, int]:
    """Return the window, cut to the jobs that exist. Raise OptionError if it is empty or starts after the last job."""
    if window is None:
        return 0, jobs
    first, last = window
    if not 0 <= first < last:
        raise OptionError("must be FIRST:LAST with 0 <= FIRST < LAST.", field="window", value=f"{first}:{last}")
    if first >= jobs:
        raise OptionError(f"starts after the last of {jobs} jobs.", field="window", value=f"{first}:{last}")
    return first, min(last, jobs)


def _makespan(record: Record, done: Ints) -> float | None:
    return float(record.finished_s[done].max() - record.submitted_s[done].min()) if len(done) else None


def _utilization(record: Record, cluster: Cluster) -> float | None:
    seconds = _makespan(record, np.flatnonzero(np.isfinite(record.finished_s)))
    return float(record.pool_gpu_seconds.sum()) / (cluster.gpus * seconds) if seconds else None


def _cost(record: Record, cluster: Cluster) -> float | None:
    total = 0.0
    for accelerator, seconds in zip(cluster.pools, record.pool_gpu_seconds.tolist(), strict=True):
        price = cluster.price(accelerator)
        if price is None and seconds > 0:
            return None
        total += (price or 0.0) * seconds / 3600.0
    return total


def _late(arrivals: Sequence[Arrival], jct: Floats, physics: Physics) -> int | None:
    """Return the number of jobs that finished after their deadline; None if no job has a deadline."""
    limit = np.array([deadline_seconds(arrival.spec, physics.rates) for arrival in arrivals])
    return int((jct > limit * (1 + 1e-9)).sum()) if np.isfinite(limit).any() else None


def _rho(record: Record, done: Ints, shortest_seconds: Floats, cluster_gpus: int) -> Floats:
    """Return the finish-time fairness of those jobs that had work to do: for a job without work, every share is fair."""
    worked = (shortest_seconds > 0) & (record.finished_s[done] > record.submitted_s[done])
    done, shortest = done[worked], shortest_seconds[worked]
    if not len(done):
        return np.empty(0)
    submitted, finished = record.submitted_s[done], record.finished_s[done]
    jct = finished - submitted
    crowd = np.maximum((_job_seconds(record, finished) - _job_seconds(record, submitted)) / jct, 1.0)
    running = np.minimum(1.0, cluster_gpus / (crowd * record.gpus[done]))
    rho: Floats = jct / (shortest / running)
    return rho


def _job_seconds(record: Record, at_s: Floats) -> Floats:
    """Return the number of unfinished jobs, integrated over time up to each instant. Jobs arrive and finish at breakpoints only,
    so interpolation between them is exact."""
    ended = record.finished_s[np.isfinite(record.finished_s)]
    instants = np.concatenate((record.submitted_s, ended))
    change = np.repeat([1.0, -1.0], [len(record.submitted_s), len(ended)])
    order = np.argsort(instants, kind="stable")
    instants, present = instants[order], np.cumsum(change[order])
    total = np.concatenate(([0.0], np.cumsum(present[:-1] * np.diff(instants))))
    return np.interp(at_s, instants, total)


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _quantile(values: Floats, q: float) -> float | None:
    return float(np.quantile(values, q)) if len(values) else None


def _geomean(values: Floats) -> float | None:
    if not len(values):
        return None
    return float(np.exp(np.log(values).mean())) if values.min() > 0 else 0.0


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
