"""One round of placement on a full cluster: everybody who fits of a queue of one and a half times the cluster is placed anew."""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from rota.model.cluster import Cluster
from rota.model.placement_view import PlacementRequest, PlacementView
from rota.placers.packed import Packed
from rota.placers.pal import Pal
from rota.placers.pm_first import PmFirst

SIZES = (1, 1, 1, 1, 2, 4, 6, 8, 8, 12, 16, 24, 32, 48)
"""GPUs of jobs, about as in Sia's workloads: four in ten want one, half want more than a node has."""
LEVELS = ((0.913, 1.0, 2.595), (0.985, 1.015), (0.988, 1.012), (0.985, 1.015))


def placement() -> list[dict[str, Any]]:
    rows = []
    for gpus in (64, 1_024, 16_384):
        cluster = Cluster.parse(f"{gpus // 4}x(4xV100)")
        rng = np.random.default_rng(0)
        scores = np.array([rng.choice(levels, gpus, p=_odds(len(levels))) for levels in LEVELS])
        exact = scores * (1 + 0.02 * rng.standard_normal(scores.shape))
        requests, left = [], gpus
        for job in range(3 * gpus):
            size = int(rng.choice(SIZES))
            if size > left:
                continue
            requests.append(PlacementRequest(job, 0, size, 0.0, application_class=int(rng.integers(4)), penalties=(1.0, 1.7)))
            left -= size
        for placer in (Packed(sticky=False), PmFirst(sticky=False), Pal(sticky=False, wide=False), Pal(sticky=False)):
            best = min(_seconds(placer, cluster, scores, exact, requests) for _ in range(3))
            name = type(placer).__name__ + ("" if getattr(placer, "wide", True) else " wide=false")
            what = f"place {len(requests):,} jobs on {gpus:,} GPUs, {name}"
            rows.append({"what": what, "cpu_ms": round(1000 * best, 2)})
        best = min(_seconds(Pal(), cluster, scores, exact, _running(cluster, scores, exact, requests)) for _ in range(3))
        what = f"place {len(requests):,} jobs on {gpus:,} GPUs, Pal, nine in ten running and moves that cost"
        rows.append({"what": what, "cpu_ms": round(1000 * best, 2)})
    return rows


def _running(cluster: Cluster, scores: Any, exact: Any, requests: list[PlacementRequest]) -> list[PlacementRequest]:
    """The same jobs in the places that they were given, but for one in ten, which is new."""
    free = np.ones(cluster.gpus, dtype=bool)
    placed = Pal().place(PlacementView(cluster, free.copy(), free, 0, 1, scores, exact), requests)
    old = [replace(request, move_seconds=14.0, current=gpus) for request, gpus in zip(requests, placed, strict=True)]
    return [replace(request, current=None) if number % 10 == 0 else request for number, request in enumerate(old)]


def _odds(levels: int) -> list[float]:
    return [0.8, 0.19, 0.01] if levels == 3 else [0.6, 0.4]


def _seconds(placer: Any, cluster: Cluster, scores: Any, exact: Any, requests: list[PlacementRequest]) -> float:
    free = np.ones(cluster.gpus, dtype=bool)
    floor = PlacementView(cluster, free.copy(), free, 0, 1, scores, exact)
    before = time.process_time()
    placer.place(floor, requests)
    return time.process_time() - before
