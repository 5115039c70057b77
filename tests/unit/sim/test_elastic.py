"""Jobs of several sizes in the simulator: they run with the granted size, and resize in place if they can."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota
from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import Rates
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.validate import validate
from rota.model.allocation import Assignment
from rota.model.cluster import Cluster
from rota.model.commands import Launch, Resize, Suspend
from rota.model.job import Arrival, JobSpec
from rota.model.view import View
from rota.placers.packed import Packed
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo
from rota.policies.srsf import Srsf
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from rota.traces.trace import Trace
from tests.examples import examples

NOTHING = Assignment(position=np.array([], dtype=np.int64), option=np.array([], dtype=np.int64))


@dataclass(frozen=True)
class InTurn:
    """Grants the first job its options one after the other, for `seconds` each; the others get nothing before it is done."""

    seconds: float = 10.0

    def allocate(self, view: View) -> Assignment:
        if not len(view.jobs):
            return NOTHING
        rows = np.flatnonzero(view.options.kind == view.jobs.kind[0])
        turn = int((view.now_s + 1e-6) // self.seconds)
        option, until_s = rows[turn % len(rows)], (turn + 1) * self.seconds
        return Assignment(position=np.array([0]), option=np.array([option]), until_s=until_s)


class Noted(Scheduler):
    """Keeps what it commands, and checks itself."""

    commands: list[Any]

    def commit(self, decided: Any) -> Any:
        found = super().commit(decided)
        validate(self.state)
        self.__dict__.setdefault("commands", []).extend(found)
        return found


def engine(specs: list[JobSpec], cluster: str, policy: Any, placer: Any = None, **physics: Any) -> tuple[Engine, Noted]:
    truth = Physics(**physics)
    costs = MoveCosts(truth.launch_seconds, truth.checkpoint_seconds, truth.restore_seconds, truth.resize_seconds)
    core = Noted(Cluster.parse(cluster), placer or Packed(), Settings(), rates=truth.rates, costs=costs)
    return Engine(core, policy, truth, [Arrival(0.0, spec) for spec in specs]), core


def sent(core: Noted, kind: type) -> list[Any]:
    return [command for command in core.commands if isinstance(command, kind)]


RATES = Rates(
    table={("a", "V100", 1): 1.0, ("a", "V100", 2): 1.8, ("a", "V100", 4): 3.0},
    batches={("a", "V100", 1, 128): 0.8, ("a", "V100", 2, 128): 1.4},
)


def test_a_job_that_can_resize_is_never_stopped() -> None:
    spec = JobSpec(profile="a", gpus=2, gpu_counts=(1, 4), steps=100.0, can_resize=True)
    made, core = engine([spec], "1x(4xV100)", InTurn(), rates=RATES)
    record = made.run()
    # Ten seconds each on 2, 1 and 4 GPUs: 18, 10 and 30 steps, in that order, until 100 are done.
    assert record.finished_s[0] == pytest.approx(30 + 10 + 10 + 14 / 3)
    assert record.launches[0] == 1 and record.suspensions[0] == 0 and record.resizes[0] == 5
    assert [len(command.gpus) for command in sent(core, Resize)] == [1, 4, 2, 1, 4] and not sent(core, Suspend)


def test_another_job_is_suspended_and_launched_with_the_other_size() -> None:
    spec = JobSpec(profile="a", gpus=2, gpu_counts=(1, 4), steps=100.0)
    made, core = engine([spec], "1x(4xV100)", InTurn(), rates=RATES)
    record = made.run()
    assert record.finished_s[0] == pytest.approx(50 + 14 / 3)
    assert record.launches[0] == 6 and record.suspensions[0] == 5 and record.resizes[0] == 0 and not sent(core, Resize)


@pytest.mark.parametrize("can_resize", [True, False])
def test_a_change_of_batch_size_alone_reaches_the_job(can_resize: bool) -> None:
    spec = JobSpec(profile="a", gpus=1, batch_size=64, batch_sizes=(128,), steps=100.0, can_resize=can_resize)
    made, core = engine([spec], "1xV100", InTurn(), rates=RATES)
    record = made.run()
    # 1 step a second of 64 examples, then 0.8 of 128, which count as 1.6.
    assert record.finished_s[0] == pytest.approx(10 * 2 * 3 + 10 + 12 / 1.6)
    sizes = [command.batch_size for command in core.commands if isinstance(command, Launch | Resize)]
    assert sizes == [64, 128, 64, 128, 64, 128, 64, 128]
    assert (record.launches[0] == 1) == can_resize


def test_resizing_costs_what_it_costs_and_holds_the_larger_size_meanwhile() -> None:
    spec = JobSpec(profile="a", gpus=2, gpu_counts=(1, 4), steps=50.0, can_resize=True)
    made, _ = engine([spec], "1x(4xV100)", InTurn(), rates=RATES, resize_seconds=2.0)
    record = made.run()
    # 18 steps by 10 s, 8 by 20 s, then 3 a second from 22 s on.
    assert record.finished_s[0] == pytest.approx(22 + 24 / 3)
    assert record.occupied_gpu_seconds[0] == pytest.approx(2 * 12 + 1 * 8 + 4 * 10)


def test_growing_waits_until_the_others_have_left() -> None:
    """The second job gives its GPUs up when the first is to grow; saving its state takes a while."""

    @dataclass(frozen=True)
    class FirstGrows:
        def allocate(self, view: View) -> Assignment:
            if not len(view.jobs):
                return NOTHING
            rows = np.flatnonzero(view.options.kind == view.jobs.kind[0])
            large = rows[np.argmax(view.options.gpus[rows])]
            if len(view.jobs) < 2 or view.now_s >= 10:
                return Assignment(position=np.array([0]), option=np.array([large]))
            other = np.flatnonzero(view.options.kind == view.jobs.kind[1])[0]
            usual = rows[view.options.default_size[rows]][0]
            return Assignment(position=np.array([0, 1]), option=np.array([usual, other]), until_s=10.0)

    specs = [JobSpec(gpus=2, gpu_counts=(4,), steps=100.0, can_resize=True), JobSpec(gpus=1, steps=30.0)]
    made, core = engine(specs, "1x(4xV100)", FirstGrows(), checkpoint_seconds=5.0)
    record = made.run()
    (grown,) = sent(core, Resize)
    assert len(grown.gpus) == 4 and record.finished_s[0] == pytest.approx(15 + 85 / 2)
    assert record.finished_s[1] > record.finished_s[0]


@pytest.mark.parametrize("placer", [Packed(), Spread(), Packed(sticky=False)])
def test_a_gang_on_two_nodes_resizes_on_both(placer: Any) -> None:
    spec = JobSpec(gpus=4, gpu_counts=(2, 6), steps=200.0, can_resize=True)
    made, core = engine([spec], "2x(4xV100)", InTurn(), placer)
    record = made.run()
    assert np.isfinite(record.finished_s[0]) and record.finished_s[0] >= 200 / 1.5
    for command in sent(core, Resize):
        assert set(core.state.nodes.cluster.gpu_node[command.gpus].tolist()) == set(command.nodes)


@examples(150)
@given(st.data())
@pytest.mark.slow
def test_a_job_granted_any_option_of_its_demand_runs_exactly_by_it(data: st.DataObject) -> None:
    """Whatever it is granted and when, a job is done when the rates of what it was granted add up to its steps."""
    counts = data.draw(st.lists(st.integers(1, 4), max_size=3).map(tuple))
    batches = data.draw(st.sampled_from([(), (32,), (32, 128)]))
    spec = JobSpec(
        profile="a",
        gpus=data.draw(st.integers(1, 4)),
        gpu_counts=counts,
        batch_size=64,
        batch_sizes=batches,
        steps=data.draw(st.floats(20.0, 300.0)),
        can_resize=data.draw(st.booleans()),
    )
    types = ("V100", "K80")
    rate = {(kind, gpus): data.draw(st.floats(0.3, 4.0)) for kind in types for gpus in (1, 2, 3, 4)}
    native = {(kind, gpus, size): data.draw(st.floats(0.3, 4.0)) for kind in types for gpus in (1, 2, 3, 4) for size in (32, 128)}
    rates = Rates(
        table={("a", *key): value for key, value in rate.items()}, batches={("a", *key): value for key, value in native.items()}
    )
    seconds = data.draw(st.floats(3.0, 40.0))
    made, core = engine(
        [spec], "1x(4xV100) + 1x(4xK80)", InTurn(seconds), data.draw(st.sampled_from([Packed(), Spread()])), rates=rates
    )
    record = made.run()
    options, done, number = core.state.beliefs.options, 0.0, 0
    rows = np.arange(len(options))
    while True:
        row = int(rows[number % len(rows)])
        kind, gpus, size = (
            core.state.nodes.cluster.pools[options.pool[row]],
            int(options.gpus[row]),
            int(options.batch_size[row]),
        )
        speed = rate[kind, gpus] if size == 64 else native[kind, gpus, size] * size / 64
        assert options.rate[row] == pytest.approx(speed)
        if done + speed * seconds >= spec.steps:
            break
        done += speed * seconds
        number += 1
    assert record.finished_s[0] == pytest.approx(number * seconds + (spec.steps - done) / speed, rel=1e-6)


def four(**more: Any) -> Trace:
    return Trace.of(
        "four", "made", [Arrival(10.0 * n, JobSpec(gpus=4, gpu_counts=(1, 2, 8), steps=1000.0, **more)) for n in range(4)]
    )


def test_what_each_policy_does_with_elastic_jobs() -> None:
    """The table of docs/elastic.md."""
    first = rota.simulate(four(), cluster="1x(8xV100)", policy="fifo", preset="ideal")
    assert [round(row["finished_s"]) for row in first.jobs] == [500, 1000, 1500, 2000], "one after the other on all GPUs"
    shortest = rota.simulate(four(), cluster="1x(8xV100)", policy="srsf", preset="ideal")
    assert shortest.summary.mean_jct_seconds == first.summary.mean_jct_seconds
    fair = rota.simulate(four(can_resize=True), cluster="1x(8xV100)", policy="max-min-fairness", preset="ideal")
    assert fair.summary.suspensions == 0 and fair.summary.resizes >= 2, "each gets smaller as others come"
    ends = [row["finished_s"] for row in fair.jobs]
    assert max(ends) - min(ends) < 200, "all make progress alike"


def test_fifo_takes_what_has_room_and_srsf_grows_when_it_pays() -> None:
    specs = [JobSpec(gpus=2, steps=100.0), JobSpec(gpus=4, gpu_counts=(1, 2), steps=400.0, can_resize=True)]
    made, core = engine(specs, "1x(4xV100)", Fifo())
    record = made.run()
    assert [len(command.gpus) for command in sent(core, Launch)] == [2, 2] and not sent(core, Resize)
    assert record.finished_s[1] == pytest.approx(800.0), "it keeps the size it started with"
    made, core = engine(specs, "1x(4xV100)", Srsf())
    record = made.run()
    assert [len(command.gpus) for command in sent(core, Resize)] == [4] and record.finished_s[1] == pytest.approx(100 + 350)
