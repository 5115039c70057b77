"""Whether a run spent its time on switching jobs instead of running them."""

from collections.abc import Sequence

import numpy as np

from rota.model.job import Arrival
from rota.sim.physics import Physics
from rota.sim.record import Record

SWITCH_SECONDS = 14.0
"""What a switch costs where a run says nothing about it: launch, save and load, as in the preset `measured`."""

MOST_LOST = 0.25
"""Switching may take this part of the time in which jobs hold GPUs."""


def thrash_notes(record: Record, arrivals: Sequence[Arrival], physics: Physics) -> list[str]:
    """A sentence if jobs were suspended more often than their thresholds or rounds can pay for. Jobs that can be parked switch
    for next to nothing and don't count."""
    counts = np.array([not arrival.spec.can_park for arrival in arrivals], dtype=bool)
    suspensions, held = int(record.suspensions[counts].sum()), float(record.occupied_seconds[counts].sum())
    cost = max(physics.launch_seconds + physics.checkpoint_seconds + physics.restore_seconds, SWITCH_SECONDS)
    if suspensions * cost <= MOST_LOST * held:
        return []
    jobs = int(counts.sum())
    stretch = held / (suspensions + jobs)
    return [
        f"thrashing: {suspensions:,} suspensions of {jobs:,} jobs, which held GPUs for {stretch:.3g} s at a time, while a switch "
        f"costs about {cost:.3g} s; larger thresholds, quanta or rounds lose less"
    ]
