"""The queues of Tiresias: which job is in which queue, and when it is demoted or promoted. 2D-LAS and 2D-Gittins use them."""

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from rota.errors import OptionError
from rota.model.units import FOREVER, Floats, Ints
from rota.model.view import View

SLACK = 1e-6
"""GPU-seconds by which rounding may make a timer miss its threshold."""
SLACK_DIGITS = 6
"""Decimals of GPU-seconds that count when jobs are compared. The rest is rounding, and must not break a tie."""

NEW, SUNK_OR_RAISED = 2, 3
"""How a job came to its queue, as a sort key. Both are behind jobs that run (0) and jobs that wait (1), and new jobs are before
those that changed queues."""


@dataclass(frozen=True, slots=True, eq=False)
class QueueMemory:
    """Memory of the policy: the queue of each job after the last answer."""

    ids: Ints
    level: Ints
    place: Ints
    base: Floats | None
    """Service, run seconds and waited seconds at the last promotion: shape (3, jobs); None if promotion is off."""


@dataclass(slots=True, eq=False)
class Queues:
    level: Ints
    """Queue of each job; 0 is the first."""
    place: Ints
    """Place in the last order. New jobs come last, by submission."""
    moved: Ints
    """NEW, SUNK_OR_RAISED, or 0 if the job was in this queue before."""
    service: Floats
    """Service since the last promotion, in GPU-seconds or seconds."""
    base: Floats | None
    run_seconds: Floats
    """Run time until the job is demoted, in seconds."""
    wait_seconds: Floats | None
    """Waiting time until the job is promoted, in seconds."""


def check_thresholds(thresholds: tuple[float, ...], policy: str) -> None:
    """Raise OptionError if the thresholds are not finite, positive and rising."""
    rising = all(a < b for a, b in itertools.pairwise((0.0, *thresholds)))
    if not rising or any(not limit < FOREVER for limit in thresholds):
        shown = "/".join(f"{limit:g}" for limit in thresholds)
        hint = f"{policy}:thresholds=3250/7200"
        raise OptionError("must be positive and rise.", field=f"{policy} thresholds", value=shown, hint=hint)


@lru_cache(maxsize=64)
def queue_limits(thresholds: tuple[float, ...]) -> Floats:
    """Return the upper limit of each queue; infinite for the last."""
    return np.array((*thresholds, FOREVER))


def queue_up(view: View, thresholds: tuple[float, ...], promote: float, service: Literal["gpu-seconds", "seconds"]) -> Queues:
    """Put every job in its queue, by the service since its last promotion."""
    jobs = view.jobs
    attained = jobs.run_seconds if service == "seconds" else jobs.attained_gpu_seconds
    limits = queue_limits(thresholds)
    memory: QueueMemory | None = view.memory
    if memory is None or not len(memory.ids):
        at, known = np.zeros(len(jobs), dtype=np.int64), np.zeros(len(jobs), dtype=bool)
        before, place, some_new = np.full(len(jobs), -1), np.full(len(jobs), len(jobs)), True
    else:
        at = memory.ids.searchsorted(jobs.ids)
        known = memory.ids.take(at, mode="clip") == jobs.ids
        before, place = memory.level.take(at, mode="clip"), memory.place.take(at, mode="clip")
        some_new = not known.all()
        if some_new:
            before[~known], place[~known] = -1, len(jobs)
    base, received = None, attained
    if promote:
        base = np.zeros((3, len(jobs)))
        if memory is not None and memory.base is not None:
            base[:, known] = memory.base[:, at[known]]
        received = attained - base[0]
    level = limits[:-1].searchsorted(received + SLACK, side="right")
    moved = (level != before) * SUNK_OR_RAISED
    if some_new:
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
        # The policy is not called while all jobs run, so several may have been demoted since. The first of them comes first.
        pace = 1 if service == "seconds" else jobs.granted_gpus[sunk]
        ago = (received[sunk] - limits[level[sunk] - 1]) / pace
        place[sunk] = np.lexsort((place[sunk], -ago)).argsort()
    return Queues(level, place, moved, received, base, run_seconds, wait_seconds)
