"""The end of a gang, as the history shows it: the core and the history agree."""

import pytest

from rota.core.scheduler import Scheduler
from rota.live.history import JobHistory
from rota.live.job_record import JobRecord
from rota.model.events import Exited, Outcome
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.unit.core.helpers import Bench

LOST, FINISHED, FAILED = Outcome.LOST, Outcome.FINISHED, Outcome.FAILED


def fold(history: JobHistory, core: Scheduler, event: Exited) -> None:
    state = core.state
    before, lives = set(state.jobs.row), {job: each.number for job, each in state.jobs.attempts.items()}
    core.fold(event.at_s, [event])
    history.note([event], before, set(), lives, state, {})


@pytest.mark.parametrize(
    ("first", "second", "phase"),
    [
        (FINISHED, FINISHED, "finished"),
        (FINISHED, LOST, "finished"),
        (LOST, FINISHED, "finished"),
        (FINISHED, FAILED, "failed"),
        (FAILED, FINISHED, "failed"),
    ],
)
def test_one_part_that_finished_is_enough_unless_another_failed(first: Outcome, second: Outcome, phase: str) -> None:
    """A supervisor that was lost says nothing of the work: the other part saw its end."""
    made, history = Bench("2x(1xV100)"), JobHistory()
    made.obey(made.submit(gpus=2, steps=10.0))
    job = Submission(Spec(run="train", gpus=2), "ana", "/", {})
    history.add(JobRecord(0, job, 0.0, last_change="submitted"))
    fold(history, made.core, Exited(0, 1, 10.0, first, 10.0, 0))
    assert not history.records[0].ended, "the other part is still there"
    fold(history, made.core, Exited(0, 1, 11.0, second, 10.0, 1))
    assert history.records[0].phase == phase and 0 not in made.state.jobs.row
