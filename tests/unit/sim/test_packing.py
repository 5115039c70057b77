"""Two jobs on the same GPUs in the simulator: exact times by hand, and nothing counted twice."""

from typing import Any

import numpy as np
import pytest

from rota.beliefs.rates import SAME_SPEED, Rates
from rota.compose.study import Study
from rota.core.decision_timing import WholeSteps
from rota.core.scheduler import Scheduler
from rota.core.selection import SelectionRules
from rota.core.settings import Settings
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.placers.packed import Packed
from rota.report.metrics import _cost, _utilization
from rota.report.result import Result
from rota.report.timeline import busy
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from rota.sim.record import Record
from tests.packing import Told, pairs

NAMES = (("a", "a"), ("a", "b"), ("b", "b"))


def run(
    cluster: str,
    *jobs: tuple[float, str, float],
    units: tuple[tuple[int, ...], ...],
    gpus: int = 1,
    rates: Rates | None = None,
    settings: Settings | None = None,
    report_seconds: float = float("inf"),
    **physics: Any,
) -> Record:
    beliefs = rates or pairs(0.8, 0.5, NAMES)
    true_physics = Physics(**{"rates": beliefs, **physics})
    arrivals = [Arrival(at_s, JobSpec(gpus=gpus, steps=steps, profile=name)) for at_s, name, steps in jobs]
    core = Scheduler(Cluster.parse(cluster), Packed(), settings or Settings(colocation=True), rates=beliefs)
    return Engine(core, Told(*units), true_physics, arrivals, seed=3, report_seconds=report_seconds).run()


def test_two_share_and_the_longer_speeds_up_when_the_other_is_done() -> None:
    record = run("1xV100", (0.0, "a", 8.0), (0.0, "b", 20.0), units=((0, 1),))
    # 0-10: 8 steps at 0.8, and 5 at 0.5; then the other 15 at 1.
    assert record.finished_s.tolist() == [10.0, 25.0]
    assert record.suspensions.tolist() == [0, 0] and record.launches.tolist() == [1, 1]


def test_who_is_joined_slows_down_from_that_moment() -> None:
    record = run("1xV100", (0.0, "a", 20.0), (4.0, "b", 5.0), units=((0, 1), (0,)))
    # 0-4: 4 steps alone; 4-14: 8 in company, the other does its 5; 14-22: the last 8 alone.
    assert record.finished_s.tolist() == [22.0, 14.0]
    assert record.launches.tolist() == [1, 1] and record.suspensions.tolist() == [0, 0]


def test_starting_and_saving_slow_nobody_down() -> None:
    record = run("1xV100", (0.0, "a", 8.0), (0.0, "b", 20.0), units=((0, 1),), launch_seconds=3.0)
    assert record.finished_s.tolist() == [13.0, 28.0]


def test_a_pair_nobody_knows_takes_turns() -> None:
    """The core believes in 0.8 and 0.5; the physics has never seen the pair."""
    core = Scheduler(Cluster.parse("1xV100"), Packed(), Settings(colocation=True), rates=pairs(0.8, 0.5, NAMES))
    jobs = [Arrival(0.0, JobSpec(steps=8.0, profile="a")), Arrival(0.0, JobSpec(steps=20.0, profile="b"))]
    record = Engine(core, Told((0, 1)), Physics(rates=SAME_SPEED), jobs).run()
    # 0-16: 8 steps each at half speed; 16-28: the last 12 alone.
    assert record.finished_s.tolist() == [16.0, 28.0]


def test_two_of_one_profile_run_alike() -> None:
    record = run("1xV100", (0.0, "a", 13.0), (0.0, "a", 13.0), units=((0, 1),))
    assert record.finished_s.tolist() == [20.0, 20.0]


def test_slow_gpus_and_spreading_cost_each_of_two_what_they_cost_one() -> None:
    shared = {"gpu_speed": np.array([1.0, 0.5, 1.0, 1.0]), "spread_penalty": 2.0}
    record = run("2x(2xV100)", (0.0, "a", 8.0), (0.0, "b", 20.0), units=((0, 1),), gpus=4, **shared)
    assert record.finished_s.tolist() == [40.0, 100.0], "four times what it takes on good GPUs of one node"
    assert Physics(rates=pairs(0.8, 0.5, NAMES), **shared).colocated_rate(
        JobSpec(gpus=4, profile="b"), JobSpec(gpus=4, profile="a"), Cluster.parse("2x(2xV100)"), np.arange(4), 2
    ) == pytest.approx(0.125)


def test_a_shared_gpu_is_busy_once_and_paid_once() -> None:
    record = run("1xV100", (0.0, "a", 8.0), (0.0, "b", 20.0), units=((0, 1),))
    cluster = Cluster.parse("1xV100")
    assert record.occupied_seconds.tolist() == [10.0, 25.0]
    assert record.occupied_gpu_seconds.tolist() == [5.0, 20.0], "half of the ten seconds they shared is each one's"
    assert record.pool_gpu_seconds.tolist() == [25.0]
    assert _utilization(record, cluster) == 1.0
    alone = _cost(record, cluster)
    assert alone is not None and alone == pytest.approx(25.0 / 3600 * (cluster.price("V100") or 0.0))
    result = Result(None, {}, record, [], cluster, study=Study("made"))  # type: ignore[arg-type]
    assert busy(result, np.array([0.0, 5.0, 10.0, 25.0, 30.0])).tolist() == [[1.0, 1.0, 1.0, 0.0]]


def test_whole_steps_go_by_the_rate_a_round_begins_with() -> None:
    settings = Settings(colocation=True, decide=WholeSteps(round_seconds=10.0), selection=SelectionRules(steady=True))
    record = run("1xV100", (0.0, "a", 12.0), (0.0, "b", 12.0), units=((0, 1),), settings=settings, whole_steps_seconds=10.0)
    # Round 1, 0-10: 8 of a and 5 of b. Round 2, 10-20: a ends with 4 more at 15, b goes on at 0.5 to 10.
    # Round 3, alone: the last two at 1.
    assert record.finished_s.tolist() == [15.0, 22.0]


def test_saves_keep_their_rhythm_when_the_pace_changes() -> None:
    """A node that fails loses what was done since the last save, not since the last change of company."""
    record = run(
        "1xV100",
        (0.0, "a", 400.0),
        *((30.0 * i, "b", 5.0) for i in range(1, 12)),
        units=tuple((0, i) for i in range(1, 12)),
        checkpoint_every_seconds=50.0,
        node_mtbf_seconds=120.0,
        node_repair_seconds=10.0,
        report_seconds=25.0,
    )
    failures = int(record.launches[0]) - 1
    assert failures >= 1 and not np.isnan(record.finished_s).any()
    assert 0 < record.lost_gpu_seconds[0] <= 50.0 * failures


def test_a_failing_node_ends_both_and_both_come_back() -> None:
    record = run(
        "1xV100",
        (0.0, "a", 600.0),
        (0.0, "b", 600.0),
        units=((0, 1),),
        checkpoint_every_seconds=20.0,
        node_mtbf_seconds=150.0,
        node_repair_seconds=10.0,
        report_seconds=20.0,
    )
    assert (record.launches > 1).all() and not np.isnan(record.finished_s).any()
