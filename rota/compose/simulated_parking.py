"""Parking in a simulation: every job can be parked, at a cost for the memory that it moves."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from rota.beliefs.move_costs import DRIVER_CHECKPOINT, LINK_SPEED, MemoryCosts
from rota.errors import UnknownNameError
from rota.model.job import JobSpec
from rota.sim.physics import Physics
from rota.traces.trace import Trace

PARK_METHODS: Mapping[str, MemoryCosts] = {"link": LINK_SPEED, "driver": DRIVER_CHECKPOINT}
"""Value of --park -> costs of moving the memory."""

DEFAULT_GIB = 4.0
"""Assumed GPU memory of a job whose memory is unknown, in GiB. The overheads of the preset `measured` fit this size."""


def parked(method: str, physics: Physics, trace: Trace) -> tuple[Physics, Trace]:
    """Return the physics and the trace with jobs that can be parked with this method."""
    if method not in PARK_METHODS:
        raise UnknownNameError("value of --park", method, PARK_METHODS, hint="--park link")
    if physics.memory == MemoryCosts():
        physics = replace(physics, memory=PARK_METHODS[method])
    arrivals = tuple(arrival._replace(spec=_that_parks(arrival.spec)) for arrival in trace.arrivals)
    return physics, replace(trace, arrivals=arrivals)


@lru_cache(maxsize=4096)
def _that_parks(spec: JobSpec) -> JobSpec:
    return replace(spec, can_park=True, least_gib=spec.resident_gib or DEFAULT_GIB)
