"""Detect runs that spent their time on switching jobs instead of running them."""

from collections.abc import Sequence

import numpy as np

from rota.model.job import Arrival
from rota.sim.physics import Physics
from rota.sim.record import Record

SWITCH_SECONDS = 14.0
"""Duration of a switch if the simulation has none, in seconds: launch, save and load, as in the preset `measured`."""

MAX_SWITCH_FRACTION = 0.25
"""Maximum fraction of the jobs' time on GPUs that switching may take."""


def thrash_notes(record: Record, arrivals: Sequence[Arrival], physics: Physics) -> list[str]:
    """Return a sentence if jobs were suspended so often that switching took too much of their time. Jobs that can be parked
    switch almost for free and are not counted."""
    counts = np.array([not arrival.spec.can_park for arrival in arrivals], dtype=bool)
    suspensions, occupied = int(record.suspensions[counts].sum()), float(record.occupied_seconds[counts].sum())
    cost = max(physics.launch_seconds + physics.checkpoint_seconds + physics.restore_seconds, SWITCH_SECONDS)
    if suspensions * cost <= MAX_SWITCH_FRACTION * occupied:
        return []
    jobs = int(counts.sum())
    stretch = occupied / (suspensions + jobs)
    return [
        f"thrashing: {suspensions:,} suspensions of {jobs:,} jobs, which ran for {stretch:.3g} s at a time, while a switch "
        f"costs about {cost:.3g} s; larger thresholds, quanta or rounds lose less"
    ]
