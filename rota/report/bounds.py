"""Lower bounds on mean JCT and makespan: values that no schedule can beat, on equal and on unequal GPUs.

Put a price on a GPU-second of each pool such that the whole cluster earns 1 a second. A job that makes `rate[j]` steps a second
on `gpus` GPUs of pool j then pays at least

    w = steps x min over the pools j it may use of price[j] x gpus / rate[j]

on whatever mixture of pools it runs, while the cluster never earns more than 1 a second. So the cluster is no better than one
machine of rate 1 with jobs of size w (weak duality: the prices are feasible in the dual of the throughput program). Any prices
give a valid bound and good ones a tight bound; with equal GPUs w = GPUs x run time / cluster size. Besides, no job takes less
than p, its shortest run time. For any set of jobs, whichever other jobs run at the same time:

- mean JCT >= mean p;
- mean JCT >= mean flow time under SRPT with sizes w, which is optimal on one machine (Schrage 1968);
- mean JCT >= mean of (mean busy time - submission) + p / 2, under preemptive smallest-w-first. A job progresses no faster than
  1 / p, so it ends at least p / 2 after its mean busy time, and smallest-w-first minimises the sum of mean busy times (Goemans,
  Queyranne, Schulz, Skutella and Wang 2002);
- makespan >= t + sum of w over jobs submitted at t or later, for every t, and >= submission + p, both from the first submission.

A job that accepts several sizes pays w at its cheapest size, and p is its shortest run time at any size. Everything that slows
jobs down (slow GPUs in a pool, gangs over several nodes, overheads, failures) only makes a schedule longer.

Where two jobs may share GPUs, both together must not pay more than these GPUs earn. With alpha the price of a job's step, this is

    alpha_a x rate[a beside b] + alpha_b x rate[b beside a] <= price x gpus

for every measured pair, and alpha x rate <= price x gpus for each job alone. Then again w = alpha x steps, and everything else is
as above. A pair that was never measured takes turns, which adds no constraint to the second. A job colocated with a job outside
the set counts as alone, at its best rate with any partner.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.model.options import Kind
from rota.model.units import FOREVER, Bools, Floats, Ints
from rota.sim.physics import Physics

SEARCH_JOBS = 200_000
"""Maximum number of job visits in the search for better prices, per bound. A limit on work instead of time gives the same bound
on every machine."""

FIRST_MOVE, LAST_MOVE = 0.3, 0.01
"""Fraction of the prices that the search moves in one step, at first and at last."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Bounds:
    """Values that no schedule of these jobs can go below. All are None if there are no jobs, or if the work of a job is unknown
    because it has infinitely many steps or no pool can run it."""

    run_time_seconds: float | None = None
    """Mean of the shortest run times, in seconds."""
    srpt_seconds: float | None = None
    """Mean flow time, in seconds, of shortest-remaining-first on one machine as strong as the cluster."""
    busy_time_seconds: float | None = None
    """Mean JCT bound from mean busy times and half the shortest run times, in seconds."""
    mean_jct_seconds: float | None = None
    """Largest of the three bounds on mean JCT, in seconds."""
    makespan_seconds: float | None = None
    """Lower bound on the time from the first submission to the last end, in seconds."""
    offered_load: float | None = None
    """Seconds of the whole cluster that the jobs need, at the prices that make it the most, divided by the seconds from the first
    to the last submission. With equal GPUs: sum of GPUs x run time / (cluster GPUs x that time). Limited to the fraction of the
    cluster that the jobs would occupy at one time if none waited: a few long jobs in quick succession are not a heavy load if all
    of them fit. None also if all jobs are submitted at once."""
    shortest_seconds: Floats
    """Shortest run time of each job in seconds, in the order given; inf if unknown."""


def bounds(arrivals: Sequence[Arrival], cluster: Cluster, physics: Physics, *, colocation: bool = False) -> Bounds:
    """Return the bounds for exactly these jobs. Other jobs at the same time can only slow them down, so they are left out.
    `colocation`: whether two jobs may share GPUs."""
    kind, rates, best, pairs = _kinds(arrivals, cluster, physics, colocation)
    steps = np.array([FOREVER if each.spec.steps is None else each.spec.steps for each in arrivals], dtype=np.float64)
    fastest = best[kind]
    shortest = np.divide(steps, fastest, out=np.full(len(steps), FOREVER), where=fastest > 0)
    if not len(arrivals) or not np.isfinite(shortest).all():
        return Bounds(shortest_seconds=shortest)
    cheapest = steps / rates.max(axis=1)[kind]
    work = _Work.of(arrivals, shortest, cheapest, kind, rates, pairs, cluster)
    starts = _promising_shares(work) if pairs is None else _promising_with_pairs(work, pairs)
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
        offered_load=max(_load(work, work.sizes(start), span) for start in starts) if span > 0 else None,
        shortest_seconds=shortest,
    )


def _load(work: "_Work", sizes: Floats, span_seconds: float) -> float:
    """Return the work divided by the time in which it was submitted, limited to the largest fraction of the cluster that the jobs
    would occupy at one time if none waited."""
    share = np.divide(sizes, work.shortest, out=np.zeros_like(sizes), where=work.shortest > 0)
    at_s = np.concatenate((work.since_first + work.shortest, work.since_first))
    order = np.lexsort((np.repeat([0, 1], len(share)), at_s))  # a job that ends makes room for a job that starts at that instant
    peak = float(np.cumsum(np.concatenate((-share, share))[order]).max(initial=0.0))
    return min(float(sizes.sum()) / span_seconds, peak)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Pairs:
    """Pairs of kinds that together may do more on the same GPUs of a pool than each of them alone."""

    first: Ints
    second: Ints
    pool: Ints
    first_speed: Floats
    """Rate of the first colocated with the second, divided by its best rate anywhere."""
    second_speed: Floats


class _Start(NamedTuple):
    """Starting point of the search for good prices."""

    shares: Floats
    """What each pool earns of the 1 that the cluster earns."""
    lean: Floats | None = None
    """Fraction that each kind pays of the most that it could pay alone; None for all of it."""


def _kinds(
    arrivals: Sequence[Arrival], cluster: Cluster, physics: Physics, colocation: bool
) -> tuple[Ints, Floats, Floats, _Pairs | None]:
    """Return the kind of each job, the best true rate of each kind on each pool with the requested GPUs (0 if it cannot run
    there), its best rate anywhere at any size, and the pairs, if any. If another size does more per GPU, the rate with the
    requested GPUs is scaled from that size."""
    numbers: dict[Kind, int] = {}
    specs: list[JobSpec] = []
    kind = np.zeros(len(arrivals), dtype=np.int64)
    for i, (_, spec) in enumerate(arrivals):
        number = numbers.setdefault(Kind.of(spec), len(specs))
        if number == len(specs):
            specs.append(spec)
        kind[i] = number
    rates = np.zeros((len(specs), len(cluster.pools)))
    best = np.zeros(len(specs))
    colocated = []
    for number, spec in enumerate(specs):
        requested = {}
        for pool, by_width in physics.fastest_by_width(spec, cluster).items():
            rates[number, pool] = max(rate * (spec.width / width) for width, rate in by_width.items())
            best[number] = max(best[number], *by_width.values())
            if spec.width in by_width:
                requested[pool] = by_width[spec.width]
        colocated.append(physics.fastest_colocated(spec, cluster, requested) if colocation else {})
        for (pool, _), rate in colocated[-1].items():
            rates[number, pool] = max(rates[number, pool], rate)
            best[number] = max(best[number], rate)
    return kind, rates, best, _pairs(specs, rates, colocated)


def _pairs(specs: Sequence[JobSpec], rates: Floats, colocated: Sequence[Mapping[tuple[int, str], float]]) -> _Pairs | None:
    best = rates.max(axis=1, initial=0.0)
    alike: dict[tuple[str, float], list[int]] = {}
    for number, spec in enumerate(specs):
        alike.setdefault((spec.profile or "", spec.gpus), []).append(number)
    rows = []
    for a, spec in enumerate(specs):
        # Only partners that were measured with this profile: most pairs of many profiles were never measured.
        for (pool, profile), one in colocated[a].items() if spec.gpus >= 1 else ():
            for b in alike.get((profile, spec.gpus), ()):
                other = colocated[b].get((pool, spec.profile or "")) if b <= a else None
                # A pair that does no more than taking turns needs no price of its own.
                if other is not None and one / rates[a, pool] + other / rates[b, pool] > 1:
                    rows.append((a, b, pool, one / best[a], other / best[b]))
    rows.sort(key=lambda row: row[:3])
    if not rows:
        return None
    whole = np.array([row[:3] for row in rows], dtype=np.int64)
    speed = np.array([row[3:] for row in rows], dtype=np.float64)
    return _Pairs(first=whole[:, 0], second=whole[:, 1], pool=whole[:, 2], first_speed=speed[:, 0], second_speed=speed[:, 1])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Work:
    """Jobs in order of submission. Prices are written as shares: what each pool earns of the 1 that the cluster earns."""

    since_first: Floats
    """Submission times, in seconds after the first one."""
    shortest: Floats
    gpu_seconds: Floats
    """GPUs x run time on the pool where the job needs the fewest GPU-seconds."""
    kind: Ints
    usable: Bools
    """Whether jobs of a kind can run on a pool, shape (kinds, pools)."""
    slowdown: Floats
    """How much slower than on its best pool, shape (kinds, pools); 1 where it cannot run."""
    capacity: Ints
    pairs: _Pairs | None

    @classmethod
    def of(
        cls,
        arrivals: Sequence[Arrival],
        shortest: Floats,
        cheapest: Floats,
        kind: Ints,
        rates: Floats,
        pairs: _Pairs | None,
        cluster: Cluster,
    ) -> "_Work":
        submitted = np.array([arrival.submitted_s for arrival in arrivals], dtype=np.float64)
        gpus = np.array([arrival.spec.gpus for arrival in arrivals], dtype=np.float64)
        order = np.argsort(submitted, kind="stable")
        usable = rates > 0
        return cls(
            since_first=submitted[order] - submitted[order[0]],
            shortest=shortest[order],
            gpu_seconds=(gpus * cheapest)[order],
            kind=kind[order],
            usable=usable,
            slowdown=np.divide(rates.max(axis=1, keepdims=True), rates, out=np.ones_like(rates), where=usable),
            capacity=cluster.pool_gpus,
            pairs=pairs,
        )

    def sizes(self, start: _Start) -> Floats:
        """Return w of each job: the seconds of the whole cluster that it needs at least."""
        price = start.shares / self.capacity
        cheapest = self.alone(price)
        if self.pairs is not None:
            cheapest = _together(self.pairs, price, cheapest if start.lean is None else cheapest * start.lean)
        sizes: Floats = self.gpu_seconds * cheapest[self.kind]
        return sizes

    def alone(self, price: Floats) -> Floats:
        """Return the lowest price of a GPU-second of each kind at its best rate, where no GPU is shared."""
        cheapest: Floats = np.where(self.usable, self.slowdown * price, FOREVER).min(axis=1)
        return cheapest


def _together(pairs: _Pairs, price: Floats, cost: Floats) -> Floats:
    """Lower the costs until no pair pays more than its GPUs earn. Each kind is lowered as far as its most expensive pair
    needs."""
    paid = cost[pairs.first] * pairs.first_speed + cost[pairs.second] * pairs.second_speed
    factor = np.divide(price[pairs.pool], paid, out=np.ones_like(paid), where=paid > price[pairs.pool])
    lowest = np.ones_like(cost)
    np.minimum.at(lowest, pairs.first, factor)
    np.minimum.at(lowest, pairs.second, factor)
    lowered: Floats = cost * lowest
    return lowered


_Value = Callable[[_Work, Floats], float]
"""One bound at given sizes."""


# Prices ----------------------------------------------------------------------------------------------------------


def _promising_shares(work: _Work) -> list[_Start]:
    """Return where to look for good prices; one answer only if no other can be better. The first follows the pools' mean speed,
    and is the best if all jobs agree on how the pools compare: other prices then lower the w of every job. The second makes the
    sum of w, and with it the offered load, the largest. The third weights each job by the number of jobs that would wait behind
    it."""
    # Rounded, so that noise in the last digits does not split equal rows.
    relative, same = np.unique(np.where(work.usable, work.slowdown.round(9), FOREVER), axis=0, return_inverse=True)
    kind = same.reshape(-1)[work.kind]
    speed = np.bincount(kind, weights=work.gpu_seconds, minlength=len(relative)) @ (1.0 / relative)
    earned = (speed if speed.any() else np.ones_like(speed)) * work.capacity
    by_speed = earned / earned.sum()
    if len(relative) == 1:
        return [_Start(by_speed)]
    most_work = _Start(_dual(relative, kind, work.gpu_seconds, work.capacity)[0])
    third = _dual(relative, kind, work.gpu_seconds * _behind(work, most_work), work.capacity)[0]
    return [_Start(by_speed), most_work, _Start(third)]


def _promising_with_pairs(work: _Work, pairs: _Pairs) -> list[_Start]:
    """Return where to look for good prices if GPUs are shared. How two partners divide the price is also a choice: as in the
    solution of the program, or each as much as it could pay alone, reduced to what the pair may pay."""
    relative = np.where(work.usable, work.slowdown, FOREVER)

    def best(weight: Floats) -> _Start:
        shares, cost = _dual(relative, work.kind, weight, work.capacity, pairs)
        alone = work.alone(shares / work.capacity)
        return _Start(shares, np.clip(np.divide(cost, alone, out=np.ones_like(cost), where=alone > 0), 0.0, 1.0))

    most_work = best(work.gpu_seconds)
    third = best(work.gpu_seconds * _behind(work, most_work))
    return [_Start(most_work.shares), most_work, third, _Start(third.shares)]


def _behind(work: _Work, start: _Start) -> Floats:
    """Return how many jobs would wait behind each one, including itself, if the smallest went first."""
    behind = np.empty(len(work.kind))
    behind[np.argsort(-work.sizes(start), kind="stable")] = np.arange(1, len(behind) + 1)
    return behind


def _dual(relative: Floats, kind: Ints, weight: Floats, capacity: Ints, pairs: _Pairs | None = None) -> tuple[Floats, Floats]:
    """Return the shares that make the weighted sum of w the largest, and what each kind pays, from a linear program. The result
    only shows where to look: sizes follow from shares exactly, so the solver's tolerance cannot spoil a bound."""
    from rota.solver.lp import Lp, vertex  # here, since equal GPUs need no program

    kinds, pools = relative.shape
    of, pool = np.nonzero(np.isfinite(relative))
    row = np.arange(len(of))
    # Prices are relative to the price of a GPU if all cost the same, which keeps the numbers near 1.
    at_most = -relative[of, pool] * (capacity.sum() / capacity)[pool]
    total = len(of)
    rows = [row, row, np.full(pools, total)]
    columns, values = [pools + of, pool, np.arange(pools)], [np.ones(total), at_most, np.ones(pools)]
    if pairs is not None:
        row = np.arange(total + 1, total + 1 + len(pairs.pool))
        earned = -(capacity.sum() / capacity)[pairs.pool]
        rows += [row, row, row]
        columns += [pools + pairs.first, pools + pairs.second, pairs.pool]
        values += [pairs.first_speed, pairs.second_speed, earned]
    mass = np.bincount(kind, weights=weight, minlength=kinds)
    cost = np.concatenate((np.zeros(pools), -mass / (mass.max() or 1.0)))
    right = np.zeros(total + 1 + (0 if pairs is None else len(pairs.pool)))
    right[total] = 1.0  # what the whole cluster earns; less would never be better
    found = vertex(Lp(cost, np.concatenate(rows), np.concatenate(columns), np.concatenate(values), right))
    if found is None or not found.x[:pools].any():  # without work, any prices do
        return np.full(pools, 1.0 / pools), np.full(kinds, FOREVER)
    return found.x[:pools] / found.x[:pools].sum(), found.x[pools:] / capacity.sum()


def _largest(value: _Value, work: _Work, starts: Sequence[_Start]) -> float:
    """Return the largest bound over the starts and a pattern search from the best of them. The search moves towards each pool and
    away from each pool, and halves its step if neither helps. It is deterministic, and every point on its way is a valid
    bound."""
    best, (shares, lean) = -FOREVER, starts[0]
    for start in starts:
        found = value(work, work.sizes(start))
        if found > best:
            best, (shares, lean) = found, start
    pools = np.eye(len(shares))
    tries = SEARCH_JOBS // len(work.kind) if len(starts) > 1 else 0
    move = FIRST_MOVE
    while tries > 0 and move > LAST_MOVE:
        before = best
        for pool in pools:
            for tried in (shares + move * (pool - shares), shares * (1.0 - move * pool)):
                if tried.sum() > 0:
                    tried = tried / tried.sum()
                    found = value(work, work.sizes(_Start(tried, lean)))
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
    """Return the mean flow time of shortest remaining first on one machine: the number of jobs in it, summed over time."""
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
    """Return the mean of (mean busy time - submission) + p / 2 with the smallest size first, preemptively, on one machine."""
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
        if left[job] > 0:  # a job of size 0 is done when it arrives
            heapq.heappush(waiting, (left[job], job))
    for size, at in sorted(waiting):
        total += left[at] / size * (now - submitted[at] + left[at] / 2)
        now += left[at]
    return total / len(submitted) + float(work.shortest.mean()) / 2
