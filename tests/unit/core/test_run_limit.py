"""A job that has run for its longest time saves, stops and ends as failed."""

import json

import pytest

from rota.core.scheduler import Scheduler
from rota.core.snapshot import make_codec
from rota.model.commands import Kill, Launch, Suspend, SuspendKind
from rota.model.events import Exited, External, HoldRequested, Outcome, Suspended, TimerFired
from rota.model.job import JobSpec, Phase
from rota.model.length_text import length_text
from tests.unit.core.helpers import Bench, of_type


def why_ended(bench: Bench, event: External) -> dict[int, str]:
    """Return why jobs would end with this event."""
    twin = bench.core.fork()
    twin.fold(event.at_s, [event])
    assert all(phase is Phase.FAILED for phase, _ in twin.state.jobs.ended_because.values())
    return {job: why for job, (_, why) in twin.state.jobs.ended_because.items()}


def test_the_limit_is_exact_and_counts_running_time_only() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(max_run_seconds=100.0, can_park=True, gpu_gib=1.0))
    assert bench.state.cycle.timer_s == 100.0
    bench.obey(bench.tell(HoldRequested(0, 40.0), at_s=40.0))
    assert bench.state.cycle.timer_s > 1000.0, "parked time is free"
    bench.obey(bench.tell(HoldRequested(0, 500.0, held=False), at_s=500.0))
    assert bench.state.cycle.timer_s == 560.0
    assert of_type(bench.tell(TimerFired(559.0), at_s=559.0), Suspend, Kill) == []
    (suspend,) = of_type(bench.tell(TimerFired(560.0), at_s=560.0), Suspend)
    assert suspend.kind is SuspendKind.CHECKPOINT, "it could be parked, but is to save"
    bench.submit()
    saved = Suspended(0, 1, suspend.sequence, 563.0, SuspendKind.CHECKPOINT, 70.0)
    assert why_ended(bench, saved) == {0: "reached its max_run_time of 100s"}
    later = bench.tell(saved, at_s=563.0)
    assert 0 not in bench.state.jobs.row and [launch.job for launch in of_type(later, Launch)] == [1]
    bench.tell(TimerFired(564.0), at_s=564.0)
    assert bench.state.jobs.ended_because == {}, "it is news once"


@pytest.mark.parametrize(("outcome", "ends"), [(Outcome.FINISHED, {}), (Outcome.LOST, {0: "reached its max_run_time of 10s"})])
def test_a_job_that_finishes_while_it_is_stopped_has_finished(outcome: Outcome, ends: dict[int, str]) -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(max_run_seconds=10.0, retries=9))
    assert of_type(bench.tell(TimerFired(10.0), at_s=10.0), Suspend)
    gone = Exited(0, 1, 11.0, outcome, 3.0)
    assert why_ended(bench, gone) == ends
    bench.tell(gone, at_s=11.0)
    assert 0 not in bench.state.jobs.row


def test_a_job_that_saves_nothing_is_stopped_too() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(max_run_seconds=10.0, saves=False))
    assert of_type(bench.tell(TimerFired(10.0), at_s=10.0), Suspend)


def test_a_parked_job_whose_time_ended_while_it_was_being_parked_saves() -> None:
    bench = Bench("1xV100")
    bench.obey(bench.submit(max_run_seconds=10.0, can_park=True, gpu_gib=1.0))
    (park,) = of_type(bench.tell(HoldRequested(0, 9.0, lose_work=False), at_s=9.0), Suspend)
    bench.tell(TimerFired(10.0), at_s=10.0)
    later = bench.tell(Suspended(0, 1, park.sequence, 11.0, SuspendKind.PARK, 5.0), at_s=11.0)
    (save,) = of_type(later, Suspend)
    assert save.kind is SuspendKind.CHECKPOINT
    bench.obey([save])
    assert 0 not in bench.state.jobs.row


def test_the_timer_survives_recovery() -> None:
    words, bench = make_codec(), Bench("1xV100")
    bench.obey(bench.submit(max_run_seconds=100.0))
    twin = Scheduler.of(bench.state.nodes.cluster, bench.core.setup)
    twin.restore(json.loads(json.dumps(bench.core.snapshot(words))), words)
    assert of_type(twin.step(150.0, [TimerFired(150.0)]), Suspend), "its time ended while no scheduler ran"
    assert words.decode(json.loads(json.dumps(words.encode(JobSpec(max_run_seconds=7.0))))).max_run_seconds == 7.0


def test_lengths_are_written_as_users_write_them() -> None:
    seconds = (0.5, 90, 120, 3600, 5400, 43_200, 129_600)
    assert [length_text(each) for each in seconds] == ["0.5s", "90s", "2m", "1h", "1h30m", "12h", "1d12h"]
