"""Steps per second of live jobs, and how they use their GPUs, measured over windows in which nothing changed for them.

Something changes for a job when it starts or is woken, and when another job comes to its GPUs, leaves them or is parked; while
one of them starts or has been told to stop, nothing is measured. The ends of a window are moments of steps as the supervisors
noted them, and not those at which the daemon looked.

It remembers nothing that has to last: after a restart of the daemon windows begin anew. The core takes a measurement only if it
knows the job in the same company from the beginning of the window on.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from rota.agent.attempt_files import AttemptStatus
from rota.agent.constants import ENDED, PARKED, RUNNING
from rota.agent.gpu_use import AttemptKey, GpuUse
from rota.model.events import Measured

FIRST_SECONDS = 3.0
"""The first window after a change is at least so long,"""
LATER_SECONDS = 15.0
"""and those that follow it so long."""
LEAST_STEPS = 4
"""Fewer steps say little of a pace."""

MEMORY_GROWTH = 1.05
"""The memory of a job whose pace is not measured is told again when it has grown by this."""


class StepWindow(NamedTuple):
    """Where a job was when its window began."""

    since_s: float
    steps: float
    seconds: float
    """How long the window has to be."""


class GpuUseWindow(NamedTuple):
    """How a job used its GPUs in the window that began then."""

    since_s: float
    latest_s: float = -math.inf
    """When that was last read."""
    readings: int = 0
    """Those that told how busy the GPUs were,"""
    busy: float = 0.0
    """and the sum of what they told."""
    peak_gib: float = math.nan
    least_gib: float = math.nan

    def taken(self, use: GpuUse) -> "GpuUseWindow":
        """With one more reading."""
        if use.at_s <= self.latest_s or use.at_s < self.since_s:
            return self
        known = use.utilisation == use.utilisation
        return GpuUseWindow(
            self.since_s,
            use.at_s,
            self.readings + known,
            self.busy + (use.utilisation if known else 0.0),
            _of_known(max, self.peak_gib, use.gib),
            _of_known(min, self.least_gib, use.gib),
        )

    @property
    def utilisation(self) -> float:
        return self.busy / self.readings if self.readings else math.nan


MeasuredRows = dict[AttemptKey, tuple[float, float, GpuUseWindow]]
"""When the window of each began, its pace, and how it used its GPUs."""


class StepRates:
    """Keeps the windows of all jobs of a machine."""

    def __init__(self) -> None:
        self._windows: dict[AttemptKey, StepWindow] = {}
        self._latest: dict[AttemptKey, AttemptStatus] = {}
        """Of the jobs that have a window."""
        self._left_s: dict[str, float] = {}
        """When a job last left these GPUs."""
        self._seen: dict[AttemptKey, GpuUseWindow] = {}
        self._uses: dict[AttemptKey, GpuUse] = {}
        """Of all that work, as last read."""
        self._told_gib: dict[AttemptKey, float] = {}

    def look(
        self,
        inventory: Iterable[AttemptStatus],
        began_s: Mapping[AttemptKey, float],
        uses: Mapping[AttemptKey, GpuUse] | None = None,
    ) -> None:
        """How all attempts are now, since when those work that do, and how they use their GPUs."""
        there: dict[str, list[AttemptStatus]] = {}
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
        self._uses = {key: use for key, use in (uses or {}).items() if key in began_s}
        self._told_gib = {key: gib for key, gib in self._told_gib.items() if key in began_s}
        self._seen = {key: self._with_use(key, window) for key, window in self._windows.items()}

    def _with_use(self, key: AttemptKey, window: StepWindow) -> GpuUseWindow:
        seen = self._seen.get(key)
        if seen is None or seen.since_s != window.since_s:
            seen = GpuUseWindow(window.since_s)
        return seen.taken(self._uses[key]) if key in self._uses else seen

    def measured(self, now_s: float) -> Measured | None:
        """Whatever was measured since the last call; None: no window is long enough yet."""
        return measured_of(self.rows(), now_s)

    def rows(self) -> MeasuredRows:
        """The same by job. A window in the result begins anew. A job without a measured pace may have its memory alone."""
        rows: MeasuredRows = {}
        for key, window in self._windows.items():
            status = self._latest[key]
            assert status.stepped_s is not None
            seconds, steps = status.stepped_s - window.since_s, status.steps_done - window.steps
            if seconds >= window.seconds and steps >= LEAST_STEPS:
                rows[key] = window.since_s, steps / seconds, self._seen[key]
                self._windows[key] = StepWindow(status.stepped_s, status.steps_done, LATER_SECONDS)
        for key, use in self._uses.items():
            if key not in rows and use.gib > MEMORY_GROWTH * self._told_gib.get(key, 0.0):
                rows[key] = use.at_s, math.nan, GpuUseWindow(use.at_s, peak_gib=use.gib, least_gib=use.gib)
        self._told_gib |= {key: seen.peak_gib for key, (_, _, seen) in rows.items() if seen.peak_gib == seen.peak_gib}
        return rows


def measured_of(rows: MeasuredRows, now_s: float) -> Measured | None:
    """One event for all of these; None: there are none."""
    if not rows:
        return None
    keys = sorted(rows)
    return Measured(
        np.array([job for job, _ in keys], dtype=np.int64),
        np.array([attempt for _, attempt in keys], dtype=np.int64),
        np.array([rows[key][0] for key in keys], dtype=np.float64),
        np.array([rows[key][1] for key in keys], dtype=np.float64),
        np.array([rows[key][2].utilisation for key in keys], dtype=np.float64),
        np.array([rows[key][2].peak_gib for key in keys], dtype=np.float64),
        np.array([rows[key][2].least_gib for key in keys], dtype=np.float64),
        now_s,
    )


def _of_known(choose: Callable[[float, float], float], before: float, now: float) -> float:
    """Of two, or the one that is known."""
    return now if before != before else before if now != now else choose(before, now)


def _key(status: AttemptStatus) -> AttemptKey:
    return status.job, status.attempt


def _window(window: StepWindow | None, status: AttemptStatus, changed_s: float) -> StepWindow | None:
    """The window that goes on, or another that begins with the latest step; None: there has been no step since the change."""
    if status.stepped_s is None or status.stepped_s < changed_s:
        return None
    if window is not None and window.since_s >= changed_s and window.steps <= status.steps_done:
        return window
    return StepWindow(status.stepped_s, status.steps_done, FIRST_SECONDS)
