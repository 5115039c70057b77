"""Measurements of running jobs by the simulated driver: rates and GPU utilization, with noise."""

import math
from collections.abc import Sequence

import numpy as np

from rota.model.cluster import Cluster
from rota.model.events import Measured
from rota.model.job import Arrival
from rota.model.view import keyed_rng
from rota.sim.physics import Physics
from rota.sim.run import SimulatedAttempt

MEASUREMENTS = 5
"""Number of measurements of a job after each change of its conditions."""


def measure(
    live: Sequence[tuple[int, SimulatedAttempt]],
    arrivals: Sequence[Arrival],
    cluster: Cluster,
    physics: Physics,
    seed: int,
    now_s: float,
) -> Measured:
    """Measure these jobs, each over the time since its conditions last changed."""
    seen = [(job, run, arrivals[job].spec) for job, run in live if run.since_s < now_s]
    noise = np.ones(len(seen))
    if physics.measurement_noise:
        noise = np.maximum(1.0 + physics.measurement_noise * keyed_rng(seed, int(now_s), 7).standard_normal(len(seen)), 0.01)
    types = [cluster.pools[cluster.gpu_pool[run.gpus[0]]] for _, run, _ in seen]
    return Measured(
        np.array([job for job, _, _ in seen], dtype=np.int64),
        np.array([run.attempt for _, run, _ in seen], dtype=np.int64),
        np.array([run.since_s for _, run, _ in seen], dtype=np.float64),
        np.array([run.rate for _, run, _ in seen], dtype=np.float64) * noise,
        np.array(
            [physics.utilization(spec, kind, len(run.gpus)) for kind, (_, run, spec) in zip(types, seen, strict=True)],
            dtype=np.float64,
        ),
        np.array([spec.gpu_gib or math.nan for _, _, spec in seen], dtype=np.float64),
        np.array([spec.resident_gib or math.nan for _, _, spec in seen], dtype=np.float64),
        now_s,
    )
