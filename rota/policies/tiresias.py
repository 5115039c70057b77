"""Tiresias (NSDI'19, sections 3.2 to 3.4): discretised two-dimensional least attained service. Needs to know nothing about a
job."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rota.model.allocation import Ranking
from rota.model.view import View
from rota.policies.queues import QueueMemory, check_thresholds, queue_up


@dataclass(frozen=True)
class Tiresias:
    """Strict priority between queues. A job is demoted as its service passes thresholds. Within a queue, first come, first
    served."""

    thresholds: tuple[float, ...] = (3250.0, 7200.0)
    """Service at which a job moves to the next queue, in GPU-seconds. Start with a threshold near the mean service of your
    jobs."""
    promote: float = 0.0
    """Waiting time after which a job returns to the first queue, as a multiple of its run time; 0 for never."""
    service: Literal["gpu-seconds", "seconds"] = "gpu-seconds"
    """What counts as service: GPUs times run time, or run time alone."""

    def __post_init__(self) -> None:
        check_thresholds(self.thresholds, "tiresias")

    def allocate(self, view: View) -> Ranking:
        queues = queue_up(view, self.thresholds, self.promote, self.service)
        # Within a queue: running jobs, then waiting jobs, both in their last order; then new and demoted jobs.
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
