"""The fewest moves that free nodes for a gang."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.tactics.free_nodes import DefragmentPlan, Movable, fit, free_nodes
from tests.examples import examples


def clear(free: Sequence[int], jobs: Sequence[Movable], gpus: int, nodes: int = 1) -> DefragmentPlan | None:
    return free_nodes(np.array(free, dtype=np.int64), jobs, gpus, nodes)


def test_the_node_that_needs_the_fewest_moves_is_freed() -> None:
    jobs = [Movable(0, 0, 1, 10.0), Movable(1, 0, 1, 10.0), Movable(2, 1, 1, 10.0), Movable(3, 2, 2, 10.0)]
    found = clear([2, 3, 2], jobs, 4)
    assert found == DefragmentPlan((1,), ((jobs[2], 0),))


def test_of_equal_counts_the_cheapest_is_moved() -> None:
    jobs = [Movable(0, 0, 1, 30.0), Movable(1, 1, 1, 10.0), Movable(2, 2, 1, 20.0)]
    found = clear([3, 3, 3], jobs, 4)
    assert found is not None and [job.job for job, _ in found.moves] == [1]
    assert found.gpu_seconds == 10.0


def test_only_as_many_leave_as_must() -> None:
    jobs = [Movable(0, 0, 4, 10.0), Movable(1, 0, 1, 10.0), Movable(2, 0, 1, 10.0)]
    found = clear([2, 4, 0], jobs, 4)
    assert found is not None and found.nodes == (1,) and not found.moves
    found = clear([2, 3, 1], jobs, 4)
    assert found is not None and found.nodes == (0,) and [job.job for job, _ in found.moves] == [1, 2]


def test_who_leaves_must_have_somewhere_to_go() -> None:
    """Four are free on two nodes, but not for a job of four, and not for one of three."""
    assert clear([4, 2, 2], [Movable(0, 0, 4, 10.0)], 8) is None
    assert clear([5, 2, 2], [Movable(0, 0, 3, 10.0)], 8) is None
    assert clear([6, 2, 2], [Movable(0, 0, 2, 10.0)], 8) is not None


def test_the_tightest_fit_is_not_always_the_way() -> None:
    assert fit([3, 2, 2, 2], Counter({4: 1, 5: 1})) is not None
    assert fit([3, 3, 2], Counter({4: 2})) is None


def test_a_wide_gang_gets_several_nodes() -> None:
    jobs = [Movable(number, number, 1, 10.0) for number in range(4)]
    found = clear([3, 3, 3, 3, 2], jobs, 8, 2)
    assert found is not None and len(found.moves) == 2 and len(found.nodes) == 2
    assert {node for _, node in found.moves}.isdisjoint(found.nodes)


def test_where_too_few_are_free_no_job_moves() -> None:
    assert clear([1, 1], [Movable(0, 0, 1, 1.0), Movable(1, 1, 1, 1.0)], 4) is None


def by_brute_force(free: Sequence[int], jobs: Sequence[Movable], gpus: int, nodes: int) -> tuple[int, float] | None:
    """Moves and price of the best of all ways there are."""
    best: tuple[int, float] | None = None
    for chosen in combinations(range(len(free)), nodes):
        here = [job for job in jobs if job.node in chosen]
        others = [node for node in range(len(free)) if node not in chosen]
        for count in range(len(here) + 1):
            for leave in combinations(here, count):
                if sum(free[node] for node in chosen) + sum(job.gpus for job in leave) < gpus:
                    continue
                key = (count, sum(job.gpus * job.seconds for job in leave))
                if (best is None or key < best) and any(fits(free, leave, where) for where in product(others, repeat=count)):
                    best = key
    return best


def fits(free: Sequence[int], leave: Sequence[Movable], where: Sequence[int]) -> bool:
    need: Counter[int] = Counter()
    for job, node in zip(leave, where, strict=True):
        need[node] += job.gpus
    return all(need[node] <= free[node] for node in need)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[int], list[Movable]]:
    """Up to five nodes of four GPUs, some held by jobs that may be moved, some by others."""
    free, jobs = [], []
    for node in range(draw(st.integers(2, 5))):
        left = 4
        for size in draw(st.lists(st.integers(1, 3), max_size=3)):
            if size <= left:
                left -= size
                if draw(st.booleans()) or draw(st.booleans()):
                    jobs.append(Movable(len(jobs), node, size, float(draw(st.sampled_from((5, 10, 30))))))
        free.append(left)
    return free, jobs


@examples(300)
@given(clusters(), st.integers(2, 10))
@pytest.mark.slow
def test_no_way_needs_fewer_moves_or_costs_less(cluster: tuple[list[int], list[Movable]], gpus: int) -> None:
    free, jobs = cluster
    nodes = -(-gpus // 4)
    if nodes > len(free):
        return
    found = clear(free, jobs, gpus, nodes)
    expected = by_brute_force(free, jobs, gpus, nodes) if sum(free) >= gpus else None
    if found is None:
        assert expected is None
        return
    assert expected is not None
    assert (len(found.moves), found.gpu_seconds) == pytest.approx(expected)
    check(found, free, gpus)


def check(found: DefragmentPlan, free: Sequence[int], gpus: int) -> None:
    left = dict(enumerate(free))
    for job, node in found.moves:
        assert job.node in found.nodes and node not in found.nodes
        left[node] -= job.gpus
        left[job.node] += job.gpus
    assert min(left.values()) >= 0
    assert sum(left[node] for node in found.nodes) >= gpus


@pytest.mark.parametrize(("gpus", "nodes"), [(8, 1), (32, 4)])
def test_a_large_cluster_is_searched_in_bounds(gpus: int, nodes: int) -> None:
    """A thousand nodes with one to three small jobs each: the search ends with as few moves as there can be."""
    rng = np.random.default_rng(0)
    free, jobs = np.full(1000, 8), []
    for node in range(1000):
        for _ in range(int(rng.integers(1, 4))):
            jobs.append(Movable(len(jobs), node, 1, float(rng.integers(5, 60))))
            free[node] -= 1
    found = clear(free.tolist(), jobs, gpus, nodes)
    assert found is not None and len(found.moves) == nodes
    check(found, free.tolist(), gpus)
