"""Lower bounds on mean JCT and makespan: what no schedule could have beaten, on equal and on unequal GPUs.

Put a price on a GPU-second of each pool such that the whole cluster earns 1 a second. A job that makes `rate[j]` steps a second
on `gpus` GPUs of pool j then pays at least

    w = steps x min over the pools j it may use of price[j] x gpus / rate[j]

on whatever mixture of pools it runs, while the cluster never earns more than 1 a second. So the cluster is no better than one
machine of rate 1 with jobs of size w (weak duality: the prices are feasible in the dual of the throughput program). Any prices
give a valid bound and good ones a tight bound; with equal GPUs w = GPUs x run time / cluster size. Besides, no job takes less
than p, its shortest run time. For any set of jobs, whatever else runs beside them:

- mean JCT >= mean p;
- mean JCT >= mean flow time under SRPT with sizes w, which is optimal on one machine (Schrage 1968);
- mean JCT >= mean of (mean busy time - submission) + p / 2, under preemptive smallest-w-first. A job progresses no faster than
  1 / p, so it ends at least p / 2 after its mean busy time, and smallest-w-first minimises the sum of mean busy times (Goemans,
  Queyranne, Schulz, Skutella and Wang 2002);
- makespan >= t + sum of w over jobs submitted at t or later, for every t, and >= submission + p, both from the first submission.

They hold for jobs of fixed size that share no GPU. What slows jobs down (slow GPUs in a pool, gangs over several nodes,
overheads, failures) only adds to a schedule.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rota.model.cluster import Cluster
from rota.model.job import Arrival
from rota.model.units import FOREVER, Bools, Floats, Ints
from rota.sim.physics import Physics

SEARCH_JOBS = 200_000
"""Jobs swept at most in search of better prices, per bound. Work, not time: the same jobs have the same bound everywhere."""

FIRST_MOVE, LAST_MOVE = 0.3, 0.01
"""Share of the prices that the search moves at once, at first and at last."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Bounds:
    """What no schedule of these jobs can go below. All None if there are no jobs, or if the work of one is not known: its steps
    are infinite, or no pool can run it."""

    run_time_seconds: float | None = None
    """Mean of the shortest run times."""
    srpt_seconds: float | None = None
    """Mean flow time of shortest-remaining-first on one machine as strong as the cluster."""
    busy_time_seconds: float | None = None
    """The same from mean busy times and half the shortest run times."""
    mean_jct_seconds: float | None = None
    """The largest of the three."""
    makespan_seconds: float | None = None
    """From the first submission to the last end."""
    offered_load: float | None = None
    """Seconds the jobs need of the whole cluster, at the prices where that is most, over the seconds from the first to the last
    submission. With equal GPUs: sum of GPUs x run time / (cluster GPUs x that time). Also None if all are submitted at once."""
    shortest_seconds: Floats
    """Shortest run time of each job, in the order given; infinite where it is not known."""


def bounds(arrivals: Sequence[Arrival], cluster: Cluster, physics: Physics) -> Bounds:
    """Bounds for exactly these jobs. Others beside them can only have slowed them down, so they need not be given."""
    kind, rates = _kinds(arrivals, cluster, physics)
    steps = np.array([arrival.spec.steps for arrival in arrivals], dtype=np.float64)
    fastest = rates.max(axis=1, initial=0.0)[kind]
    shortest = np.divide(steps, fastest, out=np.full(len(steps), FOREVER), where=fastest > 0)
    if not len(arrivals) or not np.isfinite(shortest).all():
        return Bounds(shortest_seconds=shortest)
    work = _Work.of(arrivals, shortest, kind, rates, cluster)
    starts = _promising_shares(work)
    run_time = float(shortest.mean())
    srpt = _largest(_srpt_seconds, work, starts)
    busy_time = _largest(_busy_time_seconds, work, starts)
    span = float(work.since_first[-1])
    return Bounds(
        run_time_seconds=run_time,
        srpt_seconds=srpt,
        busy_time_seconds=busy_time,
        mean_jct_seconds=max(run_time, srpt, busy_time),
        makespan_seconds=_largest(_makespan_seconds, work, starts),
        offered_load=max(float(work.sizes(shares).sum()) for shares in starts) / span if span > 0 else None,
        shortest_seconds=shortest,
    )


def _kinds(arrivals: Sequence[Arrival], cluster: Cluster, physics: Physics) -> tuple[Ints, Floats]:
    """The kind of each job, and the best true rate of each kind on each pool, 0 where it cannot run."""
    numbers: dict[tuple[str, int, tuple[str, ...]], int] = {}
    rows: list[list[float]] = []
    kind = np.zeros(len(arrivals), dtype=np.int64)
    for i, (_, spec) in enumerate(arrivals):
        key = (spec.profile, spec.gpus, spec.accelerators)
        number = numbers.setdefault(key, len(rows))
        if number == len(rows):
            fastest = physics.fastest(spec, cluster)
            rows.append([fastest.get(pool, 0.0) for pool in range(len(cluster.pools))])
        kind[i] = number
    return kind, np.array(rows, dtype=np.float64).reshape(len(rows), len(cluster.pools))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Work:
    """The jobs in order of submission. Prices are written as shares: what each pool earns of the 1 that the cluster earns."""

    since_first: Floats
    """Submission, in seconds after the first one."""
    shortest: Floats
    gpu_seconds: Floats
    """GPUs x shortest run time."""
    kind: Ints
    usable: Bools
    """Shape (kinds, pools): jobs of this kind can run there."""
    slowdown: Floats
    """Shape (kinds, pools): how much slower than on the best pool; 1 where it cannot run."""
    capacity: Ints

    @classmethod
    def of(cls, arrivals: Sequence[Arrival], shortest: Floats, kind: Ints, rates: Floats, cluster: Cluster) -> "_Work":
        submitted = np.array([arrival.submitted_s for arrival in arrivals], dtype=np.float64)
        gpus = np.array([arrival.spec.gpus for arrival in arrivals], dtype=np.int64)
        order = np.argsort(submitted, kind="stable")
        usable = rates > 0
        return cls(
            since_first=submitted[order] - submitted[order[0]],
            shortest=shortest[order],
            gpu_seconds=(gpus * shortest)[order],
            kind=kind[order],
            usable=usable,
            slowdown=np.divide(rates.max(axis=1, keepdims=True), rates, out=np.ones_like(rates), where=usable),
            capacity=cluster.pool_gpus,
        )

    def sizes(self, shares: Floats) -> Floats:
        """w of each job: seconds of the whole cluster that it cannot do without."""
        cheapest = np.where(self.usable, self.slowdown * (shares / self.capacity), FOREVER).min(axis=1)
        sizes: Floats = self.gpu_seconds * cheapest[self.kind]
        return sizes


_Value = Callable[[_Work, Floats], float]
"""One bound at given sizes."""


# Prices ----------------------------------------------------------------------------------------------------------


def _promising_shares(work: _Work) -> list[Floats]:
    """Where to look for good prices; one answer only if no other can be better. The first follows the pools' mean speed, and is
    the best if all jobs agree on how the pools compare: other prices then lower the w of every job. The second makes the sum of
    w the largest, and with it the offered load; the third weights each job by how many would wait behind it."""
    # Rounded, or noise in the last digits would tell like from like.
    relative, same = np.unique(np.where(work.usable, work.slowdown.round(9), FOREVER), axis=0, return_inverse=True)
    kind = same.reshape(-1)[work.kind]
    speed = np.bincount(kind, weights=work.gpu_seconds, minlength=len(relative)) @ (1.0 / relative)
    earned = (speed if speed.any() else np.ones_like(speed)) * work.capacity
    by_speed = earned / earned.sum()
    if len(relative) == 1:
        return [by_speed]
    most_work = _dual_shares(relative, kind, work.gpu_seconds, work.capacity)
    behind = np.empty(len(kind))
    behind[np.argsort(-work.sizes(most_work), kind="stable")] = np.arange(1, len(kind) + 1)
    return [by_speed, most_work, _dual_shares(relative, kind, work.gpu_seconds * behind, work.capacity)]


def _dual_shares(relative: Floats, kind: Ints, weight: Floats, capacity: Ints) -> Floats:
    """Shares that make the weighted sum of w the largest: a linear program over shares and one cheapest price per kind. Only the
    shares are used, and sizes follow from them exactly, so that no tolerance of the solver can spoil a bound."""
    # Imported here because it takes longer than many a simulation, and equal GPUs need no program.
    from scipy.optimize import milp
    from scipy.sparse import csr_array

    kinds, pools = relative.shape
    of, pool = np.nonzero(np.isfinite(relative))
    row = np.arange(len(of))
    # Prices are counted in that of a GPU when all cost the same, which keeps the numbers near 1.
    at_most = -relative[of, pool] * (capacity.sum() / capacity)[pool]
    entries = np.concatenate((np.ones(len(row)), at_most))
    where = (np.concatenate((row, row)), np.concatenate((pools + of, pool)))
    earns_one = np.concatenate((np.ones(pools), np.zeros(kinds)))[None, :]
    mass = np.bincount(kind, weights=weight, minlength=kinds)
    solved = milp(
        np.concatenate((np.zeros(pools), -mass / (mass.max() or 1.0))),
        constraints=[(csr_array((entries, where), shape=(len(row), pools + kinds)), -np.inf, 0.0), (earns_one, 1.0, 1.0)],
    )
    shares = np.ones(pools) if solved.x is None else np.maximum(solved.x[:pools], 0.0)
    normed: Floats = shares / shares.sum()
    return normed


def _largest(value: _Value, work: _Work, starts: Sequence[Floats]) -> float:
    """The largest bound over the starts and a pattern search from the best of them: towards each pool, away from each pool, and
    half as far whenever neither helps. Deterministic; every point on its way is a valid bound."""
    best, shares = -FOREVER, starts[0]
    for start in starts:
        found = value(work, work.sizes(start))
        if found > best:
            best, shares = found, start
    pools = np.eye(len(shares))
    tries = SEARCH_JOBS // len(work.kind) if len(starts) > 1 else 0
    move = FIRST_MOVE
    while tries > 0 and move > LAST_MOVE:
        before = best
        for pool in pools:
            for tried in (shares + move * (pool - shares), shares * (1.0 - move * pool)):
                if tried.sum() > 0:
                    tried = tried / tried.sum()
                    found = value(work, work.sizes(tried))
                    tries -= 1
                    if found > best:
                        best, shares = found, tried
        if best == before:
            move /= 2
    return best


# Bounds at given sizes -------------------------------------------------------------------------------------------


def _makespan_seconds(work: _Work, sizes: Floats) -> float:
    still_to_come = np.cumsum(sizes[::-1])[::-1]
    return float(max((work.since_first + still_to_come).max(), (work.since_first + work.shortest).max()))


def _srpt_seconds(work: _Work, sizes: Floats) -> float:
    """Mean flow time of shortest remaining first on one machine: the number of jobs there, summed over time."""
    waiting: list[float] = []
    now, flow = 0.0, 0.0
    for submitted, size in zip(work.since_first.tolist(), sizes.tolist(), strict=True):
        while waiting and now < submitted:
            left, gap = waiting[0], submitted - now
            if left <= gap:
                flow += len(waiting) * left
                now += left
                heapq.heappop(waiting)
            else:
                flow += len(waiting) * gap
                now = submitted
                heapq.heapreplace(waiting, left - gap)
        now = max(now, submitted)
        heapq.heappush(waiting, size)
    waiting.sort()
    flow += sum(left * count for left, count in zip(waiting, range(len(waiting), 0, -1), strict=True))
    return flow / len(sizes)


def _busy_time_seconds(work: _Work, sizes: Floats) -> float:
    """Mean of (mean busy time - submission) + p / 2 with the smallest size first, preemptively, on one machine."""
    submitted, left = work.since_first.tolist(), sizes.tolist()
    waiting: list[tuple[float, int]] = []
    now, total = 0.0, 0.0
    for job, submission in enumerate(submitted):
        while waiting and now < submission:
            size, at = waiting[0]
            seconds = min(left[at], submission - now)
            total += seconds / size * (now - submitted[at] + seconds / 2)
            now += seconds
            left[at] -= seconds
            if left[at] <= 0:
                heapq.heappop(waiting)
        now = max(now, submission)
        if left[job] > 0:  # a job of no size is done as it comes
            heapq.heappush(waiting, (left[job], job))
    for size, at in sorted(waiting):
        total += left[at] / size * (now - submitted[at] + left[at] / 2)
        now += left[at]
    return total / len(submitted) + float(work.shortest.mean()) / 2
