"""The stay of an attempt on its GPUs: what it costs in GPU-seconds, and what it is worth in normalised work.

An attempt holds its GPUs from the command that launches or resumes it until it is parked or has ended. A GPU that two jobs share
counts half for each. Work counts from the start on, at the rate that the scheduler believes: a second on one GPU is worth one
second if no type of the cluster that the job accepts is believed to be faster with as many GPUs.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rota.core.state.state import State
from rota.live.placement_text import format_placement
from rota.model.units import MILLI, Ints

DAY_SECONDS = 86_400.0
SMALL_RATE = 1e-9
"""Rates below this count as unknown, in steps per second."""


class GpuStay(NamedTuple):
    """One attempt, from the command that launches it until its end."""

    attempt: int
    gpus: Sequence[int]
    """Numbers of its GPUs."""
    accelerator: str
    placement: str
    share: float
    """Fraction of each GPU that it holds."""
    since_s: float | None
    """Time since which it has held these GPUs in this way, and up to which all else is booked; None while it is parked."""
    speed: float = 0.0
    """Normalised work per second and GPU; 0 while it starts."""
    sequence: int = 0
    """Sequence of the last start, resume or resize that is among its events; 0 before the first."""
    gpu_seconds: float = 0.0
    """GPU-seconds of the attempt up to `since_s`."""
    work_seconds: float = 0.0
    """Normalised work of the attempt up to `since_s`, in seconds."""

    @property
    def width(self) -> float:
        """Number of GPUs, where a shared GPU counts with its fraction."""
        return len(self.gpus) * self.share


class Piece(NamedTuple):
    """A part of a stay within one day."""

    day: int
    """Day in UTC, counted from 1970-01-01."""
    gpu_seconds: float
    work_seconds: float


def pieces(stay: GpuStay, until_s: float) -> Iterator[Piece]:
    """Return what the stay has cost since `since_s`, day by day."""
    if stay.since_s is None:
        return
    start_s = stay.since_s
    while start_s < until_s:
        day = int(start_s // DAY_SECONDS)
        end_s = min(until_s, (day + 1) * DAY_SECONDS)
        seconds = end_s - start_s
        yield Piece(day, seconds * stay.width, seconds * len(stay.gpus) * stay.speed)
        start_s = end_s


def since_booked(stay: GpuStay | None, now_s: float) -> Piece:
    """Return what a stay has cost since `since_s`."""
    if stay is None or stay.since_s is None:
        return Piece(0, 0.0, 0.0)
    seconds = max(now_s - stay.since_s, 0.0)
    return Piece(int(now_s // DAY_SECONDS), seconds * stay.width, seconds * len(stay.gpus) * stay.speed)


def new_stay(state: State, attempt: int, gpus: Ints, since_s: float | None, share: float) -> GpuStay:
    """Return the stay of an attempt on these GPUs."""
    cluster = state.nodes.cluster
    return GpuStay(
        attempt,
        gpus.tolist(),
        cluster.pools[cluster.gpu_pool[gpus[0]]],
        format_placement(cluster, gpus),
        share,
        since_s,
    )


def share_at_launch(state: State, job: int, gpus: Ints) -> float:
    """Return the fraction of each GPU that a job gets when it is launched on these."""
    milli = state.jobs.specs[job].milli_per_gpu if state.beliefs.options.has_fractions else MILLI
    if milli < MILLI:
        return milli / MILLI
    return 0.5 if state.nodes.observed.holders(gpus) - {job} else 1.0


def share_now(state: State, job: int, gpus: Sequence[int]) -> float:
    """Return the fraction of each GPU that a job is observed to hold."""
    held = state.nodes.observed.gpu_fractions.get(gpus[0])
    return 1.0 if held is None else next((size / MILLI for who, size in held if who == job), 1.0)


def speed_now(state: State, job: int) -> float:
    """Return the normalised work per second and GPU of a running job: its believed rate over the best rate of its kind with as
    many GPUs; 0 if it does not run."""
    row = state.jobs.row[job]
    table, options = state.jobs.table, state.beliefs.options
    attempt = state.jobs.attempts.get(job)
    rate = table.rate.item(row)
    if attempt is None or rate < SMALL_RATE or attempt.option < 0:
        return 0.0
    rows = options.by_kind[table.kind.item(row)]
    rows = rows[rows >= 0]
    alike = rows[options.milligpus[rows] == options.milligpus.item(attempt.option)]
    best = float(options.rate[alike].max()) if len(alike) else 0.0
    return rate / best if best >= SMALL_RATE else 1.0


def nodes_of(state: State, stay: GpuStay) -> list[str]:
    """Return the names of the nodes of a stay."""
    cluster = state.nodes.cluster
    return [cluster.nodes[node].name for node in sorted(set(cluster.gpu_node[np.array(stay.gpus)].tolist()))]
