"""Steps per second of live jobs, and their use of GPUs, measured over windows in which their conditions did not change.

The conditions of a job change when it starts or is resumed, and when another job gets its GPUs, leaves them or is parked. While
one of these jobs starts or is stopping, nothing is measured. Windows begin and end at times of steps that the supervisors
recorded, not at times at which the daemon looked.

Nothing here is durable: after a restart of the daemon new windows begin. The core uses a measurement only if the job had the same
partner since the beginning of the window.
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
"""Minimum length of the first window after a change, in seconds."""
LATER_SECONDS = 15.0
"""Minimum length of later windows, in seconds."""
MIN_STEPS = 4
"""Minimum number of steps for a rate measurement."""

MEMORY_GROWTH = 1.05
"""Growth of the memory of a job without a measured rate after which it is reported again, as a factor."""


class StepWindow(NamedTuple):
    """The state of a job when its window began."""

    since_s: float
    steps: float
    seconds: float
    """Minimum length of the window, in seconds."""


class GpuUseWindow(NamedTuple):
    """The use of GPUs by a job in a window."""

    since_s: float
    latest_s: float = -math.inf
    """Time of the last reading."""
    readings: int = 0
    """Number of readings that had a GPU utilization."""
    busy: float = 0.0
    """Sum of their utilisations."""
    peak_gib: float = math.nan
    least_gib: float = math.nan

    def taken(self, use: GpuUse) -> "GpuUseWindow":
        """Return the window with one more reading."""
        if use.at_s <= self.latest_s or use.at_s < self.since_s:
            return self
        known = use.utilization == use.utilization
        return GpuUseWindow(
            self.since_s,
            use.at_s,
            self.readings + known,
            self.busy + (use.utilization if known else 0.0),
            _of_known(max, self.peak_gib, use.gib),
            _of_known(min, self.least_gib, use.gib),
        )

    @property
    def utilization(self) -> float:
        return self.busy / self.readings if self.readings else math.nan


MeasuredRows = dict[AttemptKey, tuple[float, float, GpuUseWindow]]
"""Start of the window, steps per second, and use of GPUs of each attempt."""


class StepRates:
    """The windows of all jobs of a machine."""

    def __init__(self) -> None:
        self._windows: dict[AttemptKey, StepWindow] = {}
        self._latest: dict[AttemptKey, AttemptStatus] = {}
        """Last status of each job that has a window."""
        self._left_s: dict[str, float] = {}
        """Time at which a job last left these GPUs."""
        self._seen: dict[AttemptKey, GpuUseWindow] = {}
        self._uses: dict[AttemptKey, GpuUse] = {}
        """Last use of GPUs of each running attempt."""
        self._told_gib: dict[AttemptKey, float] = {}

    def look(
        self,
        inventory: Iterable[AttemptStatus],
        began_s: Mapping[AttemptKey, float],
        uses: Mapping[AttemptKey, GpuUse] | None = None,
    ) -> None:
        """Update the windows with the status of all attempts, the start of each running one, and their use of GPUs."""
        there: dict[str, list[AttemptStatus]] = {}
        for status in inventory:
            left_s = status.parked_s if status.state == PARKED else status.ended_s
            if status.state not in (ENDED, PARKED):
                there.setdefault(status.gpus_text, []).append(status)
            elif left_s is not None:
                self._left_s[status.gpus_text] = max(left_s, self._left_s.get(status.gpus_text, -math.inf))
        before, self._windows, self._latest = self._windows, {}, {}
        for where, together in there.items():
            if not all(each.state == RUNNING and each.stop_reason is None and _key(each) in began_s for each in together):
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
        """Return all measurements since the last call; None if no window is long enough yet."""
        return measured_of(self.rows(), now_s)

    def rows(self) -> MeasuredRows:
        """Return all measurements since the last call, by job. A window that was measured begins again. A job without a measured
        rate may have its memory only."""
        rows: MeasuredRows = {}
        for key, window in self._windows.items():
            status = self._latest[key]
            assert status.stepped_s is not None
            seconds, steps = status.stepped_s - window.since_s, status.steps_done - window.steps
            if seconds >= window.seconds and steps >= MIN_STEPS:
                rows[key] = window.since_s, steps / seconds, self._seen[key]
                self._windows[key] = StepWindow(status.stepped_s, status.steps_done, LATER_SECONDS)
        for key, use in self._uses.items():
            if key not in rows and use.gib > MEMORY_GROWTH * self._told_gib.get(key, 0.0):
                rows[key] = use.at_s, math.nan, GpuUseWindow(use.at_s, peak_gib=use.gib, least_gib=use.gib)
        self._told_gib |= {key: seen.peak_gib for key, (_, _, seen) in rows.items() if seen.peak_gib == seen.peak_gib}
        return rows


def measured_of(rows: MeasuredRows, now_s: float) -> Measured | None:
    """Return one event with all measurements; None if there are none."""
    if not rows:
        return None
    keys = sorted(rows)
    return Measured(
        np.array([job for job, _ in keys], dtype=np.int64),
        np.array([attempt for _, attempt in keys], dtype=np.int64),
        np.array([rows[key][0] for key in keys], dtype=np.float64),
        np.array([rows[key][1] for key in keys], dtype=np.float64),
        np.array([rows[key][2].utilization for key in keys], dtype=np.float64),
        np.array([rows[key][2].peak_gib for key in keys], dtype=np.float64),
        np.array([rows[key][2].least_gib for key in keys], dtype=np.float64),
        now_s,
    )


def _of_known(choose: Callable[[float, float], float], before: float, now: float) -> float:
    """Choose between two values, or return the known one if the other is NaN."""
    return now if before != before else before if now != now else choose(before, now)


def _key(status: AttemptStatus) -> AttemptKey:
    return status.job, status.attempt


def _window(window: StepWindow | None, status: AttemptStatus, changed_s: float) -> StepWindow | None:
    """Return the window if it continues, or a new one that begins with the latest step; None if there has been no step since the
    change."""
    if status.stepped_s is None or status.stepped_s < changed_s:
        return None
    if window is not None and window.since_s >= changed_s and window.steps <= status.steps_done:
        return window
    return StepWindow(status.stepped_s, status.steps_done, FIRST_SECONDS)
