"""Parking in a simulation: every job can sleep on its host, and pays for the memory that it holds."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from rota.beliefs.move_costs import DRIVER_CHECKPOINT, LINK_SPEED, MemoryCosts
from rota.errors import UnknownNameError
from rota.model.job import JobSpec
from rota.sim.physics import Physics
from rota.traces.trace import Trace

WAYS: Mapping[str, MemoryCosts] = {"link": LINK_SPEED, "driver": DRIVER_CHECKPOINT}
"""How a process can be parked."""

USUAL_GIB = 4.0
"""What a job is taken to hold of which nothing is known: what the overheads of the preset `measured` stand for."""


def parked(way: str, physics: Physics, trace: Trace) -> tuple[Physics, Trace]:
    """The same with jobs that can be parked this way."""
    if way not in WAYS:
        raise UnknownNameError("way to park", way, WAYS, hint="--park link")
    if physics.memory == MemoryCosts():
        physics = replace(physics, memory=WAYS[way])
    arrivals = tuple(arrival._replace(spec=_that_parks(arrival.spec)) for arrival in trace.arrivals)
    return physics, replace(trace, arrivals=arrivals)


@lru_cache(maxsize=4096)
def _that_parks(spec: JobSpec) -> JobSpec:
    return replace(spec, can_park=True, least_gib=spec.resident_gib or USUAL_GIB)
