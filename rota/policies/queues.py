"""The queues of Tiresias: who sits in which, who sinks, who is promoted, and when that changes. Shared by 2D-LAS and 2D-Gittins."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rota.model.units import FOREVER, Floats, Ints
from rota.model.view import View

SLACK = 1e-6
"""GPU-seconds by which a timer may fall short of its threshold through rounding."""

NEW, SUNK_OR_RAISED = 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Memory: where each job stood after the last answer."""

    ids: Ints
    level: Ints
    place: Ints
    base: Floats
    """At its last promotion: service, run seconds and waited seconds; shape (3, jobs)."""


@dataclass(frozen=True, slots=True, eq=False)
class Queues:
    level: Ints
    """The queue each job is in, 0 the best."""
    place: Ints
    """Where it stood at the last answer; newcomers by submission."""
    moved: Ints
    """0: as before; else NEW or SUNK_OR_RAISED."""
    service: Floats
    """Service since the last promotion."""
    base: Floats
    run_seconds: Floats
    """Running this long makes it sink."""
    wait_seconds: Floats | None
    """Waiting this long raises it."""


def queue_up(
    view: View, thresholds: tuple[float, ...], promote: float, service: Literal["gpu-seconds", "seconds"]
) -> Queues:
    """Put every job in its queue, from what it has received since its last promotion."""
    jobs = view.jobs
    count = len(jobs)
    pace = np.ones(count, dtype=np.int64) if service == "seconds" else jobs.gpus
    attained = jobs.run_seconds if service == "seconds" else jobs.attained_gpu_seconds
    before, place, base, known = _recall(view.memory, jobs.ids)
    received = attained - base[0]
    limits = np.array((*thresholds, FOREVER))
    level = np.searchsorted(limits[:-1], received + SLACK, side="right")
    moved = np.where(known, np.where(level != before, SUNK_OR_RAISED, 0), NEW)
    wait_seconds = None
    if promote:
        run, waited = jobs.run_seconds - base[1], jobs.waited_seconds - base[2]
        patience = np.where((level > 0) & (run > 0), promote * run - waited, FOREVER)
        rises = ~jobs.granted & (patience <= SLACK)
        level = np.where(rises, 0, level)
        moved = np.where(rises, SUNK_OR_RAISED, moved)
        base = np.where(rises, np.stack((attained, jobs.run_seconds, jobs.waited_seconds)), base)
        received = np.where(rises, 0.0, received)
        wait_seconds = np.where(rises, FOREVER, patience)
    run_seconds = (limits[level] - received) / pace
    return Queues(level, place, moved, received, base, run_seconds, wait_seconds)


def _recall(memory: Standing | None, ids: Ints) -> tuple[Ints, Ints, Floats, np.ndarray]:
    count = len(ids)
    if memory is None or not len(memory.ids):
        return np.zeros(count, np.int64), np.arange(count), np.zeros((3, count)), np.zeros(count, bool)
    at = np.minimum(np.searchsorted(memory.ids, ids), len(memory.ids) - 1)
    known = memory.ids[at] == ids
    if known.all():
        return memory.level[at], memory.place[at], memory.base[:, at], known
    fresh = len(memory.ids) + np.arange(count)
    return (
        np.where(known, memory.level[at], 0),
        np.where(known, memory.place[at], fresh),
        np.where(known, memory.base[:, at], 0.0),
        known,
    )
