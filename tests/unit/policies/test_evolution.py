"""The search of ONES: what every generation keeps, and that evolving schedules finds better ones than drawing them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.units import Floats, Ints
from rota.policies.evolution import IDLE, Genes, Problem, Score, _Filling, generation, limited, padded

SIZES = (1, 2, 4, 8, 16)
SCORES: tuple[Score, ...] = ("speed-ups", "gpu-seconds")


def made_up(seed: int, jobs: int, gpus: int, pools: int = 1) -> tuple[Problem, Floats]:
    """Jobs in any state: some are new, some run, some were stopped, some have just been changed."""
    draw = np.random.default_rng(seed)
    capacity = np.full(pools, gpus // pools, dtype=np.int64)
    most_gpus = min(int(capacity.max()), max(SIZES))
    sizes = np.array([size for size in SIZES if size <= most_gpus])
    accepted = np.zeros((jobs, pools, most_gpus + 1), dtype=bool)
    accepted[:, :, sizes] = draw.random((jobs, pools, len(sizes))) < 0.8
    accepted[np.arange(jobs), draw.integers(pools, size=jobs), 1] = True
    count = np.arange(most_gpus + 1)
    floor = np.maximum.accumulate(np.where(accepted, count, 0), axis=2)
    scaling = draw.uniform(0.4, 1.0, (jobs, 1, 1))
    rate = draw.uniform(0.5, 5.0, (jobs, pools, 1)) * count**scaling * accepted
    pool = draw.integers(pools, size=jobs)
    wanted = floor[np.arange(jobs), pool, draw.integers(0, most_gpus + 1, size=jobs)] * (draw.random(jobs) < 0.6)
    now = np.zeros(jobs, dtype=np.int64)
    for job in range(jobs):
        if wanted[job] + now[pool == pool[job]].sum() <= capacity[pool[job]]:
            now[job] = wanted[job]
    executed = draw.random(jobs) < 0.8
    limit = np.where(executed, np.maximum(now, draw.choice(sizes, jobs)), np.where(now > 0, now, 0))
    problem = Problem.of(
        capacity,
        np.repeat(np.arange(pools), capacity),
        floor,
        rate,
        limit,
        np.where(limit > 0, 2 * limit, 0),
        executed,
        (now > 0) & (draw.random(jobs) < 0.3),
        Genes(now[None], pool[None]),
        draw.permutation(jobs),
        np.full(jobs, 15.0),
        0.2,
    )
    return problem, draw.lognormal(6.0, 1.5, jobs)


def parents(problem: Problem, count: int, seed: int) -> Ints:
    draw = np.random.default_rng(seed)
    found = np.full((count, len(problem.gpu_pool)), IDLE, dtype=np.int64)
    for row in found:
        some = draw.permutation(problem.jobs)[: len(row)]
        row[: len(some)] = some
    return found


def used(problem: Problem, genes: Genes) -> Ints:
    return np.stack([np.where(genes.pool == pool, genes.gpus, 0).sum(axis=1) for pool in range(len(problem.capacity))], axis=1)


@given(st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([4, 16, 32]), st.integers(1, 3), st.sampled_from(SCORES))
def test_a_generation_keeps_limits_sizes_pins_and_the_cluster(seed: int, jobs: int, gpus: int, pools: int, score: Score) -> None:
    problem, left = made_up(seed, jobs, gpus, pools)
    rng = np.random.default_rng(seed)
    rows, genes, scores = generation(problem, parents(problem, 6, seed), left, rng, 0.5, 0.3, score)
    assert (used(problem, genes) <= problem.capacity).all()
    at = np.arange(jobs)
    assert (problem.floor[at, genes.pool, genes.gpus] == genes.gpus).all(), "only sizes that jobs accept"
    smallest = problem.smallest_of(genes.pool)
    assert (genes.gpus <= np.maximum(np.maximum(problem.limit, problem.most), smallest)).all()
    assert (genes.gpus[:, problem.limit == 0] <= smallest[:, problem.limit == 0]).all(), "new jobs get their smallest size"
    pinned = problem.pinned
    assert (genes.gpus[:, pinned] == problem.now.gpus[:, pinned]).all()
    assert (np.diff(scores) >= 0).all() and scores == pytest.approx(problem.score(genes, left, score))
    counted = problem.counted(rows)
    assert (counted.gpus == genes.gpus).all() and (counted.pool[genes.gpus > 0] == genes.pool[genes.gpus > 0]).all()


@given(st.integers(0, 10**6), st.integers(1, 20), st.sampled_from(SCORES))
def test_gpus_are_idle_only_if_no_job_can_take_them(seed: int, jobs: int, score: Score) -> None:
    problem, left = made_up(seed, jobs, 16)
    rng = np.random.default_rng(seed)
    genes = padded(problem, limited(problem, problem.counted(parents(problem, 4, seed))), left, rng, score)
    free = 16 - used(problem, genes)[:, 0]
    following = problem.next[np.arange(jobs), genes.pool, genes.gpus]
    more, new = following - genes.gpus, problem.limit == 0
    most = np.where(new, problem.smallest_of(genes.pool), np.maximum(problem.limit, problem.most))
    grows = (more > 0) & (following <= most) & (more <= free[:, None]) & ~(new & (genes.gpus > 0))
    assert not grows.any()


def test_jobs_lie_in_blocks() -> None:
    problem, left = made_up(3, 12, 32)
    rows, genes, _ = generation(problem, parents(problem, 8, 0), left, np.random.default_rng(0), 0.5, 0.3)
    for row, gpus in zip(rows, genes.gpus, strict=True):
        for job in np.flatnonzero(gpus):
            where = np.flatnonzero(row == job)
            assert len(where) == gpus[job] and where[-1] - where[0] == gpus[job] - 1


@pytest.mark.parametrize("score", SCORES)
def test_of_two_jobs_alike_the_one_with_less_left_runs(score: Score) -> None:
    """The fourth oracle: one GPU, one job at 90% and one at 10%."""
    floor = np.array([[[0, 1]], [[0, 1]]])
    rate = floor.astype(np.float64)
    ones = np.ones(2, dtype=np.int64)
    off = np.zeros(2, dtype=bool)
    problem = Problem.of(
        np.array([1]),
        np.array([0]),
        floor,
        rate,
        ones,
        ones,
        ~off,
        off,
        Genes(np.zeros((1, 2), dtype=np.int64), np.zeros((1, 2), dtype=np.int64)),
        np.arange(2),
        np.zeros(2),
        0.2,
    )
    left = np.array([1000.0, 10.0])
    rows = np.full((4, 1), 0, dtype=np.int64)  # the longer one, everywhere
    rng = np.random.default_rng(0)
    for _ in range(10):
        rows, genes, _ = generation(problem, rows, left, rng, 0.5, 0.5, score)
    assert genes.gpus[0].tolist() == [0, 1]


def drawn(problem: Problem, left: Floats, rng: np.random.Generator, count: int) -> Genes:
    """Random schedules that are as full: jobs in random order, each up to its limit."""
    none = np.zeros((count, problem.jobs), dtype=np.int64)
    nothing = limited(problem, Genes(none, none))
    filling = _Filling(problem, nothing, left, rng)
    new = problem.limit == 0
    filling.give(problem.smallest_of(filling.pool), new, np.arange(problem.jobs, dtype=np.float64))
    for most in (problem.limit, problem.most):
        key = rng.random((count, problem.jobs))
        filling.give(np.broadcast_to(most, filling.gpus.shape), ~new, key)
        filling.fill(most, key)
    return filling.genes


@pytest.mark.slow
def test_evolution_beats_drawing_and_the_greedy_order_by_the_papers_score() -> None:
    """On 20 states, with as many schedules looked at. Greedy: those with least left first, which evolution starts from too."""
    generations, population = 40, 16
    against: dict[str, list[float]] = {"random": [], "greedy": []}
    for seed in range(20):
        problem, left = made_up(1000 + seed, 30 + seed, 64)
        rng = np.random.default_rng(seed)
        rows = parents(problem, population, seed)
        for _ in range(generations):
            rows, _, scores = generation(problem, rows, left, rng, 0.5, 0.3, "gpu-seconds")
        draws = drawn(problem, left, rng, (3 * population + 1) * generations)
        none = np.zeros((1, problem.jobs), dtype=np.int64)
        greedy = padded(problem, limited(problem, Genes(none, none)), left, rng, "gpu-seconds")
        against["random"].append(scores[0] / problem.gpu_seconds(draws, left).min())
        against["greedy"].append(scores[0] / problem.gpu_seconds(greedy, left)[0])
    assert max(against["greedy"]) <= 1 + 1e-9
    wins = {name: sum(ratio < 1 - 1e-9 for ratio in ratios) for name, ratios in against.items()}
    assert wins["random"] >= 15 and wins["greedy"] >= 17, wins
    assert np.mean(against["random"]) < 0.95 and np.mean(against["greedy"]) < 0.8, against
