"""Simulations with observations of jobs that really ran."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest

from rota.beliefs.move_costs import MoveCosts
from rota.core.scheduler import Scheduler
from rota.model.cluster import Cluster
from rota.model.events import Exited
from rota.model.job import Arrival, JobSpec
from rota.model.policy import Policy
from rota.placers.packed import Packed
from rota.policies.fifo import Fifo
from rota.policies.tiresias import Tiresias
from rota.sim.observed_physics import ObservedEngine, ObservedJob, ObservedPhysics, SeenAnswer, SeenAttempt
from rota.sim.record import Record
from rota.sim.recorded_step import Journal


def run(
    policy: Policy,
    jobs: dict[str, ObservedJob],
    *,
    answer_seconds: float = 0.0,
    answers: Sequence[SeenAnswer] = (),
    journal: Journal | None = None,
    **spec: bool,
) -> Record:
    """On one GPU, all submitted at once."""
    cluster = Cluster.parse("1xV100")
    arrivals = [Arrival(0.0, JobSpec(name=name, steps=100.0, **spec)) for name in jobs]
    # It believes that moving costs something, so that a job which has just started may make a step first.
    scheduler = Scheduler(cluster, Packed(), costs=MoveCosts(launch_seconds=1.0))
    physics = ObservedPhysics(jobs=jobs, answer_seconds=answer_seconds, answers=answers)
    return ObservedEngine(scheduler, policy, physics, arrivals, journal=journal).run()


def seen(work_seconds: float, **costs: Any) -> ObservedJob:
    """One that costs nothing else but this."""
    nothing = {each.name: 0.0 for each in fields(ObservedJob) if each.name.endswith("_seconds")}
    return ObservedJob(**{**nothing, "work_seconds": work_seconds, **costs})


def test_each_job_is_as_fast_as_it_was_and_starts_and_leaves_as_it_did() -> None:
    jobs = {"a": seen(10.0, launch_seconds=3.0, leave_seconds=1.0), "b": seen(4.0, launch_seconds=2.0)}
    assert run(Fifo(), jobs).finished_s.tolist() == pytest.approx([14.0, 20.0])


def test_a_job_that_has_made_its_last_step_is_not_suspended_any_more() -> None:
    """Its queue ends while it leaves. It finishes, as it really does, and is not started once more for what is left."""
    jobs = {"a": seen(3.0, leave_seconds=1.0, suspend_seconds=0.5, relaunch_seconds=5.0), "b": seen(1.0)}
    record = run(Tiresias(thresholds=(3.5,)), jobs)
    assert record.suspensions.tolist() == [0, 0]
    assert record.finished_s.tolist() == pytest.approx([4.0, 5.0])


def test_one_that_has_not_is() -> None:
    jobs = {"a": seen(3.75, leave_seconds=1.0, suspend_seconds=0.5, relaunch_seconds=5.0), "b": seen(1.0)}
    record = run(Tiresias(thresholds=(3.5,)), jobs)
    assert record.suspensions.tolist() == [1, 0]
    assert record.finished_s.tolist() == pytest.approx([3.5 + 0.5 + 1.0 + 5.0 + 0.25 + 1.0, 5.0])


def test_sleeping_and_waking_take_what_they_took() -> None:
    jobs = {"a": seen(6.0, park_seconds=0.25, resume_seconds=0.5), "b": seen(1.0)}
    record = run(Tiresias(thresholds=(3.5,)), jobs, can_park=True)
    assert record.finished_s.tolist() == pytest.approx([3.5 + 0.25 + 1.0 + 0.5 + 2.5, 4.75])


def test_a_job_that_tells_its_steps_has_made_one_when_it_counts_as_started() -> None:
    """So it may be suspended at once; one of which no step is known keeps its GPUs until one is believed to be made."""
    told = {"a": seen(3.0, launch_seconds=1.0, first_steps=1.0), "b": seen(1.0, first_steps=1.0)}
    record = run(Tiresias(thresholds=(0.5,)), told)
    assert record.suspensions.tolist() == [1, 1]
    step = 1 / 99  # of the work: whenever it is started, a job has made one
    assert record.finished_s.tolist() == pytest.approx([4.5 - 3 * step, 5.0 - 4 * step])
    silent = {"a": seen(3.0, launch_seconds=1.0), "b": seen(1.0)}
    assert run(Tiresias(thresholds=(0.5,)), silent).suspensions.tolist() == [1, 0]


def test_a_policy_takes_its_time() -> None:
    jobs = {"a": seen(3.0), "b": seen(1.0)}
    assert run(Fifo(), jobs, answer_seconds=0.25).finished_s.tolist() == pytest.approx([3.25, 4.5])


def test_a_job_ends_the_step_that_it_is_in_before_it_stops() -> None:
    """It makes a step in 0.04 s. Asked to stop after 3.5 s, in its 88th step, it saves 88 and has 12 left."""
    jobs = {"a": seen(4.0, reports_steps=True), "b": seen(1.0, reports_steps=True)}
    record = run(Tiresias(thresholds=(3.5,)), jobs)
    assert record.suspensions.tolist() == [1, 0]
    assert record.finished_s.tolist() == pytest.approx([3.5 + 1.0 + 12 * 0.04, 4.5])


def test_a_job_that_is_asked_to_stop_in_its_last_step_finishes() -> None:
    """So does a real one. It does not wait for its turn to make one step."""
    jobs = {"a": seen(3.52, reports_steps=True, relaunch_seconds=5.0), "b": seen(1.0, reports_steps=True)}
    record = run(Tiresias(thresholds=(3.5,)), jobs)
    assert record.suspensions.tolist() == [0, 0]
    assert record.finished_s.tolist() == pytest.approx([3.52, 4.52])


def test_each_attempt_starts_trains_and_stops_as_it_did() -> None:
    """One that was not seen is as usual for the job."""
    usual = {"launch_seconds": 9.0, "relaunch_seconds": 5.0, "suspend_seconds": 9.0}
    first = SeenAttempt(start_seconds=1.0, relative_rate=0.5, suspend_seconds=0.25)
    again = {"a": seen(6.0, attempts=(first,), **usual), "b": seen(1.0)}
    record = run(Tiresias(thresholds=(3.5,)), again)
    # In 3.5 s it does what takes 1.75 s at its usual rate.
    assert record.finished_s.tolist() == pytest.approx([1.0 + 3.5 + 0.25 + 1.0 + 5.0 + 4.25, 5.75])
    second = SeenAttempt(start_seconds=0.5, relative_rate=2.0)
    record = run(Tiresias(thresholds=(3.5,)), {**again, "a": seen(6.0, attempts=(first, second), **usual)})
    assert record.finished_s.tolist() == pytest.approx([1.0 + 3.5 + 0.25 + 1.0 + 0.5 + 4.25 / 2, 5.75])


def test_the_scheduler_learns_of_starts_and_ends_a_moment_later() -> None:
    journal: Journal = []
    jobs = {"a": seen(3.0, leave_seconds=0.5, notice_seconds=0.25), "b": seen(1.0, notice_seconds=0.25)}
    record = run(Fifo(), jobs, journal=journal)
    assert record.finished_s.tolist() == pytest.approx([3.5, 3.75 + 1.0]), "a job ends when it does"
    ends = [(now_s, event) for now_s, events, _ in journal for event in events if isinstance(event, Exited)]
    assert [(now_s, end.at_s, end.stepped_s) for now_s, end in ends] == [(3.75, 3.5, 3.0), (5.0, 4.75, 4.75)]


def test_a_job_that_has_ended_unnoticed_is_not_stopped() -> None:
    """It is asked to after 3.5 s, when its end is on the way to the scheduler."""
    jobs = {"a": seen(3.25, notice_seconds=1.0), "b": seen(1.0)}
    record = run(Tiresias(thresholds=(3.5,)), jobs)
    assert record.suspensions.tolist() == [0, 0]
    assert record.finished_s.tolist() == pytest.approx([3.25, 5.25])


def test_a_policy_takes_as_long_as_it_took_at_that_time() -> None:
    jobs = {"a": seen(3.0), "b": seen(1.0)}
    answers = [SeenAnswer(0.0, 0.5), SeenAnswer(3.0, 0.25), SeenAnswer(9.0, 4.0)]
    assert run(Fifo(), jobs, answers=answers, answer_seconds=7.0).finished_s.tolist() == pytest.approx([3.5, 4.75])
