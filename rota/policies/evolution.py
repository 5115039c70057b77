"""The evolutionary search of ONES (Bian et al., SC'21): schedules that are refreshed, crossed, mutated, padded and selected.
Used by `ones` alone.

A schedule says how many GPUs of one pool each job has. As genes it is a row with a job for each GPU, jobs in contiguous blocks.
All candidates of a generation are worked on at once, as arrays of shape (candidates, jobs).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rota.model.units import Bools, Floats, Ints

IDLE = -1
"""In place of a job: the GPU has none."""

Score = Literal["speed-ups", "gpu-seconds"]
"""What makes a schedule the better one: the sum of the speed-ups of its jobs, those with least left counting most; or, as in the
paper, the GPU-seconds that its jobs have left."""

DISORDER = 6.0
"""How much the order in which children and mutants are filled differs from that of what jobs have left."""
CHANGED_SECONDS = 60.0
"""A change has to pay for itself in so long."""


@dataclass(frozen=True, slots=True, eq=False)
class Genes:
    """Candidates: how many GPUs each job has, and of which pool. Shape (candidates, jobs)."""

    gpus: Ints
    pool: Ints

    def __len__(self) -> int:
        return len(self.gpus)

    def rows(self, which: Ints) -> "Genes":
        return Genes(self.gpus[which], self.pool[which])

    def joined(self, *others: "Genes") -> "Genes":
        return Genes(
            np.concatenate([self.gpus, *(each.gpus for each in others)]),
            np.concatenate([self.pool, *(each.pool for each in others)]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What a search knows at one moment. Arrays over jobs, in the order in which they came."""

    capacity: Ints
    """GPUs of each pool."""
    gpu_pool: Ints
    """The pool of each GPU that can be had."""
    floor: Ints
    """The largest size that a job accepts with so many GPUs, 0: none: shape (jobs, pools, most GPUs + 1)."""
    rate: Floats
    """Steps per second by size, in the same shape."""
    limit: Ints
    """GPUs that a job may hold now; 0: it is new, and gets its smallest size."""
    most: Ints
    """GPUs that it may hold where some are left over."""
    executed: Bools
    """It has trained long enough to be predicted, and to be stopped."""
    pinned: Bools
    """It was started or resized a moment ago, and stays as it is."""
    now: Genes
    """What jobs have now: one candidate."""
    order: Ints
    """Jobs in the order in which their blocks lie."""
    move_seconds: Floats
    """What another size costs it."""
    speed: Floats
    """Steps per second of its smallest size, for each GPU: shape (jobs, pools)."""
    smallest: Ints
    """Its smallest size, in the same shape; 0: it does not run there."""
    next: Ints
    """The size after each, the same where there is none: shape (jobs, pools, most GPUs + 1)."""
    favour: float
    """How much jobs with little left are favoured; 0: not at all."""

    @classmethod
    def of(
        cls,
        capacity: Ints,
        gpu_pool: Ints,
        floor: Ints,
        rate: Floats,
        limit: Ints,
        most: Ints,
        executed: Bools,
        pinned: Bools,
        now: Genes,
        order: Ints,
        move_seconds: Floats,
        favour: float,
    ) -> "Problem":
        """With what follows from the sizes that jobs accept. Those that are pinned may hold what they have, and no more."""
        limit, most = (np.where(pinned, now.gpus[0], each) for each in (limit, most))
        width = floor.shape[2]
        accepted = floor == np.arange(width)
        accepted[:, :, 0] = False
        smallest = np.where(accepted.any(axis=2), accepted.argmax(axis=2), 0)
        jobs, pools = np.indices(smallest.shape)
        speed = rate[jobs, pools, smallest] / np.maximum(smallest, 1)
        upper = np.where(accepted, np.arange(width), width)
        after = np.minimum.accumulate(upper[:, :, ::-1], axis=2)[:, :, ::-1]
        following = np.concatenate((after[:, :, 1:], np.full((*after.shape[:2], 1), width)), axis=2)
        following = np.where(following < width, following, np.arange(width))
        given = (capacity, gpu_pool, floor, rate, limit, most, executed, pinned, now, order, move_seconds)
        return cls(*given, speed, smallest, following, favour)

    @property
    def alone(self) -> Floats:
        """Steps per second with one GPU, or for each of as few as it accepts, where it is fastest."""
        fastest: Floats = self.speed.max(axis=1)
        return fastest

    def smallest_of(self, pool: Ints) -> Ints:
        return self.smallest[np.arange(self.jobs), pool]

    def at_least(self, limit: Ints, pool: Ints) -> Ints:
        """A limit that is not below the smallest size of a job in its pool; 0 stays 0."""
        return np.where(limit > 0, np.maximum(limit, self.smallest_of(pool)), 0)

    @property
    def jobs(self) -> int:
        return len(self.limit)

    def floored(self, genes: Genes) -> Genes:
        """Sizes that jobs accept."""
        jobs = np.arange(self.jobs)
        return Genes(self.floor[jobs, genes.pool, np.minimum(genes.gpus, self.floor.shape[2] - 1)], genes.pool)

    def laid_out(self, genes: Genes) -> Ints:
        """As rows of jobs for each GPU: a block for each job, within its pool."""
        found = np.full((len(genes), len(self.gpu_pool)), IDLE, dtype=np.int64)
        for pool in range(len(self.capacity)):
            mine = (self.gpu_pool == pool).nonzero()[0]
            gpus = np.where(genes.pool == pool, genes.gpus, 0)[:, self.order]
            for row, counts in enumerate(gpus):
                blocks = np.repeat(self.order, counts)[: len(mine)]  # two that share GPUs have each of them once
                found[row, mine[: len(blocks)]] = blocks
        return found

    def counted(self, rows: Ints) -> Genes:
        """The other way round. A job with GPUs of several pools keeps those of the one with most."""
        jobs, pools = self.jobs, len(self.capacity)
        candidate, gpu = (rows != IDLE).nonzero()
        key = (candidate * pools + self.gpu_pool[gpu]) * jobs + rows[candidate, gpu]
        counts = np.bincount(key, minlength=len(rows) * pools * jobs).reshape(len(rows), pools, jobs)
        return Genes(counts.max(axis=1), counts.argmax(axis=1))

    def score(self, genes: Genes, left: Floats, which: Score) -> Floats:
        """What a schedule is worth: the smaller the better."""
        return -self.speed_ups(genes, left) if which == "speed-ups" else self.gpu_seconds(genes, left)

    def worth(self, left: Floats) -> Floats:
        """What a job's speed-up counts: the more, the more jobs have longer left than it (heSRPT, Berg et al. 2020)."""
        seconds = self.seconds(left)
        longer = np.empty(self.jobs)
        longer[np.argsort(-seconds, kind="stable")] = np.arange(1, self.jobs + 1)
        counts: Floats = longer**self.favour / np.where(self.alone > 0, self.alone, 1.0)
        return counts

    def seconds(self, left: Floats) -> Floats:
        """How long each job would train still with one GPU."""
        return left / np.where(self.alone > 0, self.alone, 1.0)

    def speed_ups(self, genes: Genes, left: Floats) -> Floats:
        """The sum over jobs of how many times faster each is than with one GPU, times what that counts. A job that is changed
        loses what that costs of the time until it may be changed again."""
        rate = self.rate[np.arange(self.jobs), genes.pool, genes.gpus]
        same = (genes.gpus == self.now.gpus) & (genes.pool == self.now.pool)
        kept = np.where(same, 1.0, CHANGED_SECONDS / (CHANGED_SECONDS + self.move_seconds))
        found: Floats = np.where(genes.gpus > 0, self.worth(left) * rate * kept, 0.0).sum(axis=1)
        return found

    def gpu_seconds(self, genes: Genes, left: Floats) -> Floats:
        """GPU-seconds that the jobs of a schedule are believed to need still: the smaller the better. Jobs that cannot be
        predicted yet count for nothing, so that they are never left out (SRUF)."""
        jobs = np.arange(self.jobs)
        rate = self.rate[jobs, genes.pool, genes.gpus]
        counts = self.executed & (genes.gpus > 0)
        cost = genes.gpus * left / np.where(rate > 0, rate, 1.0)
        found: Floats = np.where(counts, cost, 0.0).sum(axis=1)
        return found


def generation(
    problem: Problem,
    parents: Ints,
    left: Floats,
    rng: np.random.Generator,
    exchange: float,
    evict: float,
    score: Score = "speed-ups",
) -> tuple[Ints, Genes, Floats]:
    """One generation from `parents` (rows of jobs for each GPU): as many rows as before, what they say, and their scores; the
    best first."""
    count = len(parents)
    refreshed = limited(problem, problem.counted(parents))
    children = limited(problem, problem.counted(_crossed(parents, rng, exchange)))
    goes = problem.executed & ~problem.pinned & (rng.random((count, problem.jobs)) < evict)
    mutants = Genes(np.where(goes, 0, refreshed.gpus), refreshed.pool)
    anew = limited(problem, Genes(np.zeros_like(problem.now.gpus), problem.now.pool))  # none but those that are pinned
    whole = refreshed.joined(children, mutants, anew)
    disorder = DISORDER * rng.random((len(whole), 1)) * rng.standard_normal((len(whole), problem.jobs))
    disorder[[*range(count), -1]] = 0.0  # parents, and what begins anew
    order = problem.seconds(left) * np.exp(disorder)
    candidates = padded(problem, whole, left, rng, score, order)
    scores = problem.score(candidates, left, score)
    best = np.argsort(scores, kind="stable")[:count]
    chosen = candidates.rows(best)
    return problem.laid_out(chosen), chosen, scores[best]


def limited(problem: Problem, genes: Genes) -> Genes:
    """No job above its limit, each at a size that it accepts, and those that are pinned as they are."""
    found = problem.floored(Genes(np.minimum(genes.gpus, problem.at_least(problem.limit, genes.pool)), genes.pool))
    gpus = np.where(problem.pinned, problem.now.gpus, found.gpus)
    pool = np.where(problem.pinned, problem.now.pool, found.pool)
    for number, capacity in enumerate(problem.capacity.tolist()):
        here = (pool == number) & ~problem.pinned
        free = capacity - np.where((pool == number) & problem.pinned, gpus, 0).sum(axis=1)
        over = np.cumsum(np.where(here, gpus, 0), axis=1) > free[:, None]
        gpus[here & over] = 0  # those who are pinned come first
    return Genes(gpus, pool)


def _crossed(parents: Ints, rng: np.random.Generator, exchange: float) -> Ints:
    """Two children of each of so many random pairs: each GPU goes as in one parent or as in the other."""
    count = len(parents)
    if count < 2:
        return parents.copy()
    pairs = (count + 1) // 2
    first = rng.integers(count, size=pairs)
    second = (first + 1 + rng.integers(count - 1, size=pairs)) % count
    swap = rng.random((pairs, parents.shape[1])) < exchange
    one = np.where(swap, parents[second], parents[first])
    other = np.where(swap, parents[first], parents[second])
    return np.concatenate((one, other))[:count]


def padded(
    problem: Problem, genes: Genes, left: Floats, rng: np.random.Generator, score: Score, order: Floats | None = None
) -> Genes:
    """As full as can be. New jobs get their smallest size, in the order in which they came. Jobs that have none get a random one
    up to their limits, those with least left first. Then jobs grow size by size, who gains most first, up to their limits and
    at last to the most that they may hold."""
    filling = _Filling(problem, genes, left, rng)
    new, order = problem.limit == 0, filling.seconds if order is None else order
    came = np.arange(problem.jobs, dtype=np.float64)
    for _ in problem.capacity:  # a job for which its pool has no room may go to another
        filling.choose_pools()
        filling.give(problem.smallest_of(filling.pool), new, came)
        if score == "gpu-seconds":  # as in the paper
            for most in (problem.limit, problem.most):
                filling.give(np.broadcast_to(most, filling.gpus.shape), ~new, order)
                filling.fill(most, order)
        else:
            some = np.ceil(np.maximum(problem.limit, 1) ** rng.random(filling.gpus.shape)).astype(np.int64)
            filling.give(some, ~new & (filling.gpus == 0), order)
            for most in (problem.limit, problem.most):
                filling.fill(most)
    return filling.genes


class _Filling:
    """Candidates while they are filled."""

    def __init__(self, problem: Problem, genes: Genes, left: Floats, rng: np.random.Generator) -> None:
        self.problem, self.rng, self.worth, self.seconds = problem, rng, problem.worth(left), problem.seconds(left)
        self.gpus, self.pool = genes.gpus.copy(), genes.pool.copy()
        pools = len(problem.capacity)
        self.free = np.stack([problem.capacity[n] - np.where(self.pool == n, self.gpus, 0).sum(axis=1) for n in range(pools)], 1)

    def choose_pools(self) -> None:
        """A job that has no GPUs goes to one of the pools with room for it, mostly to those where it is fast."""
        problem, pools = self.problem, len(self.problem.capacity)
        if pools == 1:
            return
        room = (problem.smallest > 0) & (self.free[:, None, :] >= problem.smallest)
        chance = np.cumsum(np.where(room, problem.speed, 0.0), axis=2)
        drawn = (self.rng.random((*self.gpus.shape, 1)) * chance[:, :, -1:] >= chance).sum(axis=2).clip(max=pools - 1)
        self.pool = np.where(self.gpus > 0, self.pool, drawn)

    @property
    def genes(self) -> Genes:
        return Genes(self.gpus, self.pool)

    def give(self, target: Ints, who: Bools, key: Floats) -> None:
        """As many GPUs as `target` to each of these jobs, the smallest key first, while there are enough."""
        problem, jobs = self.problem, np.arange(self.problem.jobs)
        size = problem.floor[jobs, self.pool, np.minimum(target, problem.floor.shape[2] - 1)]
        size = np.maximum(size, np.where(target > 0, problem.smallest_of(self.pool), 0))
        self._take(np.where(who & (size > self.gpus), size, self.gpus), np.broadcast_to(key, self.gpus.shape))

    def fill(self, most: Ints, key: Floats | None = None) -> None:
        """Jobs go up size by size while they can, the smallest key first; without keys those that gain most for each GPU."""
        while self._step(most, key):
            pass

    def _step(self, most: Ints, key: Floats | None) -> bool:
        problem, jobs = self.problem, np.arange(self.problem.jobs)
        size = problem.next[jobs, self.pool, self.gpus]
        free = self.free[np.arange(len(self.gpus))[:, None], self.pool]
        fits = (size > self.gpus) & (size <= problem.at_least(most, self.pool)) & (size - self.gpus <= free)
        if not fits.any():
            return False
        if key is not None:
            return self._take(np.where(fits, size, self.gpus), np.broadcast_to(key, self.gpus.shape))
        gain = self.worth * (problem.rate[jobs, self.pool, size] - problem.rate[jobs, self.pool, self.gpus])
        return self._take(np.where(fits, size, self.gpus), -gain / np.maximum(size - self.gpus, 1))

    def _take(self, size: Ints, key: Floats) -> bool:
        """Change to these sizes, the smallest key first, as long as GPUs are free."""
        more = size - self.gpus
        changed = False
        order = np.argsort(np.where(more > 0, key, np.inf), axis=1, kind="stable")
        rows = np.arange(len(size))[:, None]
        for pool in range(self.free.shape[1]):
            asked = np.where(self.pool == pool, more, 0)
            fits = np.empty_like(asked, dtype=bool)
            fits[rows, order] = np.cumsum(asked[rows, order], axis=1) <= self.free[:, pool, None]
            got = np.where(fits, asked, 0)
            self.gpus += got
            self.free[:, pool] -= got.sum(axis=1)
            changed |= bool(got.any())
        return changed
