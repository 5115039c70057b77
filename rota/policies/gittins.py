"""2D-Gittins (Tiresias, NSDI'19, section 3.3): the queues of Tiresias, each ranked by the Gittins index of attained service."""

from dataclasses import dataclass

import numpy as np

from rota.model.allocation import Ranking
from rota.model.units import Floats
from rota.model.view import View
from rota.policies.queues import SLACK_DIGITS, QueueMemory, check_thresholds, queue_limits, queue_up


@dataclass(frozen=True)
class Gittins:
    """Favours jobs that are likely to end soon, judged by the service of finished jobs. Needs to know nothing about a job."""

    thresholds: tuple[float, ...] = (3250.0, 7200.0)
    """Service at which a job moves to the next queue, in GPU-seconds."""
    delta: float = 0.0
    """How far ahead the index looks, in GPU-seconds; 0 for the upper limit of the job's queue."""
    promote: float = 0.0
    """Waiting time after which a job returns to the first queue, as a multiple of its run time; 0 for never."""
    history: tuple[float, ...] = ()
    """Service of past jobs, from a file with one column `duration`; empty to learn from the jobs that finish."""

    def __post_init__(self) -> None:
        check_thresholds(self.thresholds, "gittins")

    def allocate(self, view: View) -> Ranking:
        queues = queue_up(view, self.thresholds, self.promote, "gpu-seconds")
        past = np.sort(np.array(self.history) if self.history else view.history_gpu_seconds.round(SLACK_DIGITS))
        delta = np.full(len(view.jobs), self.delta) if self.delta else queue_limits(self.thresholds)[queues.level]
        index = gittins_index(past, queues.service.round(SLACK_DIGITS), delta)
        return Ranking.permutation(
            np.lexsort((-index, queues.level)),
            run_seconds=queues.run_seconds,
            wait_seconds=queues.wait_seconds,
            memory=QueueMemory(view.jobs.ids, queues.level, queues.place, queues.base),
            memory_can_wait=True,
            key="queue, then Gittins index",
        )


def gittins_index(past: Floats, age: Floats, delta: Floats) -> Floats:
    """Return P(S - a <= D | S > a) / E[min(S - a, D) | S > a] over the sorted sample `past`; 0 if no job of the sample outlived
    `age`."""
    total = np.concatenate(([0.0], np.cumsum(past)))
    low = np.searchsorted(past, age, side="right")
    high = np.searchsorted(past, age + delta, side="right")
    ending = high - low
    beyond = len(past) - high
    spent = total[high] - total[low] - age * ending + np.where(beyond > 0, delta, 0.0) * beyond
    index: Floats = np.divide(ending, spent, out=np.zeros(len(age)), where=spent > 0)
    return index
