"""Goodput and Optimus: how many GPUs each job gets, when it is alone and when others arrive."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota
from rota.beliefs.efficiency import Efficiency
from rota.beliefs.rates import Rates
from rota.compose.prepare import prepare_study
from rota.compose.study import make_study
from rota.model.allocation import Assignment
from rota.model.job import Arrival, JobSpec
from rota.model.needs import needs_of
from rota.model.view import View
from rota.policies.goodput import Goodput
from rota.policies.optimus import Optimus, OptimusMemory
from rota.traces.trace import Trace
from tests.examples import examples
from tests.unit.core.helpers import Bench

RATES = Rates(
    table={("net", card, gpus): speed * gpus**0.8 for card, speed in (("V100", 1.0), ("K80", 0.2)) for gpus in (1, 2, 4, 8)},
    batches={("net", "V100", gpus, size): 64 / size * gpus**0.9 for gpus in (1, 2, 4, 8) for size in (128, 256)},
    efficiency=Efficiency(noise={"net": 500.0}),
)
ELASTIC: dict[str, Any] = {"profile": "net", "gpus": 2, "gpu_counts": (1, 4, 8), "can_resize": True, "steps": 5000.0}
BATCHES = {**ELASTIC, "batch_size": 64, "batch_sizes": (128, 256)}
POLICIES: list[Any] = [Goodput(), Optimus(), Goodput(batch="largest"), Optimus(batch="best")]


def bench(policy: Any, cluster: str = "1x(8xV100)", rates: Rates = RATES, **settings: Any) -> Bench:
    return Bench(cluster, policy, rates, needs_predictions=needs_of(policy).predictions, **settings)


def sizes(view: View, answer: Assignment) -> dict[int, int]:
    """Job -> GPUs; within the capacity of each pool, each by an option of its own."""
    options = view.options
    assert (options.kind[answer.option] == view.jobs.kind[answer.position]).all()
    used = np.bincount(options.pool[answer.option], options.gpus[answer.option], len(view.capacity))
    assert (used <= view.capacity).all()
    assert len(np.unique(answer.position)) == len(answer.position)
    return dict(zip(view.jobs.ids[answer.position].tolist(), options.gpus[answer.option].tolist(), strict=True))


def ask(policy: Any, made: Bench) -> dict[int, int]:
    view = made.core.view()
    return sizes(view, policy.allocate(view))


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("spec", [ELASTIC, BATCHES], ids=["gpus", "batch"])
def test_a_job_grows_when_it_is_alone_and_shrinks_when_others_come(policy: Any, spec: dict[str, Any]) -> None:
    jobs = [JobSpec(**{**spec, "steps": 20_000.0}), *(JobSpec(**{**spec, "steps": 1500.0}) for _ in range(3))]
    trace = Trace("four", "made", tuple(Arrival(at_s, job) for at_s, job in zip((0.0, 900.0, 901.0, 902.0), jobs, strict=True)))
    study = {"trace": trace, "policy": policy, "cluster": "1x(8xV100)", "rates": RATES, "preset": "ideal"}
    record = prepare_study(make_study(study)).engine(None).run()
    held = [
        (start_s, int(last - first))
        for job, start_s, end_s, first, last in zip(
            *(column.tolist() for column in (record.gpu_intervals.job, record.gpu_intervals.start_s, record.gpu_intervals.end_s)),
            *(record.gpu_intervals.first[:-1].tolist(), record.gpu_intervals.first[1:].tolist()),
            strict=True,
        )
        if job == 0 and end_s > start_s
    ]
    widths = [width for _, width in held]
    assert widths[0] == 8
    assert min(widths) <= 2 and widths[-1] == 8, "it gives GPUs to the others, and has them back when they are done"
    assert (record.first_run_s[1:] - record.submitted_s[1:] <= 601.0).all(), "nobody waits for the others to end"
    assert not record.suspensions.any() and record.resizes[0] >= 2


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_rigid_jobs_and_parts_of_gpus_run_too(policy: Any) -> None:
    made = bench(policy, "1x(4xV100)")
    for gpus in (2, 0.5, 1):
        made.obey(made.submit(gpus=gpus, steps=100.0))
    assert ask(policy, made) == {0: 2, 1: 1, 2: 1}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_nothing_to_do(policy: Any) -> None:
    assert ask(policy, bench(policy)) == {}


jobs = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3, 4]), st.lists(st.sampled_from([1, 2, 4, 8]), max_size=3), st.booleans(), st.floats(1.0, 9e3)
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@examples(25)
@given(jobs=jobs, later=st.floats(1.0, 3000.0))
@pytest.mark.slow
def test_capacities_are_kept_and_answers_repeat(policy: Any, jobs: list[Any], later: float) -> None:
    made = bench(policy, "2x(2xV100) + 3xK80")
    for number, (gpus, counts, several, steps) in enumerate(jobs):
        batch = {"batch_size": 64, "batch_sizes": (128, 256)} if several else {}
        made.now_s = float(number)
        made.obey(made.submit(profile="net", gpus=min(gpus, 4), gpu_counts=tuple(counts), steps=steps, **batch))
    made.tell(at_s=later + len(jobs))
    view = made.core.view()
    first, second = policy.allocate(view), policy.allocate(view)
    assert (first.position == second.position).all() and (first.option == second.option).all()
    found = sizes(view, first)
    rigid = {job: spec.width for job, spec in enumerate(made.state.jobs.specs.values()) if not spec.demand.elastic}
    assert all(found[job] == width for job, width in rigid.items() if job in found)


def test_goodput_puts_jobs_where_they_are_fastest_for_what_they_cost_others() -> None:
    made = bench(Goodput(), "2xV100 + 2xK80")
    for _ in range(4):
        made.obey(made.submit(profile="net", steps=1000.0))
    view = made.core.view()
    answer = Goodput().allocate(view)
    assert sizes(view, answer) == {0: 1, 1: 1, 2: 1, 3: 1}, "a slow GPU is better than none"


def test_goodput_gives_a_job_its_first_gpu_before_another_its_second() -> None:
    for count in range(1, 9):
        made = bench(Goodput())
        for _ in range(count):
            made.submit(**ELASTIC)
        found = ask(Goodput(), made)
        assert len(found) == count and sum(found.values()) == 8, found


def test_goodput_counts_what_a_change_costs() -> None:
    """A job that has just started is not resized for a GPU that has become free."""
    made = bench(Goodput(), "4xV100")
    spec = {**ELASTIC, "gpu_counts": (1, 4)}
    for _ in range(2):
        made.obey(made.submit(**spec))
    young = ask(Goodput(), made)
    made.state.jobs.table.move_seconds[:2] = 300.0
    made.tell(at_s=1.0)
    assert ask(Goodput(), made) == young


def test_goodput_keeps_a_job_whose_batch_size_is_not_the_best_any_more() -> None:
    """It runs by an option that no other policy would give it; it has just started, and stopping it would gain nothing."""
    made = bench(Goodput(batch="requested"), "2xV100")
    made.obey(made.submit(**{**BATCHES, "gpu_counts": (1,)}))
    made.state.jobs.table.move_seconds[:1] = 300.0
    made.tell(at_s=1.0)
    assert ask(Goodput(batch="best"), made) == {0: 2} == ask(Goodput(batch="largest"), made)


def test_weights_count() -> None:
    made = bench(Goodput(), "4xV100")
    spec = {**ELASTIC, "gpu_counts": (1, 2, 3)}
    made.obey(made.submit(**spec, weight=9.0))
    made.obey(made.submit(**spec))
    made.tell(at_s=500.0)
    found = ask(Goodput(), made)
    assert found[0] >= found[1]


def test_optimus_keeps_sizes_between_intervals() -> None:
    policy = Optimus(interval_seconds=600.0)
    made = bench(policy)
    made.obey(made.submit(**ELASTIC))
    answer = policy.allocate(made.core.view())
    assert isinstance(answer.memory, OptimusMemory) and answer.memory.chosen_s == 0.0 and answer.until_s == 600.0
    made.now_s = 100.0
    made.obey(made.submit(**ELASTIC))
    assert ask(policy, made) == {0: 8}, "the first keeps all it has, and the second waits"
    made.tell(at_s=599.0)
    assert ask(policy, made) == {0: 8}
    made.tell(at_s=600.0)
    assert ask(policy, made) == {0: 4, 1: 4}


def test_optimus_gives_what_is_free_to_whoever_comes() -> None:
    policy = Optimus()
    made = bench(policy)
    made.obey(made.submit(profile="net", gpus=4, steps=5000.0))
    made.now_s = 10.0
    made.obey(made.submit(**ELASTIC))
    assert ask(policy, made) == {0: 4, 1: 1}, "the smallest size until sizes are chosen anew"


def test_optimus_gives_more_to_those_with_more_left() -> None:
    policy = Optimus()
    made = bench(policy, "1x(6xV100)")
    fields = {name: value for name, value in ELASTIC.items() if name != "steps"}
    made.submit(**fields, steps=5000.0, epoch_steps=100.0)
    made.submit(**fields, steps=5000.0, epoch_steps=2000.0)
    view = replace(made.core.view(), memory=None)
    found = sizes(view, policy.allocate(view))
    assert found == {0: 2, 1: 4}, "thirty epochs of each are foreseen, and those of the second are twenty times as long"


def test_optimus_takes_a_smaller_step_where_the_larger_does_not_fit() -> None:
    """Two GPUs are no faster than one, four are; if only three are free, three are taken."""
    speeds = {1: 1.0, 2: 1.0, 3: 1.5, 5: 4.0}
    rates = Rates(table={("odd", "V100", gpus): speed for gpus, speed in speeds.items()})
    made = bench(Optimus(), "4xV100", rates)
    made.obey(made.submit(profile="odd", gpus=1, gpu_counts=(2, 3, 5), steps=900.0))
    assert ask(Optimus(), made) == {0: 3}


def trace(seed: int) -> Trace:
    rng = np.random.default_rng(seed)
    made = []
    for at_s in np.cumsum(rng.exponential(60.0, 15)).tolist():
        made.append(Arrival(at_s, JobSpec(**{**BATCHES, "steps": float(rng.integers(100, 3000))})))
    return Trace("some", "made", tuple(made))


@pytest.mark.parametrize("policy", ["goodput", "optimus", "optimus:batch=best", "goodput:fairness=1,interval_seconds=120"])
def test_the_same_seed_gives_the_same_run(policy: str) -> None:
    first, second = (rota.simulate(trace(3), policy=policy, cluster="2x(4xV100)", rates=RATES).jobs for _ in range(2))
    assert first == second and len(first) == 15


@pytest.mark.parametrize("policy", ["goodput", "optimus"])
def test_elastic_jobs_are_done_sooner_than_rigid_ones(policy: str) -> None:
    given = {"policy": policy, "cluster": "2x(4xV100)", "rates": RATES, "preset": "ideal"}
    elastic, rigid = (rota.simulate(trace(3), **given, elastic=way).summary.mean_jct_seconds for way in (None, "none"))
    assert elastic is not None and rigid is not None and elastic < rigid


def test_fairness_spreads_gpus() -> None:
    """The larger it is, the less a fast job gains by more GPUs."""
    rates = Rates(
        table={("good", "V100", gpus): float(gpus) for gpus in (1, 2, 4, 8)}
        | {("bad", "V100", gpus): gpus**0.4 for gpus in (1, 2, 4, 8)}
    )
    found = []
    for fairness in (0.1, 3.0):
        made = bench(Goodput(fairness=fairness), rates=rates)
        for profile in ("good", "bad"):
            made.submit(profile=profile, gpus=1, gpu_counts=(2, 4, 8), steps=900.0)
        shares = ask(Goodput(fairness=fairness), made)
        found.append(shares[0] - shares[1])
    assert all(fair <= keen for keen, fair in pairwise(found)) and found[0] >= 0
