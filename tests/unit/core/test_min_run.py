"""An attempt runs for a minimum time before another job may have its GPUs: a multiple of the cost of stopping and starting the
job."""

import pytest

import rota
from rota.beliefs.move_costs import MoveCosts
from rota.core.explain import explain
from rota.core.settings import Settings
from rota.errors import OptionError
from rota.model.cluster import Node
from rota.model.commands import Launch, Resume, Suspend, SuspendKind
from rota.model.events import Exited, HoldRequested, NodeDrainChanged, Outcome, Started, Suspended, TimerFired
from rota.model.job import Arrival, JobSpec
from rota.model.reasons import Reason
from rota.traces.trace import Trace
from tests.unit.core.helpers import Bench, of_type


def started(made: Bench, launch: Launch, seconds: float, at_s: float) -> None:
    made.tell(Started(launch.job, launch.attempt, launch.sequence, at_s + seconds), at_s=at_s + seconds)


def running(factor: float = 10.0, start_seconds: float = 2.0, **spec: object) -> Bench:
    """A long job on the only GPU that was launched at 0 s and took so long to start."""
    made = Bench("1xV100", min_run_factor=factor)
    (launch,) = of_type(made.submit(steps=1000.0, **spec), Launch)
    started(made, launch, start_seconds, 0.0)
    return made


def test_it_is_ten_times_what_the_start_took() -> None:
    made = running()
    assert of_type(made.submit(at_s=5.0, steps=1.0), Suspend) == []
    (reason,) = [each for each in explain(made.state, 1) if each.code is Reason.NO_FREE_GPUS]
    assert "Job 0 has just started and keeps its GPUs for another 17 s at least." in reason.sentence
    assert reason.facts["in_min_run"] == [0]
    assert made.state.cycle.timer_s == pytest.approx(22.0), "it looks again when the minimum is over"
    assert of_type(made.tell(TimerFired(21.9), at_s=21.9), Suspend) == []
    (suspend,) = of_type(made.tell(TimerFired(22.0), at_s=22.0), Suspend)
    assert suspend.job == 0


def test_after_its_minimum_it_is_suspended_at_once() -> None:
    assert len(of_type(running().submit(at_s=30.0, steps=1.0), Suspend)) == 1


def test_without_the_factor_there_is_none() -> None:
    assert len(of_type(running(factor=0.0).submit(at_s=3.0, steps=1.0), Suspend)) == 1


def test_what_is_believed_of_a_move_is_the_least_of_it() -> None:
    made = Bench("1xV100", min_run_factor=10.0, costs=MoveCosts(launch_seconds=1.0, checkpoint_seconds=2.0))
    (launch,) = of_type(made.submit(steps=1000.0), Launch)
    started(made, launch, 0.5, 0.0)
    assert of_type(made.submit(at_s=30.0, steps=1.0), Suspend) == []
    assert made.state.cycle.timer_s == pytest.approx(30.5)


def test_what_its_last_stop_took_counts_too() -> None:
    made = running(factor=2.0, start_seconds=1.0)
    (suspend,) = of_type(made.submit(at_s=100.0, steps=1.0), Suspend)
    saved = Suspended(0, 1, suspend.sequence, 104.0, SuspendKind.CHECKPOINT, 90.0)
    made.obey(made.tell(saved, at_s=104.0))
    (launch,) = of_type(made.tell(Exited(1, 1, 110.0, Outcome.FINISHED, 1.0), at_s=110.0), Launch)
    started(made, launch, 1.0, 110.0)
    assert of_type(made.submit(at_s=112.0, steps=1.0), Suspend) == []
    assert made.state.cycle.timer_s == pytest.approx(111.0 + 2.0 * (1.0 + 4.0))


def test_work_that_a_stop_lost_is_part_of_what_it_cost() -> None:
    """So one that starts from scratch each time runs longer each time, and gets to its end."""
    made = running(factor=2.0, start_seconds=1.0, saves=None, preemptible=True)
    (suspend,) = of_type(made.submit(at_s=51.0, steps=1.0), Suspend)
    lost = Suspended(0, 1, suspend.sequence, 52.0, SuspendKind.CHECKPOINT, 0.0, saved=False)
    made.obey(made.tell(lost, at_s=52.0))
    (launch,) = of_type(made.tell(Exited(1, 1, 60.0, Outcome.FINISHED, 1.0), at_s=60.0), Launch)
    started(made, launch, 1.0, 60.0)
    made.submit(at_s=62.0, steps=1.0)
    assert made.state.cycle.timer_s == pytest.approx(61.0 + 2.0 * (1.0 + 51.0))


def test_of_a_job_that_was_parked_it_is_what_parking_and_waking_took() -> None:
    made = Bench([Node("n1", "V100", 1, host_gib=100.0)], min_run_factor=10.0)
    made.obey(made.submit(steps=1000.0, can_park=True, parked_gib=10.0))
    (suspend,) = of_type(made.submit(at_s=100.0, steps=1.0), Suspend)
    parked = Suspended(0, 1, suspend.sequence, 100.2, SuspendKind.PARK, 100.0)
    made.obey(made.tell(parked, at_s=100.2))
    (resume,) = of_type(made.tell(Exited(1, 1, 110.0, Outcome.FINISHED, 1.0), at_s=110.0), Resume)
    made.tell(Started(0, 1, resume.sequence, 110.1), at_s=110.1)
    assert of_type(made.submit(at_s=110.5, steps=1.0), Suspend) == []
    assert made.state.cycle.timer_s == pytest.approx(110.1 + 10 * 0.1, abs=1e-3), "the first parking is dearer, and not counted"


def test_a_user_who_holds_it_and_a_node_that_is_drained_do_not_wait_for_it() -> None:
    made = running()
    assert len(of_type(made.tell(HoldRequested(0, 3.0), at_s=3.0), Suspend)) == 1
    made = running()
    assert len(of_type(made.tell(NodeDrainChanged(0, 3.0), at_s=3.0), Suspend)) == 1


def test_it_survives_a_copy_of_the_state() -> None:
    made = running()
    twin = made.core.fork()
    assert twin.state.jobs.table.stays_until_s[0] == pytest.approx(22.0)


def lives(record: object) -> list[float]:
    """How long jobs had their GPUs each time, but for the last time."""
    holds, found = record.gpu_intervals, []  # type: ignore[attr-defined]
    for job in range(len(record.finished_s)):  # type: ignore[attr-defined]
        mine = (holds.job == job).nonzero()[0]
        found += (holds.end_s[mine] - holds.start_s[mine]).tolist()[:-1]
    return found


@pytest.mark.parametrize(
    ("policy", "decide"),
    [
        pytest.param("las:quantum_seconds=1", "events", marks=pytest.mark.slow),
        ("tiresias:thresholds=5", "events"),
        ("srsf", "events"),
        ("las", "both"),
        ("srsf", "rounds"),
        ("max-min-fairness", "both"),
    ],
)
def test_every_attempt_of_a_simulation_runs_for_its_minimum(policy: str, decide: str) -> None:
    jobs = [Arrival(float(n), JobSpec(gpus=1 + n % 2, steps=300.0 - 30 * n)) for n in range(8)]
    trace = Trace.of("jobs", "test", jobs)
    setup = {"policy": policy, "cluster": "2xV100", "launch_seconds": 1.0, "checkpoint_seconds": 0.5, "restore_seconds": 0.5}
    setup |= {"decide": decide} | ({"round_seconds": 10.0} if decide != "events" else {})
    found = rota.simulate(trace, **setup, min_run_factor=10.0)
    assert all(job["finished_s"] is not None for job in found.jobs)
    assert min(lives(found.record), default=99.0) >= 10.0 * 2.0 - 1e-6
    without = rota.simulate(trace, **setup)
    assert min(lives(without.record), default=99.0) < 20.0, "or this shows nothing"


def test_a_long_job_under_short_thresholds_is_suspended_a_few_times_only() -> None:
    """Live, a loop of 60 s had been suspended six times in a minute by jobs of 2 s."""
    jobs = [Arrival(0.0, JobSpec(steps=60.0))] + [Arrival(8.0 + 8 * n, JobSpec(steps=2.0)) for n in range(12)]
    setup = {"policy": "tiresias:thresholds=5", "cluster": "1xV100", "preset": "ideal", "launch_seconds": 2.0}
    long = rota.simulate(Trace.of("jobs", "test", jobs), **setup, min_run_factor=10.0).jobs[0]
    before = rota.simulate(Trace.of("jobs", "test", jobs), **setup).jobs[0]
    assert long["suspensions"] <= 3 < before["suspensions"]


def test_where_starting_costs_nothing_it_changes_nothing() -> None:
    jobs = Trace.of("jobs", "test", [Arrival(float(n), JobSpec(gpus=1 + n % 2, steps=40.0 + 30 * n)) for n in range(8)])
    ends = [
        [job["finished_s"] for job in rota.simulate(jobs, policy="las", cluster="2xV100", preset="ideal", **more).jobs]
        for more in ({}, {"min_run_factor": 10.0})
    ]
    assert ends[0] == ends[1]


def test_a_factor_below_zero_is_refused() -> None:
    with pytest.raises(OptionError, match="min_run_factor"):
        Settings(min_run_factor=-1.0)
    with pytest.raises(OptionError, match="min_run_factor"):
        rota.simulate("synthetic", policy="las", cluster="2xV100", min_run_factor=-1.0)
