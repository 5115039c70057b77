"""Figures of a run that papers give and a summary does not have."""

import math
from typing import Any

import numpy as np

from rota.beliefs.rates import Rates
from rota.report.result import Result
from rota.report.timeline import edges

BINS = 60
"""Stretches of time over which the shares of tenants are known."""


def own_figures(result: Result, known: Rates) -> dict[str, float | None]:
    """Ready for JSON."""
    record = result.record
    done = np.isfinite(record.finished_s)
    waited = np.maximum(record.finished_s - record.submitted_s - record.held_seconds, 0.0)[done]
    return {
        "late_share": _late(result),
        "useful_share": _useful(result, known),
        "median_queueing_seconds": float(np.median(waited)) if len(waited) else None,
        "p95_queueing_seconds": float(np.quantile(waited, 0.95)) if len(waited) else None,
    }


def _late(result: Result) -> float | None:
    """The part of the jobs with a deadline that missed it; one that never finished did."""
    limit = np.array([arrival.spec.deadline_seconds for arrival in result.arrivals])
    dated = np.isfinite(limit)
    taken = result.record.finished_s - result.record.submitted_s
    return float((~(taken[dated] <= limit[dated])).mean()) if dated.any() else None


def _useful(result: Result, known: Rates) -> float | None:
    """GPU-seconds that the finished jobs would take on median GPUs of one node, over those that the cluster had until the last
    of them ended."""
    finished = np.isfinite(result.record.finished_s)
    seconds = result.summary.makespan_seconds
    if not seconds or not finished.any() or not result.cluster.pools:
        return None
    kind = result.cluster.pools[0]
    work = 0.0
    for arrival, done in zip(result.arrivals, finished.tolist(), strict=True):
        rate, _ = known.rate(arrival.spec.profile, kind, arrival.spec.width)
        if done and rate > 0:
            work += arrival.spec.gpus * arrival.spec.steps / rate
    return work / (result.cluster.gpus * seconds)


def tenant_shares(result: Result, known: Rates) -> dict[str, Any]:
    """Of all the work that was done in each stretch of time, the part of each tenant. Work is measured in seconds on a GPU of
    average speed, for each job by its own rates, as the paper normalises throughput."""
    at_s = edges([result], BINS)
    specs = [arrival.spec for arrival in result.arrivals]
    names = sorted({spec.tenant for spec in specs})
    done = np.zeros((len(names), BINS))
    holds, cluster = result.record.holds, result.cluster
    size = np.bincount(cluster.gpu_pool, minlength=len(cluster.pools))
    pools = cluster.gpu_pool[holds.gpus[holds.first[:-1]]].tolist()
    for job, pool, start_s, end_s in zip(holds.job.tolist(), pools, holds.start_s, holds.end_s, strict=True):
        spec = specs[job]
        by_pool = np.array([known.rate(spec.profile, kind, spec.width)[0] for kind in cluster.pools])
        speed = by_pool[pool] / (by_pool @ size / size.sum())
        overlap = np.minimum(end_s, at_s[1:]) - np.maximum(start_s, at_s[:-1])
        done[names.index(spec.tenant)] += np.maximum(overlap, 0.0) * spec.gpus * speed
    total = done.sum(axis=0)
    share = np.divide(done, total, out=np.full_like(done, math.nan), where=total > 0)
    return {
        "hours": ((at_s[:-1] + at_s[1:]) / 2 / 3600).tolist(),
        "tenants": {name: [_plain(value) for value in row] for name, row in zip(names, share.tolist(), strict=True)},
    }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
