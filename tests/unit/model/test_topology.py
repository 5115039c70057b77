"""Levels of locality: nodes, racks, and rows of racks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import ClusterError
from rota.model.cluster import Cluster, Node


def test_brackets_around_nodes_are_racks_and_around_those_rows() -> None:
    cluster = Cluster.parse("2x(3x(2x(4xV100))) + 1x(2x(4xV100)) + 4xK80")
    assert [node.rack for node in cluster.nodes] == [
        *("r1/r1", "r1/r1", "r1/r2", "r1/r2", "r1/r3", "r1/r3"),
        *("r2/r1", "r2/r1", "r2/r2", "r2/r2", "r2/r3", "r2/r3"),
        *("r7", "r7", ""),
    ]
    assert len(cluster.domains) == 3 and cluster.gpus == 60
    assert [cluster.levels_of(nodes) for nodes in ((0,), (0, 1), (0, 2), (0, 6), (0, 12), (12, 13))] == [0, 1, 2, 3, 3, 1]


def test_without_racks_nodes_are_all_there_is() -> None:
    cluster = Cluster.parse("3x(4xV100)")
    assert len(cluster.domains) == 1
    assert cluster.spanned(np.array([0, 3])) == 0 and cluster.spanned(np.array([3, 4])) == 1
    assert [cluster.fewest_levels(0, gpus) for gpus in (1, 4, 5, 12)] == [0, 0, 1, 1]


def test_a_gang_spans_as_few_levels_as_its_size_lets_it() -> None:
    cluster = Cluster.parse("2x(2x(4xV100)) + 1x(3x(4xK80))")
    assert [cluster.fewest_levels(0, gpus) for gpus in (4, 8, 9)] == [0, 1, 2]
    assert [cluster.fewest_levels(1, gpus) for gpus in (4, 12)] == [0, 1]


def test_a_node_may_stand_where_others_have_racks() -> None:
    cluster = Cluster.of([Node("a", "V100", 1, "hall"), Node("b", "V100", 1, "hall/r1"), Node("c", "V100", 1, "")])
    assert [row.tolist() for row in cluster.domains] == [[0, 1, 2], [0, 1, 2], [0, 0, 1]]
    assert cluster.levels_of((0, 1)) == 2 and cluster.levels_of((0, 2)) == 3


@pytest.mark.parametrize("text", ["2x(2x(4xV100)", "2x()", "2x(0x(4xV100))", "x(4xV100)", "(" * 12 + "4xV100" + ")" * 12])
def test_brackets_that_mean_nothing(text: str) -> None:
    with pytest.raises(ClusterError):
        Cluster.parse(text)


def test_more_gpus_than_anybody_has_are_refused_before_they_are_made() -> None:
    with pytest.raises(ClusterError, match="more than"):
        Cluster.parse("1000000x(1000000x(8xV100))")


@given(st.lists(st.sampled_from(["", "a", "a/b", "a/c", "d/b", "d/b/e"]), min_size=1, max_size=12), st.data())
def test_more_nodes_never_span_fewer_levels(racks: list[str], data: st.DataObject) -> None:
    cluster = Cluster.of([Node(f"n{i}", "V100", 2, rack) for i, rack in enumerate(racks)])
    some = data.draw(st.sets(st.integers(0, len(racks) - 1), min_size=1))
    more = some | data.draw(st.sets(st.integers(0, len(racks) - 1)))
    assert cluster.levels_of(sorted(some)) <= cluster.levels_of(sorted(more)) <= len(cluster.domains)
    gpus = np.array([2 * node for node in sorted(more)])
    assert cluster.fewest_levels(0, len(gpus)) <= cluster.spanned(gpus) == cluster.levels_of(sorted(more))
