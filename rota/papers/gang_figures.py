"""Figures of searches that stop bad jobs early, and of fragmentation."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rota.model.units import Bools
from rota.papers.figures import FILLED
from rota.report.result import Result
from rota.traces.search import Search


def search_figures(result: Result, searches: Sequence[Search]) -> dict[str, Any]:
    """Return figures of searches. `search_best_seconds`: mean time until the best job is finished. `search_settled_seconds`: mean
    time until the last job that is not kept has ended. `search_gpu_hours`: GPU-hours of all jobs of all searches.
    `search_stopped_share`: fraction of the jobs that are not kept which were stopped before they finished."""
    record = result.record
    number_of = {arrival.spec.name: job for job, arrival in enumerate(result.arrivals)}
    ended_s = np.fmax(record.finished_s, record.cancelled_s)
    best, settled, losers, hours = [], [], 0, 0.0
    cancelled = 0
    for search in searches:
        jobs = [number_of[name] for name in search.jobs if name in number_of]
        if not jobs or not np.isfinite(ended_s[jobs]).all():
            return {}
        begun_s = record.submitted_s[jobs].min()
        best.append(float(record.finished_s[jobs[0]] - begun_s))
        out = jobs[search.keep :]
        losers += len(out)
        cancelled += int(np.isfinite(record.cancelled_s[out]).sum())
        settled.append(float(ended_s[out].max() - begun_s) if out else 0.0)
        hours += float(record.occupied_gpu_seconds[jobs].sum()) / 3600
    if not best:
        return {}
    return {
        "search_best_seconds": float(np.mean(best)),
        "search_settled_seconds": float(np.mean(settled)),
        "search_gpu_hours": hours,
        "search_stopped_share": cancelled / losers if losers else None,
    }


def gang_figures(result: Result) -> dict[str, Any]:
    """Return figures of jobs with several GPUs. `gang_wait_seconds`: mean time from submission to the first run.
    `gang_jct_seconds`: mean JCT. `gang_close_share`: fraction of their GPU-seconds on no more nodes than they need.
    `whole_nodes`: mean number of nodes without a job while jobs arrive. `half_used_nodes`: mean number of nodes with both jobs
    and free GPUs."""
    record, cluster = result.record, result.cluster
    gangs = record.gpus > 1
    done = gangs & np.isfinite(record.finished_s)
    end_s, first_s = float(record.submitted_s.max()), float(record.submitted_s.min())
    if not done.any() or not end_s > first_s:
        return {}
    holds = record.gpu_intervals
    first, gpus, job = holds.first, holds.gpus, holds.job
    seconds = holds.end_s - holds.start_s
    held, close = 0.0, 0.0
    for row in gangs[job].nonzero()[0].tolist():
        mine = gpus[first[row] : first[row + 1]]
        taken = len(mine) * float(seconds[row])
        held += taken
        if len(np.unique(cluster.gpu_node[mine])) <= cluster.fewest_nodes(cluster.gpu_pool.item(mine[0]), len(mine)):
            close += taken
    whole, half = _nodes_over_time(result, first_s + FILLED * (end_s - first_s), end_s)
    return {
        "gang_wait_seconds": float((record.first_run_s - record.submitted_s)[done].mean()),
        "gang_jct_seconds": float((record.finished_s - record.submitted_s)[done].mean()),
        "gang_close_share": close / held if held else None,
        "whole_nodes": whole,
        "half_used_nodes": half,
    }


def _nodes_over_time(result: Result, start_s: float, end_s: float) -> tuple[float, float]:
    """Return the mean number of nodes without a job, and of nodes with both jobs and free GPUs, in a period."""
    holds, cluster = result.record.gpu_intervals, result.cluster
    row_of = np.repeat(np.arange(len(holds)), np.diff(holds.first))
    gpu, begin, end = holds.gpus, holds.start_s[row_of], holds.end_s[row_of]
    begin, end = np.clip(begin, start_s, end_s), np.clip(end, start_s, end_s)
    inside: Bools = end > begin
    at_s = np.concatenate((begin[inside], end[inside]))
    which = np.concatenate((gpu[inside], gpu[inside]))
    change = np.repeat((1, -1), int(inside.sum()))
    order = np.lexsort((-change, at_s))
    users = np.zeros(cluster.gpus, dtype=np.int64)
    busy = np.zeros(len(cluster.nodes), dtype=np.int64)
    size = np.bincount(cluster.gpu_node, minlength=len(cluster.nodes))
    whole, half, last_s = 0.0, 0.0, start_s
    for at, number, step in zip(at_s[order].tolist(), which[order].tolist(), change[order].tolist(), strict=True):
        if at > last_s:
            whole += (at - last_s) * int((busy == 0).sum())
            half += (at - last_s) * int(((busy > 0) & (busy < size)).sum())
            last_s = at
        before = users[number]
        users[number] += step
        busy[cluster.gpu_node[number]] += int(users[number] > 0) - int(before > 0)
    whole += (end_s - last_s) * int((busy == 0).sum())
    half += (end_s - last_s) * int(((busy > 0) & (busy < size)).sum())
    return whole / (end_s - start_s), half / (end_s - start_s)
