"""The figures of a run: one summary, and one row per job.

Jobs count in trace order. The window picks the jobs that everything is about, averages, totals and bounds alike; only utilization
and cost are about the cluster, over the whole run, and the fairness of a job in the window looks at all jobs beside it.
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
    """What a run comes to; None for what is not known. Quantiles interpolate between jobs."""

    jobs: int
    """Jobs in the window."""
    finished: int
    """Those of them that finished; times and bounds are about these."""
    mean_jct_seconds: float | None
    """JCT: finish - submission."""
    median_jct_seconds: float | None
    """Half of the jobs have a shorter JCT."""
    p95_jct_seconds: float | None
    """19 of 20 jobs have a shorter JCT."""
    p99_jct_seconds: float | None
    """99 of 100 jobs have a shorter JCT."""
    geomean_jct_seconds: float | None
    """The geometric mean of JCTs, in which short jobs count as much as long ones."""
    makespan_seconds: float | None
    """Last finish - first submission."""
    mean_queueing_seconds: float | None
    """JCT - time its GPUs were taken, overheads included in that."""
    mean_first_run_seconds: float | None
    """First run - submission."""
    mean_feedback_seconds: float | None
    """Time from submission to a first impression: 100 steps, or all of them if there are fewer."""
    p95_feedback_seconds: float | None
    """19 of 20 jobs give a first impression sooner."""
    utilization: float | None
    """GPU-seconds taken / (cluster GPUs x makespan), by all jobs over the whole run; a GPU that two jobs share is taken once."""
    offered_load: float | None
    """Share of the cluster's time the jobs need at least, over the time in which they were submitted; never more than they would
    have of the cluster at one time if none waited. Above 1, jobs have to wait."""
    mean_jct_bound_seconds: float | None
    """No schedule of these jobs has a lower mean JCT. Jobs outside the window only slow them down, so it holds beside them."""
    makespan_bound_seconds: float | None
    """No schedule of these jobs has a shorter makespan."""
    gap_to_jct_bound: float | None
    """Mean JCT / its bound - 1: by how much at most a better schedule could be better, relative to the bound."""
    finish_time_fairness_p95: float | None
    """Of rho, the metric of Themis (NSDI'20): JCT / JCT with a private 1/n of the cluster, n the mean number of unfinished jobs
    during the job's life. On its private share it is taken to run by its best option for min(1, cluster GPUs / (n x its GPUs))
    of the time."""
    suspensions: int
    """How often a running job was stopped to go on later."""
    migrations: int
    """How often a job went on elsewhere than where it had stopped."""
    resizes: int
    """Changes of size of jobs that can do it while they run; by others, it counts as a suspension and a launch."""
    lost_gpu_seconds: float
    """Work done and lost to crashes."""
    cost_dollars: float | None
    """GPU-hours taken times their price per accelerator type, by all jobs over the whole run; None where a type has no price."""
    slo_violations: int | None
    """Jobs that finished after their deadline; None where no job has one."""
    rounds: int | None
    """Plans that were made."""
    decisions: int
    """Questions put to the policy."""
    decision_seconds: float | None
    """Real time they took, all together."""
    simulated_in_seconds: float | None
    """Real time of the whole run."""
    peak_memory_mb: float | None
    """Most memory that the process had in use."""

    def to_dict(self) -> dict[str, float | int | None]:
        """Ready for JSON, which has no word for infinite."""
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
    """Sum a run up. `window` is FIRST:LAST, half open, in trace order; None: every job. Bounds and averages are over the same
    jobs: those of the window that finished."""
    first, last = _checked(window, len(arrivals))
    done = first + np.flatnonzero(np.isfinite(record.finished_s[first:last]))
    limits = bounds([arrivals[job] for job in done.tolist()], cluster, physics, packing=record.packing)
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
        # Never below 0 but by rounding.
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
        rounds=rounds,
        decisions=decisions,
        decision_seconds=decision_seconds,
        simulated_in_seconds=simulated_in_seconds,
        peak_memory_mb=peak_memory_mb,
    )


def jobs_table(record: Record, arrivals: Sequence[Arrival], cluster: Cluster) -> list[dict[str, Any]]:
    """One row per job in trace order, ready for JSON; None for what has not happened. `run_seconds`: time its GPUs were taken.
    `ran_on`: the accelerator types it had, longest first, with bars between; empty if it never ran."""
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
    """The accelerator types that each job had GPUs of, longest first."""
    holds = record.gpu_intervals
    pool = cluster.gpu_pool[holds.gpus[holds.first[:-1]]] if len(holds) else np.empty(0, dtype=np.int64)
    seconds = np.zeros((len(record.submitted_s), len(cluster.pools)))
    np.add.at(seconds, (holds.job, pool), holds.end_s - holds.start_s)
    order = np.argsort(-seconds, axis=1, kind="stable")
    return ["|".join(cluster.pools[p] for p in row if seconds[job, p] > 0) for job, row in enumerate(order.tolist())]


def _checked(window: tuple[int, int] | None, jobs: int) -> tuple[int, int]:
    """The window, as far as there are jobs."""
    if window is None:
        return 0, jobs
    first, last = window
    if not 0 <= first < last:
        raise OptionError("must be FIRST:LAST with 0 <= FIRST < LAST.", field="jobs", value=f"{first}:{last}")
    if first >= jobs:
        raise OptionError(f"starts behind the last of {jobs} jobs.", field="jobs", value=f"{first}:{last}")
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
    """Jobs that finished after their deadline; None if nobody has one."""
    limit = np.array([deadline_seconds(arrival.spec, physics.rates) for arrival in arrivals])
    return int((jct > limit * (1 + 1e-9)).sum()) if np.isfinite(limit).any() else None


def _rho(record: Record, done: Ints, shortest_seconds: Floats, cluster_gpus: int) -> Floats:
    """Finish-time fairness of those of these jobs that had work to do: with none, every share is fair."""
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
    """Unfinished jobs summed over time up to each of these instants. Jobs come and go at breakpoints only, so that it is exact
    to interpolate between them."""
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
