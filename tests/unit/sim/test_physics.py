"""Physics: the cost of a layout over nodes, the upper limit for bounds, and nodes that fail in different ways."""

from itertools import product

import numpy as np
import pytest

from rota.beliefs.rates import Rates
from rota.core.scheduler import Scheduler
from rota.errors import OptionError
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.placers.packed import Packed
from rota.policies.fifo import Fifo
from rota.profiles.catalogue import Catalogue
from rota.sim.engine import Engine
from rota.sim.physics import Physics

NODES = Cluster.parse("2x(4xV100) + 2x(2xK80)")
TABLE = Rates({("p", "V100", 4): 8.0, ("p", "K80", 4): 2.0}, across_nodes={("p", "V100", 4): 6.0, ("p", "K80", 4): 3.0})


def spec(profile: str = "p", gpus: int = 4) -> JobSpec:
    return JobSpec(gpus=gpus, steps=10.0, profile=profile)


def test_the_profile_says_what_spreading_costs_unless_a_factor_does() -> None:
    together, apart = np.arange(4), np.array([0, 1, 4, 5])
    assert [Physics(rates=TABLE).rate(spec(), NODES, gpus, n) for gpus, n in ((together, 0), (apart, 1))] == [8.0, 6.0]
    fixed = Physics(rates=TABLE, spread_penalty=2.0)
    assert [fixed.rate(spec(), NODES, gpus, n) for gpus, n in ((together, 0), (apart, 1))] == [8.0, 4.0]
    free = Physics(rates=TABLE, spread_penalty=1.0)
    assert free.rate(spec(), NODES, apart, 1) == 8.0


def test_the_upper_limit_knows_tables_that_are_faster_apart_and_gangs_that_fill_no_node() -> None:
    assert Physics(rates=TABLE).fastest(spec(), NODES) == {0: 8.0, 1: 3.0}
    assert Physics(rates=TABLE).fastest(spec(), Cluster.parse("8xK80")) == {0: 2.0}, "one node: never apart"
    assert Physics(rates=TABLE, spread_penalty=2.0).fastest(spec(), NODES) == {0: 8.0, 1: 1.0}
    speeds = np.ones(12)
    speeds[0] = 0.5
    assert Physics(rates=TABLE, gpu_speed=speeds).fastest(spec(), NODES)[0] == 8.0


@pytest.mark.parametrize("profile", ["p", "bert", "llama7b", "vgg19/bs8", "imagenet/global3200", ""])
@pytest.mark.parametrize("penalty", [None, 1.0, 1.7])
def test_no_placement_beats_the_upper_limit(profile: str, penalty: float | None) -> None:
    cluster = Cluster.parse("3x(4xA100) + 2x(2xV100) + 8xT4")
    physics = Physics(
        rates=Rates(TABLE.table, across_nodes=TABLE.across_nodes, model=Catalogue(inter_node_gb_s=1.0)), spread_penalty=penalty
    )
    for gpus in (1, 2, 4, 7, 8):
        limit = physics.fastest(spec(profile, gpus), cluster)
        for pool, nodes in product(range(3), range(1, 4)):
            mine = np.flatnonzero(cluster.gpu_pool == pool)[:gpus]
            least = len(np.unique(cluster.gpu_node[mine]))
            if len(mine) == gpus and least <= nodes <= min(gpus, len(cluster.pool_nodes[pool])):
                assert physics.rate(spec(profile, gpus), cluster, mine, nodes) <= limit.get(pool, 0.0) * (1 + 1e-12)


def test_when_a_layout_can_change_a_rate() -> None:
    pooled, free = Cluster.parse("8xV100"), Physics(rates=TABLE, spread_penalty=1.0)
    modelled = Physics(rates=Rates(model=Catalogue()))
    assert Physics(rates=TABLE).layout_matters([spec()], NODES)
    assert not Physics(rates=TABLE).layout_matters([spec()], pooled)
    assert not Physics(rates=TABLE).layout_matters([spec(gpus=1), spec("")], NODES), "one GPU has no layout"
    assert not free.layout_matters([spec()], NODES)
    assert Physics(spread_penalty=1.7).layout_matters([spec("")], NODES)
    assert modelled.layout_matters([spec("resnet50")], NODES)
    assert not modelled.layout_matters([spec("")], NODES)


def run(physics: Physics, cluster: str = "2x(1xV100)") -> Engine:
    arrivals = [Arrival(0.0, JobSpec(steps=90_000.0)), Arrival(0.0, JobSpec(steps=3000.0))]
    engine = Engine(Scheduler(Cluster.parse(cluster), Packed()), Fifo(), physics, arrivals, seed=3)
    engine.run()
    return engine


def test_only_the_weak_node_fails_and_comes_back_in_its_own_time() -> None:
    weak = Physics(node_mtbf_seconds=np.array([np.inf, 1000.0]), node_repair_seconds=np.array([1e9, 70.0]))
    assert weak.fails
    record = run(weak).record
    failures = record.launches - 1
    assert failures[0] == 0 and failures[1] > 0
    assert record.finished_s[1] == pytest.approx(3000.0 + record.lost_gpu_seconds[1] + 70.0 * failures[1])


def test_one_value_for_all_is_the_same_as_each() -> None:
    one = run(Physics(node_mtbf_seconds=50_000.0, node_repair_seconds=70.0)).record
    each = run(Physics(node_mtbf_seconds=np.full(2, 50_000.0), node_repair_seconds=np.full(2, 70.0))).record
    assert one.finished_s.tolist() == each.finished_s.tolist()
    assert one.launches.tolist() == each.launches.tolist()


def test_wrong_values_for_nodes_are_refused() -> None:
    with pytest.raises(OptionError, match="more than 0"):
        Physics(node_mtbf_seconds=np.array([1.0, 0.0]))
    with pytest.raises(OptionError, match="0 or more"):
        Physics(node_repair_seconds=np.array([np.nan]))
    with pytest.raises(OptionError, match="too few"):
        run(Physics(node_mtbf_seconds=np.array([10.0])))
