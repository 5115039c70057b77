"""The queues of Tiresias: who sits in which, who sinks or is promoted, and when. Shared by 2D-LAS and 2D-Gittins."""

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from rota.errors import OptionError
from rota.model.units import FOREVER, Floats, Ints
from rota.model.view import View

SLACK = 1e-6
"""GPU-seconds by which a timer may fall short of its threshold through rounding."""
SLACK_DIGITS = 6
"""Decimals of service in GPU-seconds that count where jobs are compared: the rest is rounding, and must not break a tie."""

NEW, SUNK_OR_RAISED = 2, 3
"""Both stand behind those that run (0) and those that wait (1); who just came before who just changed queues."""


@dataclass(frozen=True, slots=True, eq=False)
class QueueMemory:
    """Memory: where each job stood after the last answer."""

    ids: Ints
    level: Ints
    place: Ints
    base: Floats | None
    """At its last promotion: service, run seconds and waited seconds; shape (3, jobs). None: promotion is off."""


@dataclass(slots=True, eq=False)
class Queues:
    level: Ints
    """The queue each job is in, 0 the best."""
    place: Ints
    """Where it stood at the last answer; newcomers behind everybody, by submission."""
    moved: Ints
    """0: as before; else NEW or SUNK_OR_RAISED."""
    service: Floats
    """Service since the last promotion."""
    base: Floats | None
    run_seconds: Floats
    """Running this long makes it sink."""
    wait_seconds: Floats | None
    """Waiting this long raises it."""


def check_thresholds(thresholds: tuple[float, ...], policy: str) -> None:
    """Refuse thresholds that are not finite, positive and rising."""
    rising = all(a < b for a, b in itertools.pairwise((0.0, *thresholds)))
    if not rising or any(not limit < FOREVER for limit in thresholds):
        shown = "/".join(f"{limit:g}" for limit in thresholds)
        hint = f"{policy}:thresholds=3250/7200"
        raise OptionError("must be positive and rise.", field=f"{policy} thresholds", value=shown, hint=hint)


@lru_cache(maxsize=64)
def queue_limits(thresholds: tuple[float, ...]) -> Floats:
    """The upper limit of each queue; the last has none."""
    return np.array((*thresholds, FOREVER))


def queue_up(view: View, thresholds: tuple[float, ...], promote: float, service: Literal["gpu-seconds", "seconds"]) -> Queues:
    """Put every job in its queue, from what it has received since its last promotion."""
    jobs = view.jobs
    attained = jobs.run_seconds if service == "seconds" else jobs.attained_gpu_seconds
    limits = queue_limits(thresholds)
    memory: QueueMemory | None = view.memory
    if memory is None or not len(memory.ids):
        at, known = np.zeros(len(jobs), dtype=np.int64), np.zeros(len(jobs), dtype=bool)
        before, place = np.full(len(jobs), -1), np.full(len(jobs), len(jobs))
    else:
        at = memory.ids.searchsorted(jobs.ids)
        known = memory.ids.take(at, mode="clip") == jobs.ids
        before, place = memory.level.take(at, mode="clip"), memory.place.take(at, mode="clip")
        if not known.all():
            before[~known], place[~known] = -1, len(jobs)
    base, received = None, attained
    if promote:
        base = np.zeros((3, len(jobs)))
        if memory is not None and memory.base is not None:
            base[:, known] = memory.base[:, at[known]]
        received = attained - base[0]
    level = limits[:-1].searchsorted(received + SLACK, side="right")
    moved = (level != before) * SUNK_OR_RAISED
    if not known.all():
        moved[~known] = NEW
    wait_seconds = None
    if base is not None:
        run, waited = jobs.run_seconds - base[1], jobs.waited_seconds - base[2]
        patience = np.where((level > 0) & (run > 0), promote * run - waited, FOREVER)
        rises = ~jobs.granted & (patience <= SLACK)
        level = np.where(rises, 0, level)
        moved = np.where(rises, SUNK_OR_RAISED, moved)
        base = np.where(rises, np.stack((attained, jobs.run_seconds, jobs.waited_seconds)), base)
        received = np.where(rises, 0.0, received)
        wait_seconds = np.where(rises, FOREVER, patience)
    run_seconds = limits[level] - received
    if service != "seconds":
        run_seconds /= jobs.granted_gpus
    sunk = (moved == SUNK_OR_RAISED) & (level > 0)
    if np.count_nonzero(sunk) > 1:
        # While everybody ran nobody asked, so several may have sunk since: whoever sank first stands first.
        pace = 1 if service == "seconds" else jobs.granted_gpus[sunk]
        ago = (received[sunk] - limits[level[sunk] - 1]) / pace
        place[sunk] = np.lexsort((place[sunk], -ago)).argsort()
    return Queues(level, place, moved, received, base, run_seconds, wait_seconds)
