"""Elastic jobs with several batch sizes, under any policy: limits are kept, bounds hold, and runs repeat."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.efficiency import Efficiency
from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import Rates
from rota.beliefs.step_time import StepTime
from rota.core.decision_timing import AtEvents, AtRounds
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.validate import validate
from rota.model.cluster import Cluster
from rota.model.commands import Launch, Resize
from rota.model.job import Arrival, JobSpec
from rota.model.needs import needs_of
from rota.model.policy import Policy
from rota.placers.packed import Packed
from rota.policies.goodput import Goodput
from rota.policies.max_min_fairness import MaxMinFairness
from rota.policies.ones import Ones
from rota.policies.optimus import Optimus
from rota.policies.srsf import Srsf
from rota.profiles.scaling import StepTimes
from rota.report.bounds import bounds
from rota.report.metrics import summarise
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from rota.sim.record import Record
from tests.examples import examples

TOLERANCE = 1e-9
COUNTS, SIZES = (1, 2, 3, 4, 6, 8), (16, 32, 64, 128, 256, 1024)
MODELS = ("one", "two")

POLICIES: list[Policy] = [
    Goodput(),
    Goodput(fairness=2.0, batch="largest", interval_seconds=300.0),
    Optimus(interval_seconds=120.0),
    Optimus(batch="best"),
    Ones(population=4, generations=2),
    Srsf(),
    MaxMinFairness(),
]
MOMENTS = [AtEvents(), AtRounds(round_seconds=60.0), AtRounds(round_seconds=30.0, at_events=True)]


class Watched(Scheduler):
    """Checks that a job is only ever sent off at a size that it accepts, within what its pool has."""

    def commit(self, decided: Any) -> Any:
        commands = super().commit(decided)
        validate(self.state)
        for command in commands:
            if isinstance(command, Launch | Resize):
                spec, options = self.state.jobs.specs[command.job], self.state.beliefs.options
                assert len(command.gpus) in (spec.gpu_counts or (spec.width,)), "a number of GPUs that it does not accept"
                assert command.batch_size in (spec.batch_sizes or (spec.batch_size,)), "a batch size that it does not accept"
                pool = self.state.nodes.cluster.gpu_pool[np.array(command.gpus)]
                assert (pool == options.pool[command.option]).all() and len(set(command.gpus)) == len(command.gpus)
        return commands


@dataclass(frozen=True, eq=False)
class Case:
    cluster: Cluster
    physics: Physics
    believed: Rates
    arrivals: list[Arrival]
    policy: Policy
    settings: Settings

    def run(self) -> Record:
        physics = self.physics
        costs = MoveCosts(physics.launch_seconds, physics.checkpoint_seconds, physics.restore_seconds, physics.resize_seconds)
        core = Watched(self.cluster, Packed(), self.settings, rates=self.believed, costs=costs)
        return Engine(core, self.policy, physics, self.arrivals).run()


@st.composite
def step_times(draw: st.DrawFn) -> StepTimes:
    """Made-up models, with memory for a part of the batch sizes only."""
    parts = st.sampled_from([0.001, 0.01, 0.05, 0.3])
    each = st.builds(
        StepTime,
        parts,
        st.sampled_from([1e-4, 1e-3, 1e-2]),
        parts,
        parts,
        parts,
        parts,
        overlap=st.sampled_from([1.0, 2.0, 5.0]),
        most_local=st.sampled_from([8.0, 50.0, 4096.0]),
    )
    return StepTimes({f"{model} {card}": draw(each) for model in MODELS for card in ("V100", "T4")})


@st.composite
def cases(draw: st.DrawFn) -> Case:
    cluster = Cluster.parse(draw(st.sampled_from(["1x(8xV100)", "2x(4xV100)", "2x(4xV100) + 3x(2xT4)", "4xT4 + 1x(2xV100)"])))
    curve = draw(st.sampled_from([{16: 900.0, 64: 260.0, 256: 120.0, 1024: 90.0}, {16: 64.0, 64: 16.0, 256: 4.0}]))
    known = Efficiency(curves={"one": curve}, noise={"two": draw(st.sampled_from([5.0, 300.0, math.inf]))})
    rates = Rates(model=draw(step_times()), efficiency=draw(st.sampled_from([known, known, Efficiency()])))
    overheads = st.sampled_from([0.0, 0.0, 5.0])
    physics = Physics(
        rates=rates, launch_seconds=draw(overheads), checkpoint_seconds=draw(overheads), resize_seconds=draw(overheads)
    )
    now_s, arrivals = 0.0, []
    for _ in range(draw(st.integers(1, 10))):
        now_s += draw(st.sampled_from([0.0, 3.0, 40.0, 200.0]))
        gpus = draw(st.sampled_from([1, 1, 2, 4]))
        batch = draw(st.sampled_from(SIZES))
        model, spelled = draw(st.sampled_from(MODELS)), draw(st.sampled_from(["global", "bs"]))
        local = batch % gpus == 0 and spelled == "bs"
        spec = JobSpec(
            gpus=gpus,
            gpu_counts=tuple(draw(st.lists(st.sampled_from(COUNTS), max_size=4))),
            batch_size=batch,
            batch_sizes=tuple(draw(st.lists(st.sampled_from(SIZES), max_size=4))),
            can_resize=draw(st.booleans()),
            steps=draw(st.floats(1.0, 3000.0)),
            profile=f"{model}/bs{batch // gpus}" if local else f"{model}/global{batch}",
        )
        epoch = draw(st.sampled_from([None, spec.steps / 7]))
        arrivals.append(Arrival(now_s, replace(spec, epoch_steps=epoch)))
    believed = replace(rates, efficiency=rates.efficiency.modelled())
    policy = draw(st.sampled_from(POLICIES))
    decide = draw(st.sampled_from(MOMENTS))
    return Case(
        cluster, physics, believed, arrivals, policy, Settings(decide=decide, needs_predictions=needs_of(policy).predictions)
    )


@given(cases())
@examples(120)
def test_limits_are_kept_and_no_run_beats_its_bounds(case: Case) -> None:
    record = case.run()
    assert not np.isnan(record.finished_s).any()
    found = summarise(
        record,
        case.arrivals,
        case.cluster,
        case.physics,
        rounds=None,
        decisions=record.decisions,
        decision_seconds=None,
        simulated_in_seconds=None,
        peak_memory_mb=None,
    )
    assert found.mean_jct_seconds is not None and found.makespan_seconds is not None
    assert found.mean_jct_bound_seconds is not None and found.makespan_bound_seconds is not None
    assert found.mean_jct_seconds >= found.mean_jct_bound_seconds * (1 - TOLERANCE)
    assert found.makespan_seconds >= found.makespan_bound_seconds * (1 - TOLERANCE)
    shortest = bounds(case.arrivals, case.cluster, case.physics).shortest_seconds
    assert (record.finished_s - record.submitted_s >= shortest * (1 - TOLERANCE) - 1e-6).all()


@given(cases())
@examples(20)
def test_the_same_seed_gives_the_same_run(case: Case) -> None:
    first, second = case.run(), case.run()
    for name in ("first_run_s", "finished_s", "occupied_gpu_seconds", "suspensions", "resizes", "launches"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


@given(cases())
@examples(60)
def test_more_sizes_never_raise_a_bound_and_fewer_never_lower_it(case: Case) -> None:
    rigid = [Arrival(at_s, replace(spec, gpu_counts=(), batch_sizes=())) for at_s, spec in case.arrivals]
    if not all(case.physics.fastest(spec, case.cluster) for _, spec in rigid):
        return
    elastic, fixed = (bounds(each, case.cluster, case.physics) for each in (case.arrivals, rigid))
    assert elastic.run_time_seconds is not None and fixed.run_time_seconds is not None
    assert elastic.run_time_seconds <= fixed.run_time_seconds * (1 + TOLERANCE)
    assert (elastic.shortest_seconds <= fixed.shortest_seconds * (1 + TOLERANCE)).all()
