"""Simulations with what was seen of jobs that really ran."""

from dataclasses import fields

import pytest

from rota.beliefs.move_costs import MoveCosts
from rota.core.scheduler import Scheduler
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.model.policy import Policy
from rota.placers.packed import Packed
from rota.policies.fifo import Fifo
from rota.policies.tiresias import Tiresias
from rota.sim.observed_physics import ObservedEngine, ObservedJob, ObservedPhysics
from rota.sim.record import Record


def run(policy: Policy, jobs: dict[str, ObservedJob], *, answer_seconds: float = 0.0, **spec: bool) -> Record:
    """On one GPU, all submitted at once."""
    cluster = Cluster.parse("1xV100")
    arrivals = [Arrival(0.0, JobSpec(name=name, steps=100.0, **spec)) for name in jobs]
    # It believes that moving costs something, so that a job which has just started may make a step first.
    scheduler = Scheduler(cluster, Packed(), costs=MoveCosts(launch_seconds=1.0))
    return ObservedEngine(scheduler, policy, ObservedPhysics(jobs=jobs, answer_seconds=answer_seconds), arrivals).run()


def seen(work_seconds: float, **costs: float) -> ObservedJob:
    """One that costs nothing else but this."""
    return ObservedJob(work_seconds=work_seconds, **{each.name: costs.get(each.name, 0.0) for each in fields(ObservedJob)[1:]})


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
