"""The placer that keeps together only the gangs that need it."""

import numpy as np
import pytest

from rota.errors import OptionError
from rota.model.placement_view import PlacementRequest
from rota.placers.skew import Skew
from tests.unit.placers.test_placers import view


def ask(job: int, gpus: int, skew: float | None) -> PlacementRequest:
    return PlacementRequest(job, 0, gpus, 0.0, skew=skew)


def test_the_skewed_get_a_node_and_the_others_what_is_left() -> None:
    placed = Skew().place(view("3x(4xV100)", busy=(0, 1, 2, 4, 5)), [ask(0, 3, 0.1), ask(1, 4, 0.7)])
    assert [gpus.tolist() for gpus in placed] == [[3, 6, 7], [8, 9, 10, 11]]


def test_nobody_knows_it_so_it_is_kept_together() -> None:
    (gpus,) = Skew().place(view("2x(4xV100)", busy=(0,)), [ask(0, 4, None)])
    assert gpus.tolist() == [4, 5, 6, 7]


def test_idle_gpus_come_before_those_of_victims() -> None:
    (gpus,) = Skew().place(view("2x(4xV100)", busy=(0, 1), draining=(2, 3)), [ask(0, 2, 0.1)])
    assert gpus.tolist() == [4, 5]
    (gpus,) = Skew().place(view("2x(4xV100)", busy=(0, 1), draining=(2, 3, 5, 6, 7)), [ask(0, 3, 0.1)])
    assert gpus.tolist() == [2, 3, 4]


@pytest.mark.parametrize(("limit", "together"), [(0.0, True), (1.0, False)])
def test_the_ends_of_the_limit(limit: float, together: bool) -> None:
    for skew in (0.01, 0.4, 0.99):
        assert Skew(limit=limit).keeps_together(ask(0, 2, skew)) == together


def test_a_limit_is_a_part() -> None:
    with pytest.raises(OptionError, match="from 0 to 1"):
        Skew(limit=1.5)


def test_one_that_pays_for_moving_stays_where_it_is() -> None:
    request = PlacementRequest(0, 0, 2, 30.0, current=np.array([1, 2]), skew=0.1)
    (gpus,) = Skew().place(view("2x(4xV100)"), [request])
    assert gpus.tolist() == [1, 2]
