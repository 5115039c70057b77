"""Placers that look at slow GPUs: they choose among GPUs, never among jobs."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rota.api import simulate
from rota.model.cluster import Cluster
from rota.model.placement_view import PlacementRequest, PlacementView
from rota.placers.packed import Packed
from rota.placers.pal import Pal
from rota.placers.pm_first import PmFirst
from rota.traces.synthetic import synthetic
from tests.examples import examples

CLUSTER = Cluster.parse("6x(4xV100)")
LEVELS = (0.9, 1.0, 1.1, 2.5)


def floor(scores: Any, free: Any) -> PlacementView:
    return PlacementView(CLUSTER, np.array(free), np.array(free), 0, 1, np.array([scores]))


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[float], list[bool], list[int], float]:
    scores = draw(st.lists(st.sampled_from(LEVELS), min_size=24, max_size=24))
    free = draw(st.lists(st.booleans(), min_size=24, max_size=24))
    sizes, left = [], sum(free)
    while left and draw(st.booleans()):
        sizes.append(draw(st.integers(1, min(left, 10))))
        left -= sizes[-1]
    return scores, free, sizes, draw(st.sampled_from([1.0, 1.2, 1.7, 3.0]))


def place(placer: Any, scores: Any, free: Any, sizes: list[int], penalty: float) -> list[Any]:
    made = floor(scores, free)
    placed: list[Any] = placer.place(
        made, [PlacementRequest(n, 0, size, 0.0, penalties=(1.0, penalty)) for n, size in enumerate(sizes)]
    )
    return placed


@given(asked(), st.sampled_from([Pal(), Pal(wide=False), PmFirst(), Packed(by_size=False)]))
@examples(300)
def test_everybody_gets_as_many_free_gpus_as_it_asked_for_and_nobody_the_same(question: Any, placer: Any) -> None:
    scores, free, sizes, penalty = question
    placed = place(placer, scores, free, sizes, penalty)
    taken = [gpu for gpus in placed for gpu in gpus.tolist()]
    assert [len(gpus) for gpus in placed] == sizes and len(set(taken)) == len(taken)
    assert all(free[gpu] for gpu in taken) and all((np.diff(gpus) > 0).all() for gpus in placed)


@given(asked())
@examples(300)
def test_the_least_slow_are_taken_first(question: Any) -> None:
    scores, free, sizes, penalty = question
    if not sizes:
        return
    first = place(PmFirst(), scores, free, sizes[:1], penalty)[0]
    best = sorted(score for score, is_free in zip(scores, free, strict=True) if is_free)[: sizes[0]]
    assert sorted(scores[gpu] for gpu in first.tolist()) == best


@given(asked())
@examples(300)
def test_with_equal_scores_pal_spans_as_few_nodes_as_packed(question: Any) -> None:
    _, free, sizes, penalty = question
    if not sizes:
        return
    node = CLUSTER.gpu_node
    spans = [len(set(node[place(placer, [1.0] * 24, free, sizes[:1], penalty)[0]].tolist())) for placer in (Pal(), Packed())]
    assert spans[0] == spans[1]


@given(asked(), st.integers(0, 23))
@examples(300)
def test_a_gpu_that_gets_slower_is_not_chosen_more(question: Any, gpu: int) -> None:
    scores, free, sizes, penalty = question
    if not sizes:
        return
    before = place(Pal(), scores, free, sizes[:1], penalty)[0]
    slower = [*scores]
    slower[gpu] = 9.0
    after = place(Pal(), slower, free, sizes[:1], penalty)[0]
    assert gpu in before.tolist() or gpu not in after.tolist() or len(after) == sum(free)


RACKS = Cluster.parse("2x(3x(4xV100))")


def cost(scores: Any, gpus: Any, penalties: tuple[float, ...]) -> float:
    return float(np.array(scores)[gpus].max() * penalties[RACKS.spanned(gpus)])


@given(asked(), st.sampled_from([(1.0, 1.0, 1.0), (1.0, 1.2, 1.3), (1.0, 1.1, 3.0), (1.0, 1.7, 1.7)]))
@examples(300)
def test_across_racks_too_the_cheapest_place_is_taken(question: Any, penalties: tuple[float, ...]) -> None:
    """Against every level of slowness and every node, rack, or both, tried one by one."""
    scores, free, sizes, _ = question
    if not sizes:
        return
    floor = PlacementView(RACKS, np.array(free), np.array(free), 0, 1, np.array([scores]))
    (gpus,) = Pal().place(floor, [PlacementRequest(0, 0, sizes[0], 0.0, penalties=penalties)])
    if sizes[0] == 1:
        penalties = (1.0,)
    places = [RACKS.gpu_node == node for node in range(6)] + [RACKS.domains[1][RACKS.gpu_node] == rack for rack in range(2)]
    places.append(np.ones(24, dtype=bool))
    best = []
    for level in LEVELS:
        for place in places:
            here = (place & np.array(free) & (np.array(scores) <= level)).nonzero()[0]
            if len(here) >= sizes[0]:
                nodes = [here[RACKS.gpu_node[here] == node] for node in range(6)]
                fits = [each for each in nodes if len(each) >= sizes[0]]
                best.append(cost(scores, (fits[0] if fits else here)[: sizes[0]], penalties))
    assert cost(scores, gpus, penalties) <= min(best) + 1e-12


def test_who_runs_does_not_depend_on_the_placer() -> None:
    """Equal GPUs and no penalty: every placer gives the same run."""
    trace = synthetic(jobs=60, seed=3)
    for placer in ("pal", "pm-first", "random", "skew", "spread"):
        ends = [
            simulate(trace, policy="las", placer=each, cluster="6x(4xV100)", preset="ideal").record.finished_s
            for each in ("packed", placer)
        ]
        # To rounding: a job that moves in an instant adds up its time in other parts.
        assert np.abs(ends[0] - ends[1]).max() < 1e-6, placer
