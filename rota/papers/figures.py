"""Figures of a run that papers publish and a summary does not have."""

import math
from typing import Any

import numpy as np

from rota.beliefs.rates import Rates
from rota.model.cluster import Cluster
from rota.model.job import JobSpec
from rota.report.result import Result
from rota.report.timeline import edges
from rota.traces.gandiva_jobs import sweep_of

BINS = 60
"""Number of time bins for the shares of tenants."""

FILLED = 0.25
"""Fraction of the arrival period after which the cluster counts as full. Throughput is measured from then until the last
arrival."""


def own_figures(result: Result, known: Rates) -> dict[str, Any]:
    """Return these figures, for JSON."""
    record = result.record
    done = np.isfinite(record.finished_s)
    waited = np.maximum(record.finished_s - record.submitted_s - record.occupied_seconds, 0.0)[done]
    return {
        "late_share": _late(result),
        "useful_share": _useful(result, known),
        **_throughput(result, known),
        **_searches(result),
        **_distribution(result),
        "median_queueing_seconds": float(np.median(waited)) if len(waited) else None,
        "p95_queueing_seconds": float(np.quantile(waited, 0.95)) if len(waited) else None,
    }


def _late(result: Result) -> float | None:
    """Return the fraction of the jobs with a deadline that missed it. A job that never finished missed it."""
    limit = np.array([arrival.spec.deadline_seconds or math.nan for arrival in result.arrivals])
    dated = np.isfinite(limit)
    taken = result.record.finished_s - result.record.submitted_s
    return float((~(taken[dated] <= limit[dated])).mean()) if dated.any() else None


def _useful(result: Result, known: Rates) -> float | None:
    """Return the GPU-seconds that the finished jobs need on median GPUs of one node, divided by those of the cluster until the
    last of them ended."""
    finished = np.isfinite(result.record.finished_s)
    seconds = result.summary.makespan_seconds
    if not seconds or not finished.any() or not result.cluster.pools:
        return None
    kind = result.cluster.pools[0]
    work = 0.0
    for arrival, done in zip(result.arrivals, finished.tolist(), strict=True):
        rate, _ = known.rate(arrival.spec.profile, kind, arrival.spec.width)
        if done and rate > 0:
            work += arrival.spec.gpus * (arrival.spec.steps or 0.0) / rate
    return work / (result.cluster.gpus * seconds)


def _throughput(result: Result, known: Rates) -> dict[str, float]:
    """Return two measures of throughput. The work of a job is the GPU-seconds that it needs without sharing.
    `work_per_gpu_second`: work of all finished jobs per occupied GPU-second; a shared GPU is occupied once. `throughput`: work
    per GPU-second of the cluster while jobs arrive; the work of a job is spread evenly over the time in which it had GPUs."""
    record, cluster = result.record, result.cluster
    work = np.array([_work(arrival.spec, known, cluster) for arrival in result.arrivals])
    work[~np.isfinite(record.finished_s)] = 0.0
    taken = float(record.pool_gpu_seconds.sum())
    end_s = float(record.submitted_s.max())
    start_s = float(record.submitted_s.min()) + FILLED * (end_s - float(record.submitted_s.min()))
    if not taken > 0 or not end_s > start_s:
        return {}
    holds = record.gpu_intervals
    overlap = np.maximum(np.minimum(holds.end_s, end_s) - np.maximum(holds.start_s, start_s), 0.0)
    inside = np.bincount(holds.job, overlap, minlength=len(work))
    held = np.bincount(holds.job, holds.end_s - holds.start_s, minlength=len(work))
    part = np.divide(inside, held, out=np.zeros_like(inside), where=held > 0)
    return {
        "work_per_gpu_second": float(work.sum()) / taken,
        "throughput": float(work @ part) / (cluster.gpus * (end_s - start_s)),
    }


def _work(spec: JobSpec, known: Rates, cluster: Cluster) -> float:
    """Return the work of a job in GPU-seconds of the first type, with its GPUs as close together as possible."""
    rate, _ = known.rate(spec.profile, cluster.pools[0], spec.width, cluster.fewest_levels(0, spec.width))
    return spec.gpus * (spec.steps or 0.0) / rate if rate > 0 else 0.0


def _distribution(result: Result) -> dict[str, Any]:
    """Return the quantiles of JCT in steps of 2%, and the mean time in which jobs had GPUs."""
    record = result.record
    done = np.isfinite(record.finished_s)
    if not done.any():
        return {}
    taken = (record.finished_s - record.submitted_s)[done]
    return {
        "jct_quantiles": np.quantile(taken, np.linspace(0, 1, 51)).tolist(),
        "mean_held_seconds": float(record.occupied_seconds[done].mean()),
        **({"predictions": result.predictions.to_dict()} if result.predictions is not None else {}),
    }


def _searches(result: Result) -> dict[str, Any]:
    """Return figures of hyper-parameter sweeps, if there are any; means over sweeps. `search_look_seconds`: time until every job
    of a sweep has given first feedback. `search_best_seconds`: time until a job ends that was not stopped early, since any of
    these may be the best. `searches`: the first figure by sweep."""
    members: dict[str, list[int]] = {}
    for job, arrival in enumerate(result.arrivals):
        if sweep := sweep_of(arrival.spec.name):
            members.setdefault(sweep, []).append(job)
    record = result.record
    looks, bests = {}, []
    for sweep, jobs in members.items():
        steps = np.array([result.arrivals[job].spec.steps or 0.0 for job in jobs])
        best = np.array(jobs)[steps == steps.max()]
        looks[sweep] = float((record.feedback_s[jobs] - record.submitted_s[jobs]).max())
        bests.append(float((record.finished_s[best] - record.submitted_s[best]).mean()))
    if not looks or not np.isfinite([*looks.values(), *bests]).all():
        return {}
    return {
        "search_look_seconds": float(np.mean(list(looks.values()))),
        "search_best_seconds": float(np.mean(bests)),
        "searches": looks,
    }


def tenant_shares(result: Result, known: Rates) -> dict[str, Any]:
    """Return each tenant's share of the work in each time bin. Work is measured in seconds on a GPU of average speed, with the
    rates of each job, as the paper normalises throughput."""
    at_s = edges([result], BINS)
    specs = [arrival.spec for arrival in result.arrivals]
    names = sorted({spec.tenant or "" for spec in specs})
    done = np.zeros((len(names), BINS))
    holds, cluster = result.record.gpu_intervals, result.cluster
    size = np.bincount(cluster.gpu_pool, minlength=len(cluster.pools))
    pools = cluster.gpu_pool[holds.gpus[holds.first[:-1]]].tolist()
    for job, pool, start_s, end_s in zip(holds.job.tolist(), pools, holds.start_s, holds.end_s, strict=True):
        spec = specs[job]
        by_pool = np.array([known.rate(spec.profile, kind, spec.width)[0] for kind in cluster.pools])
        speed = by_pool[pool] / (by_pool @ size / size.sum())
        overlap = np.minimum(end_s, at_s[1:]) - np.maximum(start_s, at_s[:-1])
        done[names.index(spec.tenant or "")] += np.maximum(overlap, 0.0) * spec.gpus * speed
    total = done.sum(axis=0)
    share = np.divide(done, total, out=np.full_like(done, math.nan), where=total > 0)
    return {
        "hours": ((at_s[:-1] + at_s[1:]) / 2 / 3600).tolist(),
        "tenants": {name: [_plain(value) for value in row] for name, row in zip(names, share.tolist(), strict=True)},
    }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
