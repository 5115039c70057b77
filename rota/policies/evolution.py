"""The evolutionary search of ONES (Bian et al., SC'21): refresh, cross over, mutate, pad and select schedules. Only `ones` uses
it.

A schedule gives each job a number of GPUs of one pool. Its genes are a row with a job for each GPU, in contiguous blocks. All
candidates of a generation are computed at once, as arrays of shape (candidates, jobs).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rota.model.units import Bools, Floats, Ints

IDLE = -1
"""Marks a GPU without a job."""

Score = Literal["speed-ups", "gpu-seconds"]
"""What makes one schedule better than another: the sum of its jobs' speed-ups, where jobs with little left count most, or the
GPU-seconds that its jobs have left, as in the paper."""

DISORDER = 6.0
"""Randomness of the order in which children and mutants are filled. Without it, jobs with little left come first."""
CHANGED_SECONDS = 60.0
"""Time in which a change must pay for itself, in seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Genes:
    """Candidates: the number of GPUs of each job, and their pool. Shape (candidates, jobs)."""

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
    """Inputs of one search. Arrays are over jobs, in order of submission."""

    capacity: Ints
    """GPUs of each pool."""
    gpu_pool: Ints
    """Pool of each available GPU."""
    floor: Ints
    """Largest size that a job accepts within this many GPUs; 0 if none: shape (jobs, pools, max GPUs + 1)."""
    rate: Floats
    """Steps per second by size: shape (jobs, pools, max GPUs + 1)."""
    limit: Ints
    """GPUs that a job may hold now; 0 if the job is new and gets its smallest size."""
    most: Ints
    """GPUs that a job may hold if some are left over."""
    executed: Bools
    """Whether a job has trained long enough to be predicted and stopped."""
    pinned: Bools
    """Whether a job was just started or resized, so that it stays as it is."""
    now: Genes
    """Present size of each job, as one candidate."""
    order: Ints
    """Jobs in the order of their blocks."""
    move_seconds: Floats
    """Cost of another size for each job, in seconds."""
    speed: Floats
    """Steps per second per GPU at a job's smallest size: shape (jobs, pools)."""
    smallest: Ints
    """Smallest size of a job: shape (jobs, pools); 0 if the job cannot run in the pool."""
    next: Ints
    """Next size after each, or the same size if there is none: shape (jobs, pools, max GPUs + 1)."""
    favour: float
    """How strongly jobs with little left are favoured; 0 for not at all."""

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
        """Build a problem, and derive the columns that follow from the accepted sizes. Pinned jobs may hold what they have."""
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
        """Steps per second of each job on one GPU, or per GPU at its smallest size, in its fastest pool."""
        fastest: Floats = self.speed.max(axis=1)
        return fastest

    def smallest_of(self, pool: Ints) -> Ints:
        return self.smallest[np.arange(self.jobs), pool]

    def at_least(self, limit: Ints, pool: Ints) -> Ints:
        """Raise limits to the smallest size of the job in its pool. A limit of 0 stays 0."""
        return np.where(limit > 0, np.maximum(limit, self.smallest_of(pool)), 0)

    @property
    def jobs(self) -> int:
        return len(self.limit)

    def floored(self, genes: Genes) -> Genes:
        """Reduce sizes to those that the jobs accept."""
        jobs = np.arange(self.jobs)
        return Genes(self.floor[jobs, genes.pool, np.minimum(genes.gpus, self.floor.shape[2] - 1)], genes.pool)

    def laid_out(self, genes: Genes) -> Ints:
        """Return rows with a job for each GPU: a block for each job, within its pool."""
        found = np.full((len(genes), len(self.gpu_pool)), IDLE, dtype=np.int64)
        for pool in range(len(self.capacity)):
            mine = (self.gpu_pool == pool).nonzero()[0]
            gpus = np.where(genes.pool == pool, genes.gpus, 0)[:, self.order]
            for row, counts in enumerate(gpus):
                blocks = np.repeat(self.order, counts)[: len(mine)]  # two jobs that share GPUs count them twice
                found[row, mine[: len(blocks)]] = blocks
        return found

    def counted(self, rows: Ints) -> Genes:
        """Return candidates from rows with a job for each GPU. A job with GPUs of several pools keeps those of the largest
        group."""
        jobs, pools = self.jobs, len(self.capacity)
        candidate, gpu = (rows != IDLE).nonzero()
        key = (candidate * pools + self.gpu_pool[gpu]) * jobs + rows[candidate, gpu]
        counts = np.bincount(key, minlength=len(rows) * pools * jobs).reshape(len(rows), pools, jobs)
        return Genes(counts.max(axis=1), counts.argmax(axis=1))

    def score(self, genes: Genes, left: Floats, which: Score) -> Floats:
        """Return the score of each schedule. Lower is better."""
        return -self.speed_ups(genes, left) if which == "speed-ups" else self.gpu_seconds(genes, left)

    def worth(self, left: Floats) -> Floats:
        """Weight of each job's speed-up. It grows with the number of jobs that have longer left (heSRPT, Berg et al. 2020)."""
        seconds = self.seconds(left)
        longer = np.empty(self.jobs)
        longer[np.argsort(-seconds, kind="stable")] = np.arange(1, self.jobs + 1)
        counts: Floats = longer**self.favour / np.where(self.alone > 0, self.alone, 1.0)
        return counts

    def seconds(self, left: Floats) -> Floats:
        """Time that each job would still train on one GPU, in seconds."""
        return left / np.where(self.alone > 0, self.alone, 1.0)

    def speed_ups(self, genes: Genes, left: Floats) -> Floats:
        """Sum the weighted speed-ups of the jobs of each schedule, over one GPU. A changed job loses the fraction of time that
        its change takes."""
        rate = self.rate[np.arange(self.jobs), genes.pool, genes.gpus]
        same = (genes.gpus == self.now.gpus) & (genes.pool == self.now.pool)
        kept = np.where(same, 1.0, CHANGED_SECONDS / (CHANGED_SECONDS + self.move_seconds))
        found: Floats = np.where(genes.gpus > 0, self.worth(left) * rate * kept, 0.0).sum(axis=1)
        return found

    def gpu_seconds(self, genes: Genes, left: Floats) -> Floats:
        """Estimate the GPU-seconds that the jobs of each schedule still need. Jobs that cannot be predicted yet count as 0, so
        that they are never left out (SRUF)."""
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
    """Make one generation from `parents` (rows of jobs for each GPU). Return as many rows, their candidates and their scores,
    best first."""
    count = len(parents)
    refreshed = limited(problem, problem.counted(parents))
    children = limited(problem, problem.counted(_crossed(parents, rng, exchange)))
    goes = problem.executed & ~problem.pinned & (rng.random((count, problem.jobs)) < evict)
    mutants = Genes(np.where(goes, 0, refreshed.gpus), refreshed.pool)
    empty = limited(problem, Genes(np.zeros_like(problem.now.gpus), problem.now.pool))  # without any but the pinned jobs
    whole = refreshed.joined(children, mutants, empty)
    disorder = DISORDER * rng.random((len(whole), 1)) * rng.standard_normal((len(whole), problem.jobs))
    disorder[[*range(count), -1]] = 0.0  # parents, and the empty candidate
    order = problem.seconds(left) * np.exp(disorder)
    candidates = padded(problem, whole, left, rng, score, order)
    scores = problem.score(candidates, left, score)
    best = np.argsort(scores, kind="stable")[:count]
    chosen = candidates.rows(best)
    return problem.laid_out(chosen), chosen, scores[best]


def limited(problem: Problem, genes: Genes) -> Genes:
    """Reduce each job to its limit and to a size that it accepts. Pinned jobs stay as they are."""
    found = problem.floored(Genes(np.minimum(genes.gpus, problem.at_least(problem.limit, genes.pool)), genes.pool))
    gpus = np.where(problem.pinned, problem.now.gpus, found.gpus)
    pool = np.where(problem.pinned, problem.now.pool, found.pool)
    for number, capacity in enumerate(problem.capacity.tolist()):
        here = (pool == number) & ~problem.pinned
        free = capacity - np.where((pool == number) & problem.pinned, gpus, 0).sum(axis=1)
        over = np.cumsum(np.where(here, gpus, 0), axis=1) > free[:, None]
        gpus[here & over] = 0  # pinned jobs come first
    return Genes(gpus, pool)


def _crossed(parents: Ints, rng: np.random.Generator, exchange: float) -> Ints:
    """Cross random pairs of parents, with two children each. Each GPU of a child is as in one of its two parents."""
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
    """Fill candidates with as many jobs as possible. New jobs get their smallest size, in order of submission. Jobs without GPUs
    get a random size up to their limits, those with least left first. Then jobs grow size by size, the largest gain first, up to
    their limits and finally to the most that they may hold."""
    filling = _Filling(problem, genes, left, rng)
    new, order = problem.limit == 0, filling.seconds if order is None else order
    came = np.arange(problem.jobs, dtype=np.float64)
    for _ in problem.capacity:  # a job whose pool is full may go to another
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
    """Candidates that are being filled."""

    def __init__(self, problem: Problem, genes: Genes, left: Floats, rng: np.random.Generator) -> None:
        self.problem, self.rng, self.worth, self.seconds = problem, rng, problem.worth(left), problem.seconds(left)
        self.gpus, self.pool = genes.gpus.copy(), genes.pool.copy()
        pools = len(problem.capacity)
        self.free = np.stack([problem.capacity[n] - np.where(self.pool == n, self.gpus, 0).sum(axis=1) for n in range(pools)], 1)

    def choose_pools(self) -> None:
        """Choose a pool with room for each job without GPUs, at random and mostly one where the job is fast."""
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
        """Give each of these jobs `target` GPUs while enough are free, smallest key first."""
        problem, jobs = self.problem, np.arange(self.problem.jobs)
        size = problem.floor[jobs, self.pool, np.minimum(target, problem.floor.shape[2] - 1)]
        size = np.maximum(size, np.where(target > 0, problem.smallest_of(self.pool), 0))
        self._take(np.where(who & (size > self.gpus), size, self.gpus), np.broadcast_to(key, self.gpus.shape))

    def fill(self, most: Ints, key: Floats | None = None) -> None:
        """Increase jobs size by size while possible, smallest key first. Without keys, the largest gain per GPU goes first."""
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
        """Change to these sizes while GPUs are free, smallest key first."""
        more = size - self.gpus
        changed = False
        order = np.argsort(np.where(more > 0, key, np.inf), axis=1, kind="stable")
        rows = np.arange(len(size))[:, None]
        for pool in range(self.free.shape[1]):
            wanted = np.where(self.pool == pool, more, 0)
            fits = np.empty_like(wanted, dtype=bool)
            fits[rows, order] = np.cumsum(wanted[rows, order], axis=1) <= self.free[:, pool, None]
            got = np.where(fits, wanted, 0)
            self.gpus += got
            self.free[:, pool] -= got.sum(axis=1)
            changed |= bool(got.any())
        return changed
