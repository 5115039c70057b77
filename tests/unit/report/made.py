"""Invented runs for tests of reports: consistent, of any size, and without the time of a simulation."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rota.compose.study import Study
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.report.metrics import summarise
from rota.report.result import Result
from rota.sim.physics import Physics
from rota.sim.record import Record

Hold = tuple[int, Sequence[int], float, float]


def result_of(arrivals: Sequence[Arrival], cluster: Cluster, holds: Sequence[Hold], /, **params: Any) -> Result:
    """A run in which jobs had these GPUs from the first time to the second, and finished when they gave the last ones back."""
    record = Record.empty(arrivals, cluster)
    for job, gpus, start_s, end_s in sorted(holds, key=lambda hold: hold[3]):
        record.start(job, start_s)
        record.release(job, np.array(gpus), start_s, end_s)
    for job in {hold[0] for hold in holds}:
        stretches = [hold for hold in holds if hold[0] == job]
        record.finish(job, max(hold[3] for hold in stretches))
        record.suspensions[job] = len(stretches) - 1
    return _result(record, arrivals, cluster, params)


def large_result(jobs: int, gpus: int, *, policy: str, seed: int, pieces: int = 1) -> Result:
    """Jobs of 1, 2 and 4 GPUs on nodes of 4, in order of submission on a random one of the places of their size, each in so many
    pieces. Jobs depend on their number only, where they run on the seed."""
    rng = np.random.default_rng(1)
    sizes = rng.choice([1, 2, 4], size=jobs, p=[0.5, 0.25, 0.25])
    seconds = np.clip(rng.lognormal(7.0, 1.5, jobs), 1.0, 2e5)
    submitted = np.cumsum(rng.exponential(float((sizes * seconds).sum()) / gpus / 0.8 / jobs, jobs))
    arrivals = [
        Arrival(at_s, JobSpec(name=f"job-{i}", gpus=size, steps=steps, tenant=f"team-{i % 7}"))
        for i, (at_s, size, steps) in enumerate(zip(submitted.tolist(), sizes.tolist(), seconds.tolist(), strict=True))
    ]
    cluster = Cluster.parse(f"{gpus // 4}x(4xV100)")
    # A third of the nodes for each size; a place is a range of GPUs that only jobs of that size use.
    third = gpus // 12 * 4
    places = {size: list(range(i * third, (i + 1) * third, size)) for i, size in enumerate((1, 2, 4))}
    draw = np.random.default_rng(seed)
    free: dict[int, float] = {}
    record = Record.empty(arrivals, cluster)
    for job, (at_s, spec) in enumerate(arrivals):
        first = places[spec.gpus][int(draw.integers(len(places[spec.gpus])))]
        start_s = max(at_s, free.get(first, 0.0))
        cuts = start_s + spec.steps * np.arange(pieces + 1) / pieces
        record.start(job, start_s)
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            record.release(job, np.arange(first, first + spec.gpus), begin, end)
        record.finish(job, float(cuts[-1]))
        free[first] = float(cuts[-1])
    return _result(record, arrivals, cluster, {"policy": policy, "trace": "large"})


def _result(record: Record, arrivals: Sequence[Arrival], cluster: Cluster, params: dict[str, Any]) -> Result:
    summary = summarise(
        record,
        arrivals,
        cluster,
        Physics(),
        rounds=None,
        decisions=0,
        decision_seconds=None,
        simulated_in_seconds=None,
        peak_memory_mb=None,
    )
    whole = {"trace": "made", "skipped": 0, "policy": "made", "placer": "packed", "cluster": str(cluster), "preset": "ideal"}
    return Result(summary, {**whole, "seed": 0, **params}, record, arrivals, cluster, study=Study("made"))
