"""The GPUs that packed, spread and random choose, by example."""

import numpy as np

from rota.model.cluster import Cluster
from rota.model.placement_view import PlacementRequest, PlacementView
from rota.placers.packed import Packed
from rota.placers.spread import Spread


def view(text: str, busy: tuple[int, ...] = (), draining: tuple[int, ...] = ()) -> PlacementView:
    cluster = Cluster.parse(text)
    available, idle = np.ones(cluster.gpus, bool), np.ones(cluster.gpus, bool)
    available[list(busy)] = idle[list(busy)] = False
    idle[list(draining)] = False
    return PlacementView(cluster, available, idle, 0, 0)


def asks(*gpus: int) -> list[PlacementRequest]:
    return [PlacementRequest(job, 0, count, 0.0) for job, count in enumerate(gpus)]


def test_packed_takes_the_fullest_node_with_room() -> None:
    (gpus,) = Packed().place(view("3x(4xV100)", busy=(4, 5)), asks(2))
    assert gpus.tolist() == [6, 7]


def test_spread_takes_the_emptiest() -> None:
    (gpus,) = Spread().place(view("3x(4xV100)", busy=(0, 1, 4, 5)), asks(2))
    assert gpus.tolist() == [8, 9]


def test_spread_goes_round() -> None:
    placed = Spread().place(view("3x(4xV100)"), asks(1, 1, 1, 1))
    assert [int(gpus[0]) for gpus in placed] == [0, 4, 8, 1]


def test_large_gangs_choose_first_whatever_their_rank() -> None:
    small, large = Packed().place(view("2x(4xV100)"), asks(1, 4))
    assert small.tolist() == [4] and large.tolist() == [0, 1, 2, 3]


def test_wider_than_a_node_spans_the_fewest() -> None:
    (gpus,) = Packed().place(view("3x(4xV100)", busy=(0, 1, 2)), asks(6))
    assert sorted(set((gpus // 4).tolist())) == [1, 2]


def test_idle_gpus_come_before_draining_ones() -> None:
    (gpus,) = Packed().place(view("1x(4xV100)", draining=(0, 1)), asks(2))
    assert gpus.tolist() == [2, 3]
