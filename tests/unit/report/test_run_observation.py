"""What a journal shows about the conditions in which its jobs ran."""

import numpy as np
import pytest

from rota.core.decision_timing import AtRounds
from rota.live.journal_entries import JournalEntry
from rota.model.allocation import Ranking
from rota.model.commands import JobCommand, Launch, Resume, Suspend, SuspendKind
from rota.model.events import Allocated, Decided, Exited, External, Measured, Outcome, Progressed, Started, Submitted, Suspended
from rota.model.job import JobSpec
from rota.model.plan import Plan
from rota.report.run_observation import observe
from rota.sim.observed_physics import SeenAnswer, SeenAttempt

GPU = np.array([0])


def entry(now_s: float, *happened: External | JobCommand) -> JournalEntry:
    """What was learned then, and what was decided."""
    commands = tuple(each for each in happened if isinstance(each, JobCommand))
    events = [each for each in happened if not isinstance(each, JobCommand)]
    return JournalEntry(0, now_s, events, Decided(now_s, None, commands) if commands else None)


def launch(job: int, attempt: int = 1, sequence: int = 1) -> Launch:
    return Launch(job, attempt, sequence, 0, GPU, (0,), (0,), 0.0)


def progressed(job: int, attempt: int, steps: float, at_s: float) -> Progressed:
    return Progressed(np.array([job]), np.array([attempt]), np.array([steps]), np.array([0.0]), at_s)


def finished(job: int, attempt: int, at_s: float, steps: float, stepped_s: float) -> Exited:
    return Exited(job, attempt, at_s, Outcome.FINISHED, steps, steps_done=steps, stepped_s=stepped_s)


def test_neither_starting_nor_stopping_nor_leaving_is_training() -> None:
    """It is launched, makes a step a tenth of a second, is suspended, launched again, makes its last step, and leaves."""
    observed = observe(
        [
            entry(0.0, Submitted(1, JobSpec(steps=201.0), 0.0), launch(1)),
            entry(5.0, launch(1)),  # sent again, as no answer has come
            entry(8.0, Started(1, 1, 1, 8.0), progressed(1, 1, 1.0, 8.0)),
            entry(18.0, Suspend(1, 1, 2, (0,), SuspendKind.CHECKPOINT)),
            entry(20.0, Suspended(1, 1, 2, 20.0, SuspendKind.CHECKPOINT, 101.0)),
            entry(30.0, launch(1, 2, 3)),
            entry(36.0, Started(1, 2, 3, 36.0)),
            entry(47.0, finished(1, 2, 47.0, 201.0, 46.0)),
        ]
    )
    (job,) = observed.jobs.values()
    assert job.first_steps == 1.0, "the first step is part of its start"
    assert job.work_seconds == pytest.approx(200 / (199.5 / 20)), "half a step was made after the order to stop"
    assert (job.launch_seconds, job.relaunch_seconds, job.suspend_seconds, job.leave_seconds) == (8.0, 6.0, 2.0, 1.0)
    assert observed.launch_seconds == 7.0 and observed.jct_seconds == [47.0]


def test_sleeping_is_no_training_and_costs_what_it_took() -> None:
    observed = observe(
        [
            entry(0.0, Submitted(1, JobSpec(steps=100.0), 0.0), launch(1)),
            entry(1.0, Started(1, 1, 1, 1.0)),
            entry(6.0, Suspend(1, 1, 2, (0,), SuspendKind.PARK)),
            entry(6.5, Suspended(1, 1, 2, 6.5, SuspendKind.PARK, 50.0)),
            entry(10.0, Resume(1, 1, 3, (0,))),
            entry(10.25, Started(1, 1, 3, 10.25)),
            entry(15.25, finished(1, 1, 15.25, 100.0, 15.25)),
        ]
    )
    (job,) = observed.jobs.values()
    assert (job.work_seconds, job.park_seconds, job.resume_seconds) == (10.0, 0.5, 0.25)
    assert job.relaunch_seconds == job.launch_seconds == 1.0, "no job was launched again: it would take as long"


def test_a_job_that_is_told_to_stop_while_it_leaves_has_trained_to_its_last_step() -> None:
    observed = observe(
        [
            entry(0.0, Submitted(1, JobSpec(steps=40.0), 0.0), launch(1)),
            entry(1.0, Started(1, 1, 1, 1.0)),
            entry(5.5, Suspend(1, 1, 2, (0,), SuspendKind.CHECKPOINT)),
            entry(6.0, finished(1, 1, 6.0, 40.0, 5.0)),
        ]
    )
    (job,) = observed.jobs.values()
    assert (job.work_seconds, job.leave_seconds, job.suspend_seconds) == (4.0, 1.0, 0.0)


def test_what_a_job_never_did_takes_it_as_long_as_the_others() -> None:
    observed = observe(
        [
            entry(0.0, Submitted(1, JobSpec(steps=40.0), 0.0), Submitted(2, JobSpec(steps=40.0), 0.0), launch(1)),
            entry(1.0, Started(1, 1, 1, 1.0)),
            entry(3.0, Suspend(1, 1, 2, (0,), SuspendKind.CHECKPOINT)),
            entry(3.5, Suspended(1, 1, 2, 3.5, SuspendKind.CHECKPOINT, 20.0), launch(2)),
            entry(7.5, Started(2, 1, 1, 7.5)),
            entry(9.5, finished(2, 1, 9.5, 40.0, 9.25), launch(1, 2, 3)),
            entry(12.5, Started(1, 2, 3, 12.5)),
            entry(14.5, finished(1, 2, 14.5, 40.0, 14.5)),
        ]
    )
    one, two = observed.jobs.values()
    assert (one.launch_seconds, two.launch_seconds) == (1.0, 4.0)
    assert (one.leave_seconds, two.leave_seconds) == (0.0, 0.25)
    assert [(job.launch_seconds, job.leave_seconds) for job in observed.usual.values()] == [(2.5, 0.125)] * 2
    assert (one.suspend_seconds, one.relaunch_seconds) == (two.suspend_seconds, two.relaunch_seconds) == (0.5, 3.0)


def test_jobs_that_tell_no_steps_have_trained_while_they_ran() -> None:
    observed = observe(
        [
            entry(100.0, Submitted(1, JobSpec(), 100.0), Submitted(2, JobSpec(), 100.0), launch(1)),
            entry(101.0, Started(1, 1, 1, 101.0), launch(2)),
            entry(102.0, Started(2, 1, 1, 102.0)),
            entry(108.0, Exited(1, 1, 108.0, Outcome.FINISHED, 7.0)),
            entry(109.0, Exited(2, 1, 109.0, Outcome.FAILED, 0.0)),
        ]
    )
    assert [job.work_seconds for job in observed.jobs.values()] == [7.0] and observed.left_out == 1
    (arrival,) = observed.trace.arrivals
    assert arrival.submitted_s == 0.0 and arrival.spec.steps == 7.0, "one a second, as a scheduler counts them"


def test_a_daemon_that_is_started_again_tells_of_starts_once_more() -> None:
    observed = observe(
        [
            entry(0.0, Submitted(1, JobSpec(steps=100.0), 0.0), launch(1)),
            entry(2.0, Started(1, 1, 1, 2.0)),
            entry(7.0, progressed(1, 1, 50.0, 7.0)),
            entry(8.0, Started(1, 1, 1, 2.0)),
            entry(12.0, finished(1, 1, 12.0, 100.0, 12.0)),
            entry(12.5, finished(1, 1, 12.0, 100.0, 12.0)),
        ]
    )
    (job,) = observed.jobs.values()
    assert (job.launch_seconds, job.work_seconds, job.leave_seconds) == (2.0, 10.0, 0.0)


def test_a_policy_takes_its_time() -> None:
    order = Ranking.permutation(np.array([0]), key="arrival")
    entries = [
        JournalEntry(1, 10.0, [Submitted(1, JobSpec(), 10.0)], Decided(10.0, None, (), ticket=1)),
        entry(10.5, Allocated(1, order, 10.5), launch(1)),
        JournalEntry(3, 12.0, [Started(1, 1, 1, 12.0)], Decided(12.0, None, (), ticket=2)),
        entry(12.25, Allocated(2, order, 12.25)),
        entry(19.0, Exited(1, 1, 19.0, Outcome.FINISHED, 7.0)),
    ]
    assert observe(entries).answer_seconds == 0.375


def test_rounds_begin_in_the_trace_when_they_really_did() -> None:
    entries = [
        entry(1007.0, Submitted(1, JobSpec(), 1007.0), launch(1)),
        entry(1008.0, Started(1, 1, 1, 1008.0)),
        entry(1009.0, Exited(1, 1, 1009.0, Outcome.FINISHED, 1.0)),
    ]
    rounds = AtRounds(round_seconds=15.0)
    (arrival,) = observe(entries, rounds.round_seconds).trace.arrivals
    left = rounds.first_round_s(arrival.submitted_s) - arrival.submitted_s
    assert left == pytest.approx(rounds.first_round_s(1007.0) - 1007.0) == pytest.approx(13.0)


def test_what_jobs_do_to_each_other_is_told_apart() -> None:
    """Two that start at the same time take longer than one that starts alone; one of them ran faster for a while."""
    unknown = np.array([np.nan])
    fast = Measured(np.array([1]), np.array([1]), np.array([20.0]), np.array([20.0]), unknown, unknown, unknown, 24.0)
    observed = observe(
        [
            entry(0.0, Submitted(1, JobSpec(steps=200.0), 0.0), Submitted(2, JobSpec(steps=100.0), 0.0), launch(1), launch(2)),
            entry(6.0, Started(1, 1, 1, 6.0), Started(2, 1, 1, 6.0), Submitted(3, JobSpec(steps=10.0), 6.0), launch(3)),
            entry(9.0, Started(3, 1, 1, 9.0)),
            entry(10.0, finished(3, 1, 10.0, 10.0, 10.0)),
            entry(16.0, finished(2, 1, 16.0, 100.0, 16.0)),
            entry(24.0, fast),
            entry(26.0, finished(1, 1, 26.0, 200.0, 26.0)),
        ]
    )
    assert {name: job.work_seconds for name, job in observed.jobs.items()} == {"job-1": 20.0, "job-2": 10.0, "job-3": 1.0}
    best = observed.undisturbed
    assert {name: job.work_seconds for name, job in best.items()} == {"job-1": 10.0, "job-2": 10.0, "job-3": 1.0}
    assert [job.launch_seconds for job in observed.jobs.values()] == [6.0, 6.0, 3.0]
    assert [job.launch_seconds for job in best.values()] == [3.0, 3.0, 3.0]


def test_the_pace_of_a_job_is_compared_from_life_to_life() -> None:
    entries = [
        entry(0.0, Submitted(1, JobSpec(steps=300.0), 0.0)),
        entry(1.0, Started(1, 1, 1, 1.0)),
        entry(11.0, Suspended(1, 1, 2, 11.0, SuspendKind.CHECKPOINT, 100.0)),
        entry(20.0, Started(1, 2, 3, 20.0, from_step=100.0)),
        entry(30.0, finished(1, 2, 30.0, 300.0, 30.0)),
    ]
    assert observe(entries).rate_spread == pytest.approx(5.0 / 15.0), "10 and 20 steps a second"


def test_each_attempt_is_seen_as_it_was() -> None:
    """It makes 10 steps a second and then 20. Asked to stop at 18 s, it is in its 101st step and ends that."""
    observed = observe(
        [
            entry(0.0, Submitted(1, JobSpec(steps=201.0), 0.0), launch(1)),
            entry(8.5, Started(1, 1, 1, 8.0), progressed(1, 1, 1.0, 8.0)),
            entry(18.0, Suspend(1, 1, 2, (0,), SuspendKind.CHECKPOINT)),
            entry(20.25, Suspended(1, 1, 2, 20.0, SuspendKind.CHECKPOINT, 101.5)),
            entry(30.0, launch(1, 2, 3)),
            entry(36.0, Started(1, 2, 3, 36.0, from_step=101.5)),
            entry(41.75, finished(1, 2, 41.0, 201.5, 41.0)),
        ]
    )
    (job,) = observed.jobs.values()
    rate = (100.0 + 100.0) / 15.0
    assert job.attempts == (
        SeenAttempt(
            start_seconds=8.0,
            start_notice_seconds=0.5,
            relative_rate=pytest.approx(10.0 / rate),
            suspend_seconds=2.0,
            end_notice_seconds=0.25,
        ),
        SeenAttempt(
            start_seconds=6.0,
            start_notice_seconds=0.0,
            relative_rate=pytest.approx(20.0 / rate),
            suspend_seconds=None,
            end_notice_seconds=0.75,
        ),
    )
    assert job.reports_steps and job.notice_seconds == pytest.approx((0.25 + 0.5) / 2), "the median"
    assert all(not each.attempts for each in (*observed.usual.values(), *observed.undisturbed.values()))
    (time,) = observed.times
    assert time.jct_seconds == observed.jct_seconds[0] == 41.0 and time.training == 15.0


def test_an_attempt_of_few_steps_has_the_rate_of_its_job() -> None:
    observed = observe(
        [
            entry(0.0, Submitted(1, JobSpec(steps=50.0), 0.0), launch(1)),
            entry(1.0, Started(1, 1, 1, 1.0)),
            entry(2.0, Suspend(1, 1, 2, (0,), SuspendKind.CHECKPOINT)),
            entry(2.5, Suspended(1, 1, 2, 2.5, SuspendKind.CHECKPOINT, 9.0), launch(1, 2, 3)),
            entry(3.0, Started(1, 2, 3, 3.0, from_step=9.0)),
            entry(7.0, finished(1, 2, 7.0, 50.0, 7.0)),
        ]
    )
    (job,) = observed.jobs.values()
    assert [each.relative_rate is None for each in job.attempts] == [True, False]


def test_a_timer_that_is_late_is_part_of_the_answer() -> None:
    """If the scheduler asked because its plan was over; after an event it asks at once."""
    order = Ranking.permutation(np.array([0]), key="arrival")
    entries = [
        JournalEntry(1, 10.0, [Submitted(1, JobSpec(), 10.0)], Decided(10.0, None, (), ticket=1)),
        JournalEntry(2, 10.5, [Allocated(1, order, 10.25)], Decided(10.5, Plan((), 15.0, True), (launch(1),))),
        entry(11.0, Started(1, 1, 1, 11.0)),
        JournalEntry(4, 15.125, [], Decided(15.125, None, (), ticket=2)),
        JournalEntry(5, 15.25, [Allocated(2, order, 15.25)], Decided(15.25, Plan((), 17.0, True), ())),
        JournalEntry(6, 17.5, [Submitted(2, JobSpec(), 17.5)], Decided(17.5, None, (), ticket=3)),
        entry(17.75, Allocated(3, order, 17.75)),
        entry(19.0, Exited(1, 1, 19.0, Outcome.FINISHED, 7.0)),
    ]
    observed = observe(entries)
    assert observed.answers == (SeenAnswer(0.0, 0.5), SeenAnswer(5.0, 0.25), SeenAnswer(7.5, 0.25))
    assert observed.answer_seconds == pytest.approx(1 / 3)


def test_a_scheduler_that_was_down_does_not_usually_learn_so_late() -> None:
    """The second job ended while it was down."""
    observed = observe(
        [
            entry(0.0, Submitted(1, JobSpec(), 0.0), Submitted(2, JobSpec(), 0.0), launch(1), launch(2)),
            entry(1.25, Started(1, 1, 1, 1.0), Started(2, 1, 1, 1.0)),
            entry(3.25, Exited(1, 1, 3.0, Outcome.FINISHED, 2.0)),
            entry(900.0, Exited(2, 1, 4.0, Outcome.FINISHED, 3.0)),
        ]
    )
    assert [job.notice_seconds for job in observed.usual.values()] == [0.25, 0.25]
    assert [job.attempts[0].end_notice_seconds for job in observed.jobs.values()] == [0.25, 896.0]
