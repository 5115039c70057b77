"""Steps per second of live jobs, measured over windows in which nothing changed for them.

Something changes for a job when it starts or is woken, and when another job comes to its GPUs, leaves them or is parked; while
one of them starts or has been told to stop, nothing is measured. The ends of a window are moments of steps as the supervisors
noted them, and not those at which the daemon looked.

It remembers nothing that has to last: after a restart of the daemon windows begin anew. The core takes a measurement only if it
knows the job in the same company from the beginning of the window on.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from rota.agent.constants import ENDED, PARKED, RUNNING
from rota.agent.orders import IncarnationStatus
from rota.model.events import Measured

FIRST_SECONDS = 3.0
"""The first window after a change is at least so long,"""
LATER_SECONDS = 15.0
"""and those that follow it so long."""
LEAST_STEPS = 4
"""Fewer steps say little of a pace."""

IncarnationKey = tuple[int, int]
"""Job and incarnation."""


class StepWindow(NamedTuple):
    """Where a job was when its window began."""

    since_s: float
    steps: float
    seconds: float
    """How long the window has to be."""


class StepRates:
    """Keeps the windows of all jobs of a machine."""

    def __init__(self) -> None:
        self._windows: dict[IncarnationKey, StepWindow] = {}
        self._latest: dict[IncarnationKey, IncarnationStatus] = {}
        """Of the jobs that have a window."""
        self._left_s: dict[str, float] = {}
        """When a job last left these GPUs."""

    def look(self, inventory: Iterable[IncarnationStatus], began_s: Mapping[IncarnationKey, float]) -> None:
        """How all incarnations are now, and since when those work that do."""
        there: dict[str, list[IncarnationStatus]] = {}
        for status in inventory:
            left_s = status.parked_s if status.state == PARKED else status.ended_s
            if status.state not in (ENDED, PARKED):
                there.setdefault(status.gpus_text, []).append(status)
            elif left_s is not None:
                self._left_s[status.gpus_text] = max(left_s, self._left_s.get(status.gpus_text, -math.inf))
        before, self._windows, self._latest = self._windows, {}, {}
        for where, together in there.items():
            if not all(each.state == RUNNING and each.asked is None and _key(each) in began_s for each in together):
                continue
            changed_s = max(self._left_s.get(where, -math.inf), *(began_s[_key(each)] for each in together))
            for status in together:
                window = _window(before.get(_key(status)), status, changed_s)
                if window is not None:
                    self._windows[_key(status)], self._latest[_key(status)] = window, status

    def measured(self, now_s: float) -> Measured | None:
        """Whatever was measured since the last call; None: no window is long enough yet. Each of these begins anew."""
        found: list[tuple[IncarnationStatus, float, float]] = []
        for key, window in self._windows.items():
            status = self._latest[key]
            assert status.stepped_s is not None
            seconds, steps = status.stepped_s - window.since_s, status.steps_done - window.steps
            if seconds >= window.seconds and steps >= LEAST_STEPS:
                found.append((status, window.since_s, steps / seconds))
                self._windows[key] = StepWindow(status.stepped_s, status.steps_done, LATER_SECONDS)
        if not found:
            return None
        found.sort(key=lambda each: each[0].job)
        unknown = np.full(len(found), math.nan)
        return Measured(
            np.array([status.job for status, _, _ in found], dtype=np.int64),
            np.array([status.incarnation for status, _, _ in found], dtype=np.int64),
            np.array([since_s for _, since_s, _ in found], dtype=np.float64),
            np.array([rate for _, _, rate in found], dtype=np.float64),
            unknown,
            unknown,
            unknown,
            now_s,
        )


def _key(status: IncarnationStatus) -> IncarnationKey:
    return status.job, status.incarnation


def _window(window: StepWindow | None, status: IncarnationStatus, changed_s: float) -> StepWindow | None:
    """The window that goes on, or another that begins with the latest step; None: there has been no step since the change."""
    if status.stepped_s is None or status.stepped_s < changed_s:
        return None
    if window is not None and window.since_s >= changed_s and window.steps <= status.steps_done:
        return window
    return StepWindow(status.stepped_s, status.steps_done, FIRST_SECONDS)
