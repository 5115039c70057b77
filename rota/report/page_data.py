"""Data of the charts of a page, as JSON with long arrays packed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rota.beliefs.variability import Variability
from rota.model.cluster import Cluster
from rota.model.units import Floats
from rota.report.comparison import Comparison
from rota.report.job_costs import job_costs
from rota.report.packed import packed_counts, packed_floats, packed_groups, packed_ints, packed_shares, packed_text, packed_times
from rota.report.page_text import about
from rota.report.placement import class_jobs, moves, outlier_limit, per_gpu, scattered, spread
from rota.report.plots import DASHES, PALETTE
from rota.report.result import Result
from rota.report.timeline import Ranges, busy, edges, outages, queue, ranges

MAX_RECTANGLES = 150_000
"""Maximum number of rectangles of a map; a map that needs more is coarse."""

BINS = 4096
"""Number of time bins in charts over time."""


def data(comparison: Comparison, drawn: Sequence[Sequence[Result]]) -> dict[str, Any]:
    """Return all data of the charts. Data that runs share is included once: a trace from a file, the cluster, scores of GPUs."""
    clusters: list[Cluster] = []
    scores: list[Variability] = []
    for run in (run for runs in drawn for run in runs):
        if run.cluster not in clusters:
            clusters.append(run.cluster)
        if run.variability is not None and _number(run.variability, scores) is None:
            scores.append(run.variability)
    jobs: list[dict[str, Any]] = []
    seeds = []
    for runs in drawn:
        bins = edges(runs, BINS)
        own = _jobs(runs[0], float(bins[0]))
        if own not in jobs:
            jobs.append(own)
        about_runs = about(comparison, runs, len(drawn) > 1)
        seeds.append({"about": about_runs, "jobs": jobs.index(own), **_seed(comparison, runs, bins, clusters, scores)})
    whole = {"palette": PALETTE, "dashes": DASHES, "bins": BINS}
    return {
        **whole,
        "clusters": [_cluster(cluster) for cluster in clusters],
        "scores": [_scores(variability) for variability in scores],
        "jobs": jobs,
        "seeds": seeds,
    }


def _seed(
    comparison: Comparison,
    runs: Sequence[Result],
    bins: Floats,
    clusters: Sequence[Cluster],
    scores: Sequence[Variability],
) -> dict[str, Any]:
    """Return the runs of one seed. Times count from the first submission."""
    return {
        "seed": str(runs[0].params["seed"]),
        "load": runs[0].summary.offered_load,
        "bound": runs[0].summary.mean_jct_bound_seconds,
        "end": float(bins[-1] - bins[0]),
        "runs": [
            {
                "label": line.label,
                "cluster": clusters.index(run.cluster),
                "scores": _number(run.variability, scores),
                "cordoned": list(run.cordoned),
                "learned": bool(run.params.get("learn_variability")),
                "placement": _placement(run, bins),
                **_run(run, bins),
            }
            for line, run in zip(comparison.lines, runs, strict=True)
        ],
    }


def _cluster(cluster: Cluster) -> dict[str, Any]:
    nodes = {
        "names": packed_text([node.name for node in cluster.nodes]),
        "pool": packed_ints(cluster.node_pool),
        "first": packed_ints(cluster.node_first),
        "rack": packed_groups([node.rack for node in cluster.nodes]),
    }
    return {"gpus": cluster.gpus, "pools": cluster.pools, "nodes": nodes}


def _scores(variability: Variability) -> dict[str, Any]:
    return {
        "classes": packed_text(variability.classes),
        "values": packed_floats(variability.scores.reshape(-1)),
        "outlier": [outlier_limit(row) for row in variability.scores],
    }


def _number(variability: Variability | None, known: Sequence[Variability]) -> int | None:
    """Return the index of the entry with the same scores; None if there is none."""
    for number, other in enumerate(known if variability is not None else ()):
        if variability is other or (
            variability is not None and variability.classes == other.classes and np.array_equal(variability.scores, other.scores)
        ):
            return number
    return None


def _jobs(run: Result, start_s: float) -> dict[str, Any]:
    specs = [arrival.spec for arrival in run.arrivals]
    return {
        "name": packed_text([spec.name for spec in specs]),
        "gpus": packed_counts(run.record.gpus),
        "submitted": packed_times(run.record.submitted_s - start_s),
        "tenant": packed_groups([spec.tenant or "" for spec in specs]),
        "user": packed_groups([spec.user for spec in specs]),
        "profile": packed_groups([spec.profile or "" for spec in specs]),
    }


def _run(run: Result, bins: Floats) -> dict[str, Any]:
    record, summary, start_s, down = run.record, run.summary, float(bins[0]), outages(run)
    costs = job_costs(run)
    return {
        "mean_jct": summary.mean_jct_seconds,
        "bound": summary.mean_jct_bound_seconds,
        "mean_wait": summary.mean_queueing_seconds,
        "busy_share": summary.utilization,
        "first": packed_times(record.first_run_s - start_s),
        "finished": packed_times(record.finished_s - start_s),
        "held": packed_times(record.occupied_seconds),
        "suspensions": packed_ints(record.suspensions),
        "gpu_seconds": packed_floats(record.occupied_gpu_seconds),
        "cost": None if costs is None else packed_floats(costs),
        "busy": packed_floats(busy(run, bins).reshape(-1)),
        "queue": packed_floats(queue(run, bins)),
        "map": _map(ranges(run, MAX_RECTANGLES), start_s),
        "outages": {
            "node": packed_ints(np.array([node for node, _, _ in down], dtype=np.int64)),
            "start": packed_times(np.array([from_s for _, from_s, _ in down]) - start_s),
            "end": packed_times(np.array([to_s for _, _, to_s in down]) - start_s),
        },
    }


def _map(found: Ranges, start_s: float) -> dict[str, Any]:
    return {
        "gpus_per_row": found.gpus_per_row,
        "seconds_per_cell": found.seconds_per_cell,
        "first_row": packed_ints(found.first_row),
        "rows": packed_ints(found.rows),
        "start": packed_times(found.start_s - start_s),
        "end": packed_times(found.end_s - start_s),
        "job": packed_ints(found.job),
        "half": packed_ints(found.half),
    }


def _placement(run: Result, bins: Floats) -> dict[str, Any]:
    gpus = per_gpu(run)
    return {
        "busy": packed_shares(gpus.busy),
        "jobs": packed_ints(gpus.jobs),
        "class_jobs": class_jobs(run),
        "spread": spread(run).to_dict(),
        "scattered": packed_floats(scattered(run, bins)),
        "moves": packed_ints(np.histogram(moves(run), bins)[0]),
    }
