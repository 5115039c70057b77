"""ONES: limits that double and halve, what is deployed when, memory, and the oracles of its specification."""

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import simulate
from rota.beliefs.rates import Rates
from rota.compose.prepare import prepare_study
from rota.compose.study import make_study
from rota.live.views import decode_view, encode_answer, encode_view, memory_codec
from rota.model.job import Arrival, JobSpec
from rota.model.view import View
from rota.policies.ones import Ones, OnesMemory
from rota.sim.engine import Engine
from rota.traces.trace import Trace
from tests.examples import examples

PUBLISHED = "ones:score=gpu-seconds,batch=largest,epochs_before=2,first_gpus=1,draws=true,interval_seconds=10"
LINEAR = Rates(table={("linear", "V100", gpus): float(gpus) for gpus in (1, 2, 4, 8, 16)})


def elastic(steps: float, at_s: float = 0.0, *, gpus: int = 1, **fields: Any) -> Arrival:
    counts = tuple(count for count in (1, 2, 4, 8, 16) if count <= 4 * gpus)
    spec = {"gpus": gpus, "gpu_counts": counts, "can_resize": True, "profile": "linear", "epoch_steps": 50.0, **fields}
    return Arrival(at_s, JobSpec(steps=steps, **spec))


def engine(jobs: list[Arrival], policy: str = "ones", cluster: str = "1x(16xV100)", **fields: Any) -> Engine:
    given = {"policy": policy, "preset": "ideal", "cluster": cluster, "rates": LINEAR, **fields}
    return prepare_study(make_study({"trace": Trace("made up", "", tuple(jobs)), **given})).engine(None)


def sizes(run: Engine, job: int) -> list[int]:
    """GPUs that a job had, one after the other."""
    holds = run.run().gpu_intervals
    return [int(holds.first[at + 1] - holds.first[at]) for at in np.flatnonzero(holds.job == job).tolist()]


@pytest.mark.parametrize("policy", [PUBLISHED, "ones:first_gpus=1,epochs_before=2"])
def test_a_lone_job_doubles_its_gpus_once_an_epoch_up_to_four_times_what_it_asks_for(policy: str) -> None:
    """The fifth oracle."""
    assert sizes(engine([elastic(4000.0, gpus=2)], policy), 0) == [1, 2, 4, 8]


def test_a_lone_job_stops_at_the_size_of_the_cluster() -> None:
    assert sizes(engine([elastic(4000.0, gpus=4)], "ones:first_gpus=1", "1x(4xV100)"), 0) == [1, 2, 4]


def test_a_job_may_begin_with_more_gpus() -> None:
    assert sizes(engine([elastic(4000.0, gpus=4)], "ones:first_gpus=4"), 0)[:2] == [4, 8]


@pytest.mark.slow
def test_with_nothing_to_gain_the_schedule_stays() -> None:
    """The first oracle: no mutations, no arrivals, and every job at its limit."""
    jobs = [elastic(2e4, gpus=1, gpu_counts=(1, 2, 4)) for _ in range(4)]
    run = engine(jobs, "ones:evict=0")
    record = run.run()
    after = record.gpu_intervals.start_s[record.gpu_intervals.start_s > 1000.0]
    assert len(after) == 0, "each has its four GPUs long before, and keeps them"
    assert not record.suspensions.any()


@pytest.mark.slow
def test_the_shorter_of_two_jobs_ends_first_when_there_is_one_gpu() -> None:
    """The fourth oracle, in a run. What jobs have left is foreseen from those that have finished."""
    history = [elastic(500.0, 600.0 * number, gpu_counts=(), name=f"short-{number}") for number in range(3)]
    jobs = [
        *history,
        Arrival(2000.0, JobSpec(steps=5000.0, profile="linear/bs1", epoch_steps=50.0)),
        elastic(500.0, 2000.0, gpu_counts=()),
    ]
    rates = Rates(table={(name, "V100", 1): 1.0 for name in ("linear", "linear/bs1")})
    record = engine(sorted(jobs, key=lambda each: each.submitted_s), cluster="1xV100", rates=rates).run()
    assert record.finished_s[4] < record.finished_s[3]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    """The sixth oracle."""
    fields: dict[str, Any] = {"policy": "ones", "cluster": "4x(4xRTX5000)"}
    first, second = (simulate("ones:jobs=15,seed=2", **fields).record for _ in range(2))
    assert (first.finished_s == second.finished_s).all() and (first.gpu_intervals.start_s == second.gpu_intervals.start_s).all()
    assert (first.gpu_intervals.gpus == second.gpu_intervals.gpus).all()
    other = simulate("ones:jobs=15,seed=2", seed=7, **fields).record
    assert (first.finished_s != other.finished_s).any()


def asked(run: Engine, until_s: float) -> View:
    """What the policy was shown last before a time, as it was then."""
    seen: list[View] = []
    policy = run.policy

    class Watched:
        def allocate(self, view: View) -> Any:
            if view.now_s <= until_s:
                seen.append(decode_view(encode_view(replace(view, memory=None)), view.memory))
            return policy.allocate(view)

    run.policy = Watched()
    run.run()
    return seen[-1]


@pytest.mark.slow
def test_its_memory_survives_as_text_and_answers_alike() -> None:
    run = engine([elastic(3000.0, 40.0 * number, gpus=2) for number in range(8)])
    view = asked(run, 500.0)
    assert isinstance(view.memory, OnesMemory)
    policy = Ones()
    words = memory_codec(policy)
    text = encode_answer(policy.allocate(view), words)["memory"]
    again = replace(view, memory=words.decode(json.loads(json.dumps(words.encode(view.memory)))))
    assert encode_answer(policy.allocate(again), words)["memory"] == text


@pytest.mark.slow
def test_it_goes_on_with_an_old_memory_or_none() -> None:
    """After a crash it sees what the last snapshot has: jobs may have come and gone since."""
    run = engine([elastic(3000.0, 100.0 * number, gpus=2) for number in range(12)])
    early = asked(run, 300.0)
    late = asked(engine([elastic(3000.0, 100.0 * number, gpus=2) for number in range(12)]), 1100.0)
    for memory in (early.memory, None):
        answer = Ones().allocate(replace(late, memory=memory))
        pools = np.bincount(late.options.pool[answer.option], late.options.gpus[answer.option], len(late.capacity))
        assert (pools <= late.capacity).all() and len(answer.position)


@examples(8)
@given(st.integers(0, 10**6), st.sampled_from(["ones", PUBLISHED, "ones:batch=requested", "ones:evict=0.9,epochs_between=0"]))
@pytest.mark.slow
def test_every_job_ends_and_none_runs_at_a_size_it_does_not_accept(seed: int, policy: str) -> None:
    draw = np.random.default_rng(seed)
    jobs = [
        elastic(float(draw.integers(50, 1500)), float(draw.integers(0, 400)), gpus=int(draw.choice([1, 2, 4])))
        for _ in range(int(draw.integers(1, 12)))
    ]
    jobs.sort(key=lambda each: each.submitted_s)
    cluster = str(draw.choice(["2x(4xV100)", "1x(8xV100)", "1x(4xV100) + 1x(4xK80)"]))
    rates = Rates(
        table={**LINEAR.table, **{("linear", "K80", gpus): 0.3 * gpus**0.8 for gpus in (1, 2, 4)}},
    )
    record = engine(jobs, policy, cluster, rates=rates, seed=seed).run()
    assert np.isfinite(record.finished_s).all()
    width = np.diff(record.gpu_intervals.first)
    for job, gpus in zip(record.gpu_intervals.job.tolist(), width.tolist(), strict=True):
        assert gpus in (jobs[job].spec.gpu_counts or (jobs[job].spec.gpus,))


@pytest.mark.slow
def test_limits_halve_when_a_job_is_left_out() -> None:
    """A job that was stopped may come back with what it had; each time that it is left out of what is deployed, with half."""
    jobs = [elastic(20_000.0, 0.0, gpus=4), *(elastic(800.0, 900.0 + 5 * n, gpus=4) for n in range(24))]
    run = engine(jobs, PUBLISHED, "1x(8xV100)")
    policy, resumes = run.policy, []

    class Watched:
        def allocate(self, view: Any) -> Any:
            answer = policy.allocate(view)
            if len(view.jobs) and view.jobs.ids[0] == 0 and 900.0 <= view.now_s < 1400.0:
                resumes.append((bool(view.jobs.granted[0]), int(answer.memory.resume[0])))
            return answer

    run.policy = Watched()
    run.run()
    first = itertools.takewhile(lambda each: not each[0], itertools.dropwhile(lambda each: each[0], resumes))
    waits = [resume for _, resume in first]
    assert waits[0] == 8 and waits[-1] < 8
    assert all(after in (before, before // 2) for before, after in itertools.pairwise(waits)), waits
