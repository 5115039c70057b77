"""The use of each job's time, and the error of a simulation by cause."""

import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.beliefs.move_costs import MoveCosts
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.live.journal_entries import JournalEntry
from rota.model.cluster import Cluster
from rota.model.commands import JobCommand, Launch, Resume, Suspend, SuspendKind
from rota.model.events import Decided, Exited, External, Outcome, Started, Submitted, Suspended
from rota.model.job import Arrival, JobSpec
from rota.placers.packed import Packed
from rota.policies.las import Las
from rota.report.fidelity_causes import CAUSES, errors_by_cause, pairs_in_other_order
from rota.report.job_time import PARTS, JobTime, job_times
from rota.sim.observed_physics import ObservedEngine, ObservedJob, ObservedPhysics
from rota.sim.recorded_step import Journal

GPU = np.array([0])


def entry(now_s: float, *happened: External | JobCommand) -> JournalEntry:
    """What was learned then, and what was decided."""
    commands = tuple(each for each in happened if isinstance(each, JobCommand))
    events = [each for each in happened if not isinstance(each, JobCommand)]
    return JournalEntry(0, now_s, events, Decided(now_s, None, commands) if commands else None)


def launch(attempt: int = 1, sequence: int = 1) -> Launch:
    return Launch(1, attempt, sequence, 0, GPU, (0,), (0,), 0.0)


def suspend(attempt: int, sequence: int, kind: SuspendKind = SuspendKind.CHECKPOINT) -> Suspend:
    return Suspend(1, attempt, sequence, (0,), kind)


def suspended(attempt: int, sequence: int, at_s: float, kind: SuspendKind = SuspendKind.CHECKPOINT) -> Suspended:
    return Suspended(1, attempt, sequence, at_s, kind, 50.0)


def finished(attempt: int, at_s: float, stepped_s: float | None) -> Exited:
    return Exited(1, attempt, at_s, Outcome.FINISHED, 100.0, steps_done=100.0, stepped_s=stepped_s)


SUBMITTED = Submitted(1, JobSpec(steps=100.0), 0.0)


def time_of(*entries: JournalEntry) -> JobTime:
    (found,) = job_times(entries).values()
    return found


def test_every_second_of_a_job_is_of_one_part() -> None:
    found = time_of(
        entry(0.0, SUBMITTED),
        entry(2.0, launch()),
        entry(4.5, launch()),  # sent again
        entry(5.25, Started(1, 1, 1, 5.0)),  # the scheduler learns it later
        entry(15.0, suspend(1, 2)),
        entry(16.5, suspended(1, 2, 16.0)),
        entry(20.0, launch(2, 3)),
        entry(24.0, Started(1, 2, 3, 24.0)),
        entry(25.0, Started(1, 2, 3, 24.0)),  # reported again
        entry(35.5, finished(2, 35.0, 34.0)),
    )
    assert found == JobTime(waiting=2.0 + 4.0, starting=3.0, switching=1.0 + 4.0, training=10.0 + 10.0, leaving=1.0)
    assert found.jct_seconds == 35.0


def test_a_job_that_finishes_though_it_was_asked_to_stop_has_trained_to_its_last_step() -> None:
    found = time_of(
        entry(0.0, SUBMITTED, launch()),
        entry(1.0, Started(1, 1, 1, 1.0)),
        entry(5.5, suspend(1, 2)),
        entry(6.5, finished(1, 6.25, 6.0)),
    )
    assert found == JobTime(starting=1.0, training=5.0, leaving=0.25)


def test_a_job_that_had_ended_before_it_was_asked_to_stop_has_no_switch() -> None:
    """The order left before the scheduler knew of the end."""
    found = time_of(
        entry(0.0, SUBMITTED, launch()),
        entry(1.0, Started(1, 1, 1, 1.0)),
        entry(6.5, suspend(1, 2)),
        entry(6.75, finished(1, 6.25, 6.0)),
    )
    assert found == JobTime(starting=1.0, training=5.0, leaving=0.25)


def test_a_job_that_had_left_by_itself_before_it_was_asked_to_stop_waits_since() -> None:
    found = time_of(
        entry(0.0, SUBMITTED, launch()),
        entry(1.0, Started(1, 1, 1, 1.0)),
        entry(6.5, suspend(1, 2)),
        entry(6.75, Exited(1, 1, 6.25, Outcome.YIELDED, 50.0), launch(2, 3)),
        entry(7.75, Started(1, 2, 3, 7.75)),
        entry(13.0, finished(2, 13.0, 13.0)),
    )
    assert found == JobTime(waiting=0.5, starting=1.0, switching=1.0, training=5.25 + 5.25)


def test_a_parked_job_waits() -> None:
    park = SuspendKind.PARK
    found = time_of(
        entry(0.0, SUBMITTED, launch()),
        entry(1.0, Started(1, 1, 1, 1.0)),
        entry(6.0, suspend(1, 2, park)),
        entry(6.5, suspended(1, 2, 6.5, park)),
        entry(10.0, Resume(1, 1, 3, (0,))),
        entry(10.25, Started(1, 1, 3, 10.25)),
        entry(15.25, finished(1, 15.25, None)),
    )
    assert found == JobTime(waiting=3.5, starting=1.0, switching=0.5 + 0.25, training=5.0 + 5.0)


def test_training_that_was_not_saved_is_lost() -> None:
    lost = Exited(1, 1, 11.0, Outcome.LOST, 30.0, steps_done=40.0, stepped_s=11.0)
    found = time_of(
        entry(0.0, SUBMITTED, launch()),
        entry(1.0, Started(1, 1, 1, 1.0)),
        entry(11.0, lost, launch(2, 2)),
        entry(13.0, Started(1, 2, 2, 13.0)),
        entry(33.0, finished(2, 33.0, 33.0)),
    )
    assert found == JobTime(starting=1.0, switching=2.0, training=7.5 + 20.0, lost=2.5), "30 of 40 steps were saved"


def test_the_last_node_of_a_gang_decides() -> None:
    found = time_of(
        entry(0.0, SUBMITTED, launch()),
        entry(1.0, Started(1, 1, 1, 1.0, 0), Started(1, 1, 1, 1.0, 1)),
        entry(6.0, suspend(1, 2)),
        entry(6.5, Suspended(1, 1, 2, 6.5, SuspendKind.CHECKPOINT, 50.0, 0)),
        entry(7.0, Suspended(1, 1, 2, 7.0, SuspendKind.CHECKPOINT, 50.0, 1)),
        entry(8.0, launch(2, 3)),
        entry(9.0, Started(1, 2, 3, 9.0, 0)),
        entry(14.0, Exited(1, 2, 14.0, Outcome.FINISHED, 100.0, 0, steps_done=100.0, stepped_s=14.0)),
        entry(14.5, Exited(1, 2, 14.5, Outcome.FINISHED, 100.0, 1)),
    )
    assert found == JobTime(waiting=1.0, starting=1.0, switching=1.0 + 1.0, training=5.0 + 5.0, leaving=0.5)


def test_jobs_that_did_not_finish_have_no_time() -> None:
    assert job_times([entry(0.0, SUBMITTED, launch()), entry(1.0, Started(1, 1, 1, 1.0))]) == {}


seconds = st.floats(0.0, 4.0)
seen_jobs = st.builds(
    ObservedJob,
    work_seconds=st.floats(0.5, 20.0),
    launch_seconds=seconds,
    relaunch_seconds=seconds,
    suspend_seconds=seconds,
    park_seconds=st.just(0.0),
    resume_seconds=st.just(0.0),
    leave_seconds=seconds,
    notice_seconds=st.floats(0.0, 0.5),
    first_steps=st.sampled_from([0.0, 1.0]),
    reports_steps=st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 10.0), st.sampled_from([1, 1, 2]), seen_jobs), min_size=1, max_size=6),
    st.floats(0.0, 0.5),
    st.sampled_from([0.0, 1.0, 10.0]),
)
def test_the_parts_of_any_simulated_job_add_up_to_its_jct(
    drawn: list[tuple[float, int, ObservedJob]], answer_seconds: float, min_run_factor: float
) -> None:
    drawn = sorted(drawn, key=lambda each: each[0])
    arrivals = [Arrival(at_s, JobSpec(name=f"{i}", steps=40.0, gpus=gpus)) for i, (at_s, gpus, _) in enumerate(drawn)]
    scheduler = Scheduler(
        Cluster.parse("2xV100"), Packed(), Settings(min_run_factor=min_run_factor), costs=MoveCosts(launch_seconds=0.5)
    )
    physics = ObservedPhysics(jobs={f"{i}": job for i, (_, _, job) in enumerate(drawn)}, answer_seconds=answer_seconds)
    journal: Journal = []
    record = ObservedEngine(scheduler, Las(quantum_seconds=2.0), physics, arrivals, journal=journal).run()
    found = job_times(JournalEntry(0, now_s, events, decided) for now_s, events, decided in journal)
    assert sorted(found) == list(range(len(drawn)))
    for number, (_, _, job) in enumerate(drawn):
        time, launches = found[number], record.launches.item(number)
        assert time.jct_seconds == pytest.approx(record.finished_s.item(number) - record.submitted_s.item(number), abs=1e-6)
        assert min(getattr(time, part) for part in PARTS) >= -1e-9
        assert time.starting == pytest.approx(job.launch_seconds, abs=1e-6)
        assert time.leaving == pytest.approx(job.leave_seconds, abs=1e-6) and time.lost == 0
        switches = (launches - 1) * (job.relaunch_seconds + job.suspend_seconds)
        assert time.switching == pytest.approx(switches, abs=1e-6)


job_time = st.builds(JobTime, **{part: st.floats(0.0, 1e5) for part in PARTS})


@pytest.mark.slow
@given(st.lists(st.lists(job_time, min_size=4, max_size=4), min_size=1, max_size=20))
def test_the_errors_of_the_causes_add_up_to_the_error_of_the_mean(drawn: list[list[JobTime]]) -> None:
    real, simulated, usual, alone = ([each[i] for each in drawn] for i in range(4))
    real[0] = replace(real[0], waiting=real[0].waiting + 1.0)
    found = errors_by_cause(real, simulated, usual, alone)
    mean = statistics.mean(job.jct_seconds for job in real)
    for jobs, error in ((simulated, "error"), (usual, "usual_error"), (alone, "alone_error")):
        whole = statistics.mean(job.jct_seconds for job in jobs) / mean - 1
        assert sum(getattr(each, error) for each in found) == pytest.approx(whole, rel=1e-6, abs=1e-6)
    assert all(each.per_job_error >= abs(each.error) - 1e-6 for each in found)


def test_each_part_has_one_cause() -> None:
    assert sorted(part for parts in CAUSES.values() for part in parts) == sorted(PARTS)
    real = [JobTime(waiting=4.0, starting=1.0, training=5.0), JobTime(starting=2.0, switching=1.0, training=7.0)]
    ours = [JobTime(waiting=6.0, starting=1.0, training=5.0), JobTime(starting=1.0, switching=1.0, training=7.0)]
    found = {each.cause: (each.error, each.per_job_error) for each in errors_by_cause(real, ours, real, real)}
    nothing = (0.0, 0.0)
    assert found == {
        "starting": (-0.05, 0.05),
        "switching": nothing,
        "interference": nothing,
        "order": (0.1, 0.1),
        "other": nothing,
    }


def test_pairs_that_end_in_another_order_are_counted() -> None:
    assert pairs_in_other_order([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 0.0
    assert pairs_in_other_order([1.0, 2.0, 3.0], [5.0, 4.0, 6.0]) == pytest.approx(1 / 3)
    assert pairs_in_other_order([3.0, 2.0, 1.0], [1.0, 2.0, 3.0]) == 1.0
    assert pairs_in_other_order([1.0, 2.0], [4.0, 4.0]) == pairs_in_other_order([1.0], [1.0]) == 0.0
