"""Any placer: the right number of the right GPUs, none given twice, and packed spans no more nodes than necessary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.cluster import Cluster, Node
from rota.model.placement_view import PlacementRequest, PlacementView, Placer
from rota.placers.packed import Packed
from rota.placers.random import Random
from rota.placers.spread import Spread
from tests.examples import examples


@st.composite
def floors(draw: st.DrawFn) -> tuple[PlacementView, list[PlacementRequest]]:
    nodes = [
        Node(f"n{i}", draw(st.sampled_from(["V100", "K80"])), draw(st.integers(1, 8))) for i in range(draw(st.integers(1, 8)))
    ]
    cluster = Cluster.of(nodes)
    available = np.array(draw(st.lists(st.booleans(), min_size=cluster.gpus, max_size=cluster.gpus)))
    idle = np.array(draw(st.lists(st.booleans(), min_size=cluster.gpus, max_size=cluster.gpus)))
    left = np.bincount(cluster.gpu_pool[available], minlength=len(cluster.pools)).tolist()
    requests = []
    for job in range(draw(st.integers(0, 12))):
        pool = draw(st.integers(0, len(cluster.pools) - 1))
        if left[pool]:
            gpus = draw(st.integers(1, left[pool]))
            left[pool] -= gpus
            wish = draw(st.lists(st.integers(0, cluster.gpus - 1), min_size=gpus, max_size=gpus, unique=True))
            requests.append(
                PlacementRequest(job, pool, gpus, 0.0, current=np.array(sorted(wish)) if draw(st.booleans()) else None)
            )
    return PlacementView(cluster, available, idle, draw(st.integers(0, 99)), draw(st.integers(0, 99))), requests


@pytest.mark.parametrize("placer", [Packed(), Spread(), Random()], ids=lambda p: type(p).__name__)
@given(case=floors())
@examples(200)
def test_every_request_gets_its_own_gpus(placer: Placer, case: tuple[PlacementView, list[PlacementRequest]]) -> None:
    floor, requests = case
    free = floor.available.copy()
    placed = placer.place(floor, requests)
    assert len(placed) == len(requests)
    taken: set[int] = set()
    for request, gpus in zip(requests, placed, strict=True):
        assert len(gpus) == request.gpus and gpus.tolist() == sorted(set(gpus.tolist()))
        assert free[gpus].all() and (floor.cluster.gpu_pool[gpus] == request.pool).all()
        assert not taken & set(gpus.tolist())
        taken |= set(gpus.tolist())


@given(case=floors())
@examples(200)
def test_a_single_job_is_packed_on_as_few_nodes_as_possible(case: tuple[PlacementView, list[PlacementRequest]]) -> None:
    floor, requests = case
    if not requests:
        return
    request = PlacementRequest(0, requests[0].pool, requests[0].gpus, 0.0)
    free = np.bincount(floor.cluster.gpu_node[floor.available], minlength=len(floor.cluster.nodes))
    here = np.sort(free[floor.cluster.node_pool == request.pool])[::-1]
    fewest = int(np.searchsorted(np.cumsum(here), request.gpus)) + 1
    for placer in (Packed(), Spread()):
        fresh = PlacementView(floor.cluster, floor.available.copy(), floor.idle, 0, 0)
        (gpus,) = placer.place(fresh, [request])
        assert len(set(floor.cluster.gpu_node[gpus].tolist())) == fewest


def test_random_depends_on_seed_and_decision_alone() -> None:
    cluster = Cluster.parse("2x(8xV100)")

    def draw(seed: int, decision: int) -> list[int]:
        floor = PlacementView(cluster, np.ones(16, bool), np.ones(16, bool), seed, decision)
        return Random().place(floor, [PlacementRequest(0, 0, 5, 0.0)])[0].tolist()

    assert draw(1, 2) == draw(1, 2)
    assert len({tuple(draw(seed, decision)) for seed in range(4) for decision in range(4)}) > 10
