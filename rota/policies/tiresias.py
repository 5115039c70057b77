"""Tiresias (NSDI'19, sections 3.2 to 3.4): discretised two-dimensional least attained service. No job knowledge needed."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rota.model.allocation import Ranking
from rota.model.view import View
from rota.policies.queues import QueueMemory, check_thresholds, queue_up


@dataclass(frozen=True)
class Tiresias:
    """Strict priority between queues; a job sinks as its service passes thresholds. Inside a queue: first come, first served."""

    thresholds: tuple[float, ...] = (3250.0, 7200.0)
    """Service, in GPU-seconds, at which a job sinks to the next queue. Near the mean service of your jobs is a good first one."""
    promote: float = 0.0
    """A job that has waited this many times as long as it ran goes back to the first queue; 0: never."""
    service: Literal["gpu-seconds", "seconds"] = "gpu-seconds"
    """What counts as service: GPUs times run time, or run time alone."""

    def __post_init__(self) -> None:
        check_thresholds(self.thresholds, "tiresias")

    def allocate(self, view: View) -> Ranking:
        queues = queue_up(view, self.thresholds, self.promote, self.service)
        # In each queue: those that run, then those that wait, both as they stood; newcomers and the demoted behind them.
        count = len(view.jobs)
        group = np.maximum(queues.moved, ~view.jobs.granted)
        order = ((queues.level * 4 + group) * (count + 1) + queues.place).argsort(kind="stable")
        place = np.empty(count, dtype=np.int64)
        place[order] = np.arange(count)
        return Ranking.permutation(
            order,
            run_seconds=queues.run_seconds,
            wait_seconds=queues.wait_seconds,
            memory=QueueMemory(view.jobs.ids, queues.level, place, queues.base),
            memory_can_wait=True,
            key="queue, then arrival in it",
        )
