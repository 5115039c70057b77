"""The simulator: exact times, the costs of overheads, and the losses of failures."""

from typing import Any

import numpy as np
import pytest

from rota.beliefs.rates import Rates
from rota.core.decision_timing import AtRounds
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.errors import OptionError, SimulationStalled
from rota.model.allocation import Ranking
from rota.model.cluster import Cluster, Node
from rota.model.job import Arrival, JobSpec
from rota.placers.packed import Packed
from rota.placers.random import Random
from rota.policies.fifo import Fifo
from rota.policies.srsf import Srsf
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from rota.sim.record import Record


def run(
    cluster: str, *jobs: tuple[float, int, float], policy: Any = None, physics: Physics | None = None, **options: Any
) -> Record:
    arrivals = [Arrival(at_s, JobSpec(gpus=gpus, steps=steps)) for at_s, gpus, steps in jobs]
    physics = physics or Physics()
    core = Scheduler(Cluster.parse(cluster), Packed(), Settings(), rates=physics.rates)
    return Engine(core, policy or Fifo(), physics, arrivals, **options).run()


def test_times_are_exact() -> None:
    record = run("2xV100", (0.0, 2, 10.0), (1.0, 1, 5.0), (1.0, 1, 7.0))
    assert record.finished_s.tolist() == [10.0, 15.0, 17.0]
    assert record.first_run_s.tolist() == [0.0, 10.0, 10.0]
    assert record.occupied_gpu_seconds.tolist() == [20.0, 5.0, 7.0]


def test_launch_checkpoint_and_restore_cost_time() -> None:
    physics = Physics(launch_seconds=3.0, checkpoint_seconds=2.0, restore_seconds=1.0)
    record = run("1xV100", (0.0, 1, 100.0), (10.0, 1, 5.0), policy=Srsf(), physics=physics)
    # 0-3 launch, 3-10 seven steps, 10-12 checkpoint; 12-15 launch, 15-20 the short one; 20-24 launch and restore, 93 steps left.
    assert record.finished_s.tolist() == [117.0, 20.0]
    assert record.suspensions.tolist() == [1, 0]


def test_the_slowest_gpu_decides_and_spreading_costs() -> None:
    physics = Physics(gpu_speed=np.array([1.0, 0.5, 1.0, 1.0]), spread_penalty=2.0)
    assert run("2x(2xV100)", (0.0, 2, 10.0), physics=physics).finished_s.tolist() == [20.0]
    assert run("2x(2xV100)", (0.0, 4, 10.0), physics=physics).finished_s.tolist() == [40.0]


def test_rates_come_from_the_accelerator() -> None:
    record = run("1xV100 + 1xK80", (0.0, 1, 10.0), (0.0, 1, 10.0), physics=Physics(rates=Rates(speeds={"K80": 0.25})))
    assert record.finished_s.tolist() == [10.0, 40.0]


def test_a_failed_node_loses_work_since_the_last_checkpoint_and_comes_back() -> None:
    physics = Physics(node_mtbf_seconds=500.0, node_repair_seconds=50.0, checkpoint_every_seconds=40.0)
    record = run("1xV100", (0.0, 1, 2000.0), physics=physics, seed=4, report_seconds=100.0)
    failures = int(record.launches[0]) - 1
    assert failures >= 1
    assert 0 < record.lost_gpu_seconds[0] <= 40.0 * failures
    # Every second is work, lost work or repair.
    assert record.finished_s[0] == pytest.approx(2000.0 + record.lost_gpu_seconds[0] + 50.0 * failures)


def test_without_checkpoints_everything_is_lost() -> None:
    physics = Physics(node_mtbf_seconds=3000.0, node_repair_seconds=10.0)
    record = run("1xV100", (0.0, 1, 2000.0), physics=physics, seed=1)
    failures = int(record.launches[0]) - 1
    assert failures >= 1
    assert record.finished_s[0] == pytest.approx(2000.0 + record.lost_gpu_seconds[0] + 10.0 * failures)


def test_a_failure_takes_the_whole_gang() -> None:
    physics = Physics(node_mtbf_seconds=400.0, node_repair_seconds=20.0, checkpoint_every_seconds=10.0)
    record = run("2x(2xV100)", (0.0, 4, 900.0), (0.0, 1, 50.0), physics=physics, seed=2, report_seconds=50.0)
    assert record.launches[0] > 1 and not np.isnan(record.finished_s).any()


def test_a_parked_job_resumes_for_free() -> None:
    physics = Physics(launch_seconds=3.0, checkpoint_seconds=50.0)
    roomy = Cluster.of([Node("a", "V100", 1, host_gib=32.0)])
    arrivals = [Arrival(0.0, JobSpec(steps=100.0, can_park=True, parked_gib=8.0)), Arrival(10.0, JobSpec(steps=5.0))]
    record = Engine(Scheduler(roomy, Packed()), Srsf(), physics, arrivals).run()
    assert record.finished_s.tolist() == [111.0, 18.0]


def test_a_job_of_no_steps_ends_as_it_starts() -> None:
    assert run("1xV100", (4.0, 1, 0.0)).finished_s.tolist() == [4.0]


def test_a_policy_that_ranks_nobody_stalls_with_a_story() -> None:
    class Nobody:
        def allocate(self, view: Any) -> Ranking:
            return Ranking(order=np.empty(0, dtype=np.int64))

    with pytest.raises(SimulationStalled, match="1 job did not finish"):
        run("1xV100", (0.0, 1, 5.0), policy=Nobody())


def test_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    run("1xV100", (0.0, 1, 5.0), progress=lambda done, total, now_s: seen.append((done, total)))
    assert seen[-1] == (1, 1)


def test_migrations_are_counted() -> None:
    arrivals = [Arrival(float(t), JobSpec(steps=30.0)) for t in range(12)]
    record = Engine(Scheduler(Cluster.parse("8xV100"), Random(sticky=False)), Srsf(), Physics(), arrivals).run()
    assert record.migrations.sum() > 0 and (record.migrations <= record.launches).all()


@pytest.mark.parametrize("placer", [Random(sticky=False), Packed(sticky=False)])
def test_a_job_that_may_move_every_round_still_gets_somewhere(placer: Any) -> None:
    """Even if nobody told the scheduler what a start costs: it sees how long one takes."""
    core = Scheduler(Cluster.parse("4xV100"), placer, Settings(decide=AtRounds(round_seconds=20.0)))
    record = Engine(core, Fifo(), Physics(launch_seconds=20.0), [Arrival(0.0, JobSpec(steps=100.0))]).run()
    assert record.finished_s[0] <= 2 * 100.0 + 40.0


@pytest.mark.parametrize(
    "wrong",
    [{"spread_penalty": 0.9}, {"launch_seconds": -1.0}, {"node_mtbf_seconds": 0.0}, {"checkpoint_every_seconds": float("nan")}],
)
def test_impossible_physics_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        Physics(**wrong)
