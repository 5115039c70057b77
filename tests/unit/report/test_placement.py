"""Where jobs ran, against small cases by hand and larger ones by slow and plain code."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import rota
from rota.beliefs.variability import Variability
from rota.model.cluster import Cluster, Node
from rota.model.job import Arrival, JobSpec
from rota.report.placement import class_jobs, moves, outlier_limit, per_gpu, scattered, spread
from rota.report.result import Result
from rota.report.timeline import busy, edges
from tests.unit.report.made import Hold, large_result, result_of

PAIRS = Cluster.parse("3x(2xV100) + 1x(4xK80)")
"""GPUs 0 to 5 on three nodes, 6 to 9 on one."""


def run(*holds: Hold, jobs: int = 0, cluster: Cluster = PAIRS) -> Result:
    """Jobs that are all submitted at 0 and hold what is said."""
    jobs = jobs or 1 + max((hold[0] for hold in holds), default=0)
    return result_of([Arrival(0.0, JobSpec(steps=1)) for _ in range(jobs)], cluster, holds)


def test_how_busy_each_gpu_was_and_whom_it_served() -> None:
    # Job 1 has GPU 1 twice and counts once.
    found = per_gpu(run((0, [0, 1], 0, 5), (1, [1], 5, 6), (1, [1, 2], 8, 10), (2, [1], 7, 7)))
    assert found.busy.tolist() == pytest.approx([0.5, 0.8, 0.2, *[0] * 7])
    assert found.jobs.tolist() == [1, 3, 1, *[0] * 7]


def test_a_gpu_that_two_share_is_busy_once() -> None:
    shared = run((0, [0, 2], 0, 10), (1, [0, 2], 4, 20), jobs=2)
    shared.record.gpu_intervals.share(0, 1, np.array([0, 2]), 4.0, 10.0)
    found = per_gpu(shared)
    assert found.busy.tolist() == [1, 0, 1, *[0] * 7]
    assert found.jobs.tolist() == [2, 0, 2, *[0] * 7]
    assert scattered(shared, np.array([0.0, 4.0, 10.0, 20.0])).tolist() == [2, 2, 2]
    assert spread(shared).gpu_seconds == spread(shared).beyond_gpu_seconds == 40


def test_sharing_is_taken_off_the_hold_in_which_it_was() -> None:
    """Job 1 is on one node first, for no time at all, then on two; only there it has company."""
    shared = run((1, [0, 1], 0, 4), (1, [0, 1], 4, 4), (1, [1, 2], 4, 8), (0, [1, 2], 6, 8))
    shared.record.gpu_intervals.share(0, 1, np.array([1, 2]), 6.0, 8.0)
    found = spread(shared)
    assert (found.gpu_seconds, found.one_node_gpu_seconds, found.beyond_gpu_seconds) == (16, 8, 8)


def test_jobs_of_several_gpus_by_nodes() -> None:
    found = spread(
        run(
            (0, [0], 0, 100),  # a single GPU is never spread
            (1, [2, 3], 0, 10),  # one node
            (2, [6, 7, 8, 9], 0, 10),  # one node of four
            (3, [2, 3, 4, 5], 10, 20),  # two nodes, which is as few as there can be
            (4, [0, 2], 100, 110),  # two nodes, where one would do
            (4, [0, 1], 110, 140),  # and later on that one
            (5, [1, 2, 4], 200, 210),  # three, where two would do
        )
    )
    assert (found.jobs, found.one_node, found.beyond) == (5, 2, 2)
    assert found.gpu_seconds == 20 + 40 + 40 + 20 + 60 + 30
    assert found.one_node_gpu_seconds == 20 + 40 + 60
    assert found.beyond_gpu_seconds == 20 + 30
    assert found.nodes_beyond == pytest.approx((20 + 30) / 210)
    assert set(found.to_dict()) == set(type(found).__dataclass_fields__)


def test_the_fewest_nodes_are_those_of_the_pool() -> None:
    """Three K80s fit on one node of four, and are on two; V100s of two each need two."""
    cluster = Cluster.of([Node("a", "V100", 2), Node("b", "V100", 2), Node("c", "K80", 4), Node("d", "K80", 4)])
    found = spread(run((0, [0, 1, 2], 0, 1), (1, [7, 8, 9], 0, 1), cluster=cluster))
    assert (found.jobs, found.one_node, found.beyond) == (2, 0, 1)


def test_gpus_of_scattered_jobs_over_time() -> None:
    found = scattered(run((0, [0, 2], 0, 10), (0, [0, 1], 10, 20), (1, [3, 4, 5], 5, 20)), np.array([0.0, 4.0, 8.0, 12.0, 20.0]))
    assert found.tolist() == [2, 2, 1, 0]


def test_moves_are_to_other_gpus() -> None:
    found = moves(
        run(
            (0, [0, 1], 0, 1),
            (1, [5], 0, 2),
            (0, [1, 0], 2, 3),  # the same ones
            (0, [1, 2], 4, 5),  # one other
            (1, [5], 6, 7),
            (0, [1], 8, 9),  # fewer
            (0, [1], 9, 9.5),
            (1, [4], 9, 10),
            (2, [0], 9, 10),  # its first is no move
        )
    )
    assert found.tolist() == [4, 8, 9]


def test_a_run_in_which_nothing_ran() -> None:
    nothing = run()
    assert per_gpu(nothing).busy.tolist() == [0.0] * 10 and per_gpu(nothing).jobs.tolist() == [0] * 10
    assert spread(nothing).to_dict() == {**dict.fromkeys(spread(nothing).to_dict(), 0), "nodes_beyond": None}
    assert scattered(nothing, np.array([0.0, 1.0])).tolist() == [0]
    assert moves(nothing).tolist() == []
    assert per_gpu(run((0, [0], 0, 0))).busy.tolist() == [0.0] * 10


def test_jobs_of_each_class_and_outliers_of_it() -> None:
    assert class_jobs(run()) == []
    scores = np.array([[1.0] * 9 + [3.0], [1.0] * 10])
    known = Variability(("A", "B"), scores, np.zeros((2, 10)), {"resnet50": "A", "bert": "B"})
    arrivals = [Arrival(0.0, JobSpec(steps=1, profile=name)) for name in ("bert", "BERT (batch size 8)", "other")]
    assert class_jobs(replace(result_of(arrivals, PAIRS, []), variability=known)) == [1, 2]
    assert outlier_limit(scores[0]) == pytest.approx(1.2 + 3 * scores[0].std(ddof=1))
    assert outlier_limit(scores[1]) == 1
    assert outlier_limit(scores[1][:1]) is None


def at_random(seed: int) -> Result:
    """Jobs one after the other, each a few times on any GPUs of a pool."""
    draw = np.random.default_rng(seed)
    holds: list[Hold] = []
    now = 0.0
    for _ in range(60):
        pool = range(6) if draw.random() < 0.6 else range(6, 10)
        gpus = draw.choice(pool, size=int(draw.integers(1, len(pool) + 1)), replace=False).tolist()
        length = float(draw.integers(0, 5))
        holds.append((int(draw.integers(12)), gpus, now, now + length))
        now += length + float(draw.integers(0, 2))
    return run(*holds, jobs=12)


@pytest.mark.parametrize("seed", range(8))
def test_all_of_it_agrees_with_a_plain_count(seed: int) -> None:
    found = at_random(seed)
    holds, cluster = found.record.gpu_intervals, found.cluster
    rows = [
        (int(job), holds.gpus[a:b].tolist(), start, end)
        for job, a, b, start, end in zip(holds.job, holds.first, holds.first[1:], holds.start_s, holds.end_s, strict=False)
    ]
    last: dict[int, set[int]] = {}
    moved, excess, seconds = [], Counter[int](), Counter[int]()
    for job, gpus, start, end in rows:
        if job in last and last[job] != set(gpus):
            moved.append(start)
        last[job] = set(gpus)
        for gpu in gpus:
            seconds[gpu] += end - start
        fewest = cluster.fewest_nodes(int(cluster.gpu_pool[gpus[0]]), len(gpus))
        if len(gpus) > 1 and len({int(cluster.gpu_node[gpu]) for gpu in gpus}) > fewest:
            excess[job] += len(gpus) * (end - start)
    assert moves(found).tolist() == sorted(moved)
    assert spread(found).beyond_gpu_seconds == sum(excess.values()) and spread(found).beyond == len(excess)
    start, end = edges([found], 1)
    assert per_gpu(found).busy * (end - start) == pytest.approx([seconds[gpu] for gpu in range(10)])
    served = [len({job for job, gpus, _, _ in rows if gpu in gpus}) for gpu in range(10)]
    assert per_gpu(found).jobs.tolist() == served


@pytest.mark.parametrize("seed", range(4))
def test_what_is_drawn_over_time_adds_up_to_the_totals(seed: int) -> None:
    found = at_random(seed)
    at = edges([found], 33)
    counted = spread(found)
    assert (scattered(found, at) * np.diff(at)).sum() == pytest.approx(counted.beyond_gpu_seconds)
    assert (scattered(found, at) <= busy(found, at).sum(axis=0) + 1e-9).all()
    assert counted.one_node_gpu_seconds + counted.beyond_gpu_seconds <= counted.gpu_seconds
    assert counted.one_node + counted.beyond <= counted.jobs
    assert per_gpu(found).busy.sum() * (at[-1] - at[0]) == pytest.approx((busy(found, at) * np.diff(at)).sum())


def test_moves_are_the_migrations_of_a_simulation() -> None:
    found = rota.simulate("synthetic:jobs=60,seed=1,load=1.5", policy="tiresias", cluster="4x(4xV100)", placer="random", seed=3)
    assert len(moves(found)) == found.record.migrations.sum() > 5


def test_jobs_in_place_neither_move_nor_scatter() -> None:
    found = large_result(2_000, 240, policy="p", seed=1, pieces=3)
    assert len(moves(found)) == 0
    counted = spread(found)
    assert counted.jobs == counted.one_node == int((found.record.gpus > 1).sum())
    assert counted.nodes_beyond == counted.beyond_gpu_seconds == 0
    assert counted.gpu_seconds == pytest.approx(found.record.occupied_gpu_seconds[found.record.gpus > 1].sum())
