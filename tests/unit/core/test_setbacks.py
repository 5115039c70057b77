"""A job whose attempts fail in the same way again and again pauses between them, longer each time, and fails in the end."""

import numpy as np
import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC
from rota.core.explain import explain
from rota.core.fold.setbacks import FIRST_PAUSE_SECONDS, MAX_SETBACKS
from rota.core.scheduler import Scheduler
from rota.model.commands import Launch, Suspend, SuspendKind
from rota.model.events import CancelRequested, Exited, External, HoldRequested, Outcome, Progressed, Suspended, TimerFired
from rota.model.reasons import Reason
from rota.placers.packed import Packed
from tests.unit.core.helpers import Bench, of_type

WHY = "it left with exit code 75 after 0.1 s"


def left(attempt: int, at_s: float, why: str = WHY, node: int | None = None) -> Exited:
    return Exited(0, attempt, at_s, Outcome.YIELDED, 0.0, node, setback=why)


def test_the_pauses_grow_and_the_fifth_setback_is_the_last() -> None:
    made = Bench("1xV100")
    made.obey(made.submit())
    pauses = []
    for attempt in range(1, MAX_SETBACKS):
        assert of_type(made.tell(left(attempt, made.now_s)), Launch) == []
        (reason,) = explain(made.state, 0)
        assert (
            reason.code is Reason.BACKING_OFF
            and f"Attempt {attempt} of {MAX_SETBACKS} in a row failed: {WHY}." in reason.sentence
        )
        pauses.append(made.state.cycle.timer_s - made.now_s)
        wake_s = made.state.cycle.timer_s
        assert of_type(made.tell(TimerFired(wake_s - 0.1), at_s=wake_s - 0.1), Launch) == [], "it waits"
        (launch,) = of_type(made.obey(made.tell(TimerFired(wake_s), at_s=wake_s)), Launch)
        assert launch.attempt == attempt + 1
    assert pauses == pytest.approx([FIRST_PAUSE_SECONDS * 2**n for n in range(MAX_SETBACKS - 1)])
    assert made.tell(left(MAX_SETBACKS, made.now_s)) == []
    assert 0 not in made.state.jobs.row and not made.state.jobs.setbacks, "it has failed"


def test_another_job_has_the_gpus_meanwhile() -> None:
    made = Bench("1xV100")
    made.obey(made.submit())
    made.submit(steps=200.0)
    (launch,) = of_type(made.obey(made.tell(left(1, 0.0))), Launch)
    assert launch.job == 1


def test_a_save_that_raises_is_a_setback_too() -> None:
    made = Bench("1xV100")
    made.obey(made.submit(steps=1000.0))
    (suspend,) = of_type(made.submit(at_s=10.0, steps=1.0), Suspend)
    broken = Suspended(0, 1, suspend.sequence, 11.0, SuspendKind.CHECKPOINT, 0.0, setback="save raised OSError: no")
    made.obey(made.tell(broken, at_s=11.0))
    assert made.obey(made.tell(Exited(1, 1, 12.0, Outcome.FINISHED, 1.0), at_s=12.0)) == [], "it pauses, though the GPU is free"
    (launch,) = of_type(made.tell(TimerFired(16.0), at_s=16.0), Launch)
    assert launch.job == 0


def progress(attempt: int, saved: float, at_s: float) -> Progressed:
    return Progressed(np.array([0]), np.array([attempt]), np.array([30.0]), np.array([saved]), at_s)


@pytest.mark.parametrize(
    "event", [progress(2, 20.0, 9.0), Exited(0, 2, 9.0, Outcome.YIELDED, 20.0)], ids=["a checkpoint", "a good end"]
)
def test_an_attempt_that_saves_ends_the_row(event: External) -> None:
    made = Bench("1xV100")
    made.obey(made.submit())
    made.tell(left(1, 0.0))
    made.obey(made.tell(TimerFired(5.0), at_s=5.0))
    assert made.state.jobs.setbacks[0].times == 1
    made.obey(made.tell(event, at_s=9.0))
    assert not made.state.jobs.setbacks


def test_one_that_was_lost_says_nothing() -> None:
    made = Bench("1xV100")
    made.obey(made.submit())
    made.tell(left(1, 0.0))
    made.obey(made.tell(TimerFired(5.0), at_s=5.0))
    made.obey(made.tell(Exited(0, 2, 6.0, Outcome.LOST, 0.0), at_s=6.0))
    assert made.state.jobs.setbacks[0].times == 1


def test_a_gang_has_one_whatever_part_says_so() -> None:
    made = Bench("2x(1xV100)")
    made.obey(made.submit(gpus=2))
    made.tell(left(1, 0.0, node=0))
    made.tell(left(1, 0.0, why="", node=1))
    assert made.state.jobs.setbacks[0].times == 1 and made.state.jobs.setbacks[0].what == WHY


def test_held_released_and_cancelled_while_it_pauses() -> None:
    made = Bench("1xV100")
    made.obey(made.submit())
    made.tell(left(1, 0.0))
    made.tell(HoldRequested(0, 1.0), at_s=1.0)
    assert explain(made.state, 0)[0].code is Reason.HELD
    assert of_type(made.tell(HoldRequested(0, 2.0, held=False), at_s=2.0), Launch) == [], "the pause is not over"
    made.tell(CancelRequested(0, 3.0), at_s=3.0)
    assert 0 not in made.state.jobs.row


def test_a_scheduler_that_is_started_again_knows_of_the_pause() -> None:
    made = Bench("1xV100")
    made.obey(made.submit())
    made.tell(left(1, 0.0))
    other = Scheduler(made.state.nodes.cluster, Packed())
    other.restore(made.core.snapshot(JOURNAL_CODEC), JOURNAL_CODEC)
    assert other.state.jobs.setbacks == made.state.jobs.setbacks
    made.core = other
    assert of_type(made.tell(TimerFired(4.9), at_s=4.9), Launch) == []
    assert len(of_type(made.tell(TimerFired(5.0), at_s=5.0), Launch)) == 1
