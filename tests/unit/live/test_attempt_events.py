"""Reports of many machines about their jobs in one turn."""

import numpy as np

from rota.live.attempt_events import progress_in_one
from rota.model.events import External, Progressed, Started, TimerFired


def batch(job: int, steps: float, at_s: float) -> Progressed:
    return Progressed(np.array([job]), np.array([1]), np.array([steps]), np.array([0.0]), at_s)


def test_progress_of_many_nodes_is_one_batch_behind_the_starts_that_it_is_about() -> None:
    starts: list[External] = [Started(job, 1, 1, 4.0, job) for job in (1, 2)]
    found = progress_in_one([starts[0], batch(1, 3.0, 5.0), starts[1], batch(2, 4.0, 5.5)])
    assert found[:2] == starts
    together = found[2]
    assert isinstance(together, Progressed) and len(found) == 3
    assert (together.jobs.tolist(), together.steps_done.tolist(), together.at_s) == ([1, 2], [3.0, 4.0], 5.5)


def test_one_batch_stays_as_it_is() -> None:
    events: list[External] = [batch(1, 3.0, 5.0), TimerFired(6.0)]
    assert progress_in_one(events) is events
