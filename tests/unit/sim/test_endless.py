"""Simulations that used to run for ever: each ends, or explains why it cannot."""

import time
from typing import Any

import numpy as np
import pytest

from rota.api import check, simulate
from rota.beliefs.move_costs import MemoryCosts
from rota.beliefs.rates import Rates
from rota.errors import SimulationStalled, TraceError
from rota.model.allocation import Ranking
from rota.model.job import Arrival, JobSpec
from rota.model.view import View
from rota.traces.trace import Trace

ALL = (1, 2, 4)


def trace(*jobs: JobSpec, every_s: float = 0.0) -> Trace:
    return Trace.of("jobs", "test", [Arrival(number * every_s, job) for number, job in enumerate(jobs)])


@pytest.mark.parametrize(
    "policy", ["fifo", "las", "srsf", "fifo:type_aware=false", "max-min-fairness", "max-min-fairness:type_aware=false"]
)
@pytest.mark.parametrize("preset", ["ideal", "measured", "gavel"])
def test_a_job_that_stands_still_is_moved(policy: str, preset: str) -> None:
    look_alikes(policy=policy, preset=preset)


@pytest.mark.parametrize("preset", ["ideal", "measured", "gavel"])
@pytest.mark.parametrize("tactics", ["pack", "grow"])
def test_a_job_that_stands_still_leaves_its_slot(tactics: str, preset: str) -> None:
    look_alikes(policy="gandiva", preset=preset, tactics=tactics)


def look_alikes(**fields: Any) -> None:
    """Only references are known at first; `b` looks like `a`, which runs on K80s, but it does not."""
    table = {(name, card, n): speed * n for name in "acde" for card, speed in (("V100", 2.0), ("K80", 1.0)) for n in ALL}
    table |= {("b", "V100", n): 2.0 * n for n in ALL} | {("b", "K80", n): 0.0 for n in ALL}
    jobs = [JobSpec(steps=4000.0, profile="a"), JobSpec(steps=600.0, profile="b"), JobSpec(steps=300.0, profile="b")]
    rates = Rates(table=table, speeds={})
    for seed in (2, 5):
        found = simulate(trace(*jobs), cluster="1xV100 + 2xK80", known_rates=0.1, rates=rates, seed=seed, **fields)
        assert np.isfinite(found.record.finished_s).all()


def test_what_an_estimate_rules_out_everywhere_is_tried_all_the_same() -> None:
    """All references say that nothing of this sort fits."""
    table = {(name, "V100", n): 1.0 * n for name in "abcd" for n in ALL}
    table |= {(name, "K80", n): 0.0 for name in "abc" for n in ALL} | {("d", "K80", n): 1.0 for n in ALL}
    for seed in range(4):
        jobs = trace(JobSpec(steps=100.0, profile="d", accelerators=("K80",)))
        found = simulate(jobs, cluster="2xV100 + 2xK80", known_rates=0.1, rates=Rates(table=table, speeds={}), seed=seed)
        assert np.isfinite(found.record.finished_s).all()


@pytest.mark.parametrize(
    "options",
    [
        {"node_mtbf_seconds": 500.0, "node_repair_seconds": 4000.0, "checkpoint_every_seconds": 30.0},
        {"decide": "events"},
        {"decide": "both", "round_seconds": 60.0},
        {"launch_seconds": 7.5, "checkpoint_seconds": 3.0},
    ],
)
@pytest.mark.parametrize("policy", ["las", "tiresias:thresholds=50", "max-min-fairness", "fifo"])
def test_gavels_rounds_plan_no_more_often_than_they_must(policy: str, options: dict[str, Any]) -> None:
    """A plan every millisecond while nobody fits, while an answer is over that may not be replaced yet, or while jobs start."""
    jobs = [JobSpec(gpus=2, steps=steps) for steps in (400.0, 1.0, 700.0, 2.0, 0.001)]
    found = simulate(trace(*jobs, every_s=10.0), policy=policy, preset="gavel", cluster="2xV100", **options)
    assert np.isfinite(found.record.finished_s).all()
    assert (found.summary.plans or 0) < 400


@pytest.mark.parametrize("costs", [{"checkpoint_seconds": 3.0}, {"memory": MemoryCosts(save=1.45, load=0.83)}])
@pytest.mark.parametrize("policy", ["max-min-fairness:type_aware=false", "makespan:type_aware=false"])
def test_a_job_that_is_nearly_done_is_not_moved_to_and_fro(policy: str, costs: dict[str, Any]) -> None:
    """Blind to types, each plan may move it; while it is saved for that, rounds were a millisecond long."""
    sizes = ((2, 700.01), (1, 360.001), (2, 0.5), (1, 720.02))
    jobs = [JobSpec(gpus=gpus, steps=steps, gpu_gib=6.0) for gpus, steps in sizes]
    options: dict[str, Any] = {"preset": "gavel", "cluster": "2xV100 + 2xK80", "rates": Rates(speeds={}), **costs}
    for seed in range(3):
        found = simulate(trace(*jobs, every_s=5.0), policy=policy, seed=seed, **options)
        assert np.isfinite(found.record.finished_s).all() and (found.summary.plans or 0) < 200


def test_a_job_that_a_tactic_has_moved_goes_on_between_answers() -> None:
    """The answer holds for ever and names K80s; `migrate` moves the job to the V100 as that is free."""
    table = {("a", "V100", 1): 4.0, ("a", "K80", 1): 1.0}
    jobs = [JobSpec(steps=steps, profile="a") for steps in (400.0, 20_000.0)]
    options: dict[str, Any] = {"preset": "gavel", "decide": "both", "rates": Rates(table=table, speeds={})}
    found = simulate(trace(*jobs), policy="gandiva", cluster="1xV100 + 1xK80", tactics="migrate", **options)
    assert found.record.migrations.tolist() == [0, 1] and found.record.finished_s[1] < 8000.0


class Nobody:
    def allocate(self, view: View) -> Ranking:
        return Ranking(order=np.empty(0, dtype=np.int64), until_s=view.now_s + 5.0)


class AtOnce:
    def allocate(self, view: View) -> Ranking:
        zero = np.zeros(len(view.jobs))
        return Ranking(order=np.arange(len(view.jobs)), run_seconds=zero, wait_seconds=zero)


@pytest.mark.parametrize(
    ("policy", "story"), [(Nobody(), "gave the jobs no progress"), (AtOnce(), "gave the jobs hardly any progress")]
)
@pytest.mark.slow
def test_decisions_that_help_nobody_end_in_an_error(policy: Any, story: str) -> None:
    with pytest.raises(SimulationStalled) as caught:
        simulate(trace(*[JobSpec(steps=1e5)] * 3), policy=policy, cluster="1xV100", preset="ideal")
    said = caught.value.message
    assert type(policy).__name__ in said and story in said and "3 are unfinished" in said and "last plan lets" in said


@pytest.mark.slow
def test_the_check_of_a_policy_has_a_time_limit() -> None:
    class Sleepy:
        def allocate(self, view: View) -> Ranking:
            while len(view.jobs) > 3:
                pass
            return Ranking(order=np.arange(len(view.jobs)))

    began = time.process_time()
    findings = check(Sleepy(), seeds=2, limit_seconds=0.3)
    assert time.process_time() - began < 20
    assert any("took longer than 0.3 s" in finding.story for finding in findings)


def test_endless_jobs_and_no_jobs_say_so() -> None:
    with pytest.raises(TraceError, match=r"1 of 2 jobs have no number of steps and would never end, 'second' first"):
        simulate(trace(JobSpec(steps=5.0), JobSpec(name="second")), cluster="2xV100")
    with pytest.raises(TraceError, match=r"no job is left to simulate: 2 were left out \(2 x requests 9 GPUs"):
        simulate(trace(*[JobSpec(gpus=9, steps=5.0)] * 2), cluster="2xV100", drop_oversized=True)


@pytest.mark.slow
def test_thrashing_is_told() -> None:
    jobs = trace(*[JobSpec(steps=400.0)] * 6)
    thrashing = simulate(jobs, policy="las:quantum_seconds=5", cluster="1xV100", preset="ideal")
    notes = [note for note in thrashing.params["notes"] if note.startswith("thrashing")]
    assert len(notes) == 1 and f"{thrashing.summary.suspensions:,} suspensions of 6 jobs" in notes[0]
    calm = simulate(jobs, policy="las:quantum_seconds=200", cluster="1xV100", preset="ideal")
    assert not [note for note in calm.params["notes"] if note.startswith("thrashing")]
    parked = trace(*[JobSpec(steps=400.0, can_park=True)] * 6)
    assert not simulate(parked, policy="las:quantum_seconds=5", cluster="1xV100", preset="ideal").params["notes"]
