"""Bounds computed by hand: a few jobs, one and two pools."""

import math
from typing import Any

import numpy as np
import pytest

from rota.beliefs.rates import Rates
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.report.bounds import Bounds, _pairs, bounds
from rota.sim.physics import Physics

TWO = Cluster.parse("2xV100")
UNEQUAL = Cluster.parse("1xV100 + 1xK80")


def job(submitted_s: float, gpus: int, steps: float | None, **more: object) -> Arrival:
    return Arrival(submitted_s, JobSpec(gpus=gpus, steps=steps, **more))  # type: ignore[arg-type]


def values(found: Bounds) -> tuple[float | None, ...]:
    """Run time, SRPT, busy time, makespan, offered load."""
    return (
        found.run_time_seconds,
        found.srpt_seconds,
        found.busy_time_seconds,
        found.makespan_seconds,
        found.offered_load,
    )


def test_one_pool() -> None:
    # Sizes on the unit machine: 10, 2 and 3. The second goes first, the third comes when both are done.
    found = bounds([job(0, 2, 10), job(0, 1, 4), job(20, 1, 6)], TWO, Physics())
    assert values(found) == pytest.approx((20 / 3, (2 + 12 + 3) / 3, (1 + 7 + 1.5 + 10) / 3, 26, 15 / 20))
    assert found.mean_jct_seconds == pytest.approx(20 / 3)
    assert found.shortest_seconds.tolist() == [10, 4, 6]


def test_what_is_left_decides_in_one_bound_and_the_size_in_the_other() -> None:
    # At 9 the first job has 1 left of 10 and the second brings 5: SRPT goes on, smallest-first does not.
    found = bounds([job(0, 1, 10), job(9, 1, 5)], Cluster.parse("1xV100"), Physics())
    first_busy = (9 * 4.5 + 1 * 14.5) / 10
    assert values(found) == pytest.approx((7.5, (10 + 6) / 2, (first_busy + 2.5 + 7.5) / 2, 15, 15 / 9))  # two at once ask for 2
    assert found.mean_jct_seconds == 8


def test_time_may_start_anywhere_and_jobs_may_come_in_any_order() -> None:
    jobs = [job(0, 2, 10), job(0, 1, 4), job(20, 1, 6)]
    later = [job(arrival.submitted_s + 1e6, arrival.spec.gpus, arrival.spec.steps) for arrival in reversed(jobs)]
    found, moved = bounds(jobs, TWO, Physics()), bounds(later, TWO, Physics())
    assert values(moved) == pytest.approx(values(found))
    assert moved.shortest_seconds.tolist() == [6, 4, 10]


def test_three_long_jobs_that_never_queue_are_no_heavy_load() -> None:
    """What a user saw: an offered load of 12.66 for three jobs on a cluster that had room for all of them."""
    cluster = Cluster.parse("24xV100")
    few = bounds([job(0, 4, 36_000), job(300, 4, 36_000), job(600, 4, 36_000)], cluster, Physics())
    assert few.offered_load == pytest.approx(12 / 24), "three times four of 24 GPUs at most"
    apart = bounds([job(0, 4, 3600), job(36_000, 4, 3600), job(72_000, 4, 3600)], cluster, Physics())
    assert apart.offered_load == pytest.approx(3 * 4 * 3600 / (24 * 72_000)), "one after the other: work over time"
    full = bounds([job(i, 24, 36_000) for i in range(3)], cluster, Physics())
    assert full.offered_load == pytest.approx(3.0), "three times the cluster at once"
    back_to_back = bounds([job(0, 24, 100), job(100, 24, 100)], cluster, Physics())
    assert back_to_back.offered_load == pytest.approx(1.0), "the first ends as the second comes"


def test_two_pools_that_all_jobs_rate_alike() -> None:
    # Together the pools make 3 steps a second, so each job is worth 4 s of the whole; alone on the V100 it takes 6.
    physics = Physics(rates=Rates(speeds={"V100": 2.0, "K80": 1.0}))
    found = bounds([job(0, 1, 12), job(0, 1, 12)], UNEQUAL, physics)
    assert values(found) == (6, pytest.approx((4 + 8) / 2), pytest.approx((2 + 6) / 2 + 3), pytest.approx(8), None)
    assert found.mean_jct_seconds == pytest.approx(7)


def test_the_pool_that_is_short_gets_the_price() -> None:
    # 40 s of work only the V100 can do, 10 s that either could: the V100 alone is asked for twice the time there is.
    physics = Physics(rates=Rates(table={("a", "V100", 1): 1.0, ("b", "V100", 1): 1.0, ("b", "K80", 1): 1.0}))
    jobs = [job(0, 1, 20, profile="a"), job(10, 1, 20, profile="a"), job(20, 1, 10, profile="b")]
    found = bounds(jobs, UNEQUAL, physics)
    assert found.offered_load == pytest.approx(2.0)
    assert found.makespan_seconds == pytest.approx(40)


def test_the_careless_extension_would_be_too_high() -> None:
    # Each pool is best at one of the jobs: both end after 10 s, though each needs half the GPUs for 10 s of its best rate.
    table = {("a", "V100", 1): 1.0, ("a", "K80", 1): 0.1, ("b", "V100", 1): 0.1, ("b", "K80", 1): 1.0}
    found = bounds([job(0, 1, 10, profile="a"), job(0, 1, 10, profile="b")], UNEQUAL, Physics(rates=Rates(table=table)))
    assert found.makespan_seconds == pytest.approx(10)
    assert found.mean_jct_seconds == pytest.approx(10)


def test_each_bound_takes_the_prices_that_suit_it() -> None:
    # Most of the work is on the V100 and settles the sum; the many short jobs on the K80 settle the mean JCT.
    physics = Physics(rates=Rates(table={("long", "V100", 1): 1.0, ("short", "K80", 1): 1.0}))
    jobs = [job(0, 1, 100, profile="long"), *(job(0, 1, 1, profile="short") for _ in range(40))]
    found = bounds(jobs, UNEQUAL, physics)
    assert found.makespan_seconds == pytest.approx(100)
    assert found.srpt_seconds is not None
    assert found.srpt_seconds >= sum(range(1, 41)) / 41


def test_a_job_may_refuse_a_pool_or_not_fit_it() -> None:
    physics = Physics(rates=Rates(speeds={"V100": 4.0, "K80": 1.0}))
    cluster = Cluster.parse("1xV100 + 2xK80")
    found = bounds([job(0, 2, 10), job(0, 1, 10, accelerators=("K80",)), job(0, 1, 10)], cluster, physics)
    assert found.shortest_seconds.tolist() == [10, 10, 2.5]
    assert found.makespan_seconds == pytest.approx(15)  # 30 GPU-seconds on two K80s


def test_a_gang_is_as_fast_as_its_slowest_gpu_at_best() -> None:
    physics = Physics(gpu_speed=np.array([0.5, 2.0]))
    found = bounds([job(0, 2, 10), job(0, 1, 10)], TWO, physics)
    assert found.shortest_seconds.tolist() == [20, 5]
    assert found.makespan_seconds == pytest.approx(20 + 2.5)


@pytest.mark.parametrize(
    "unknown",
    [job(1, 1, None), job(1, 4, 10), job(1, 1, 10, accelerators=("A100",))],
    ids=["unknown steps", "too large", "no such type"],
)
def test_unknown_work_has_no_bound(unknown: Arrival) -> None:
    found = bounds([job(0, 1, 4), unknown], TWO, Physics())
    assert values(found) == (None,) * 5
    assert found.mean_jct_seconds is None
    assert found.shortest_seconds.tolist() == [4, math.inf]


def test_no_jobs() -> None:
    found = bounds([], TWO, Physics())
    assert values(found) == (None,) * 5
    assert len(found.shortest_seconds) == 0


def test_one_job_offers_no_load_over_no_time() -> None:
    found = bounds([job(5, 1, 4)], TWO, Physics())
    assert values(found) == (4, 2, 3, 4, None)


@pytest.mark.parametrize("cluster", ["2xV100", "1xV100 + 1xK80"])
def test_jobs_without_work_are_no_trouble(cluster: str) -> None:
    jobs = [job(0, 1, 0), job(0, 1, 0, accelerators=("V100",)), job(2, 1, 0)]
    assert values(bounds(jobs, Cluster.parse(cluster), Physics())) == (0, 0, 0, 2, 0)


def test_more_kinds_than_pools_and_more_jobs_than_the_search_may_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    names = [f"p{i}" for i in range(12)]
    table = {(name, pool, 1): float(rng.uniform(0.5, 4)) for name in names for pool in ("V100", "P100", "K80")}
    jobs = [job(float(i), 1, float(rng.uniform(1, 100)), profile=names[i % 12]) for i in range(60)]
    cluster, physics = Cluster.parse("2xV100 + 1xP100 + 3xK80"), Physics(rates=Rates(table=table))
    searched = bounds(jobs, cluster, physics)
    monkeypatch.setattr("rota.report.bounds.SEARCH_JOBS", 0)
    unsearched = bounds(jobs, cluster, physics)
    assert searched.srpt_seconds is not None and unsearched.srpt_seconds is not None
    assert 0 < unsearched.srpt_seconds <= searched.srpt_seconds
    assert searched.offered_load == unsearched.offered_load


class Counted(dict[tuple[int, str], float]):
    """A table that counts how often it is asked."""

    asked = 0

    def get(self, key: tuple[int, str], default: Any = None) -> Any:
        Counted.asked += 1
        return super().get(key, default)


def test_pairs_are_looked_up_where_they_were_measured() -> None:
    """What a user saw: with thousands of profiles every profile was held against every other, though no pair was known."""
    count = 600
    specs = [JobSpec(profile=f"p{i}") for i in range(count)]
    rates = np.ones((count, 2))
    company = [Counted({(0, f"p{i ^ 1}"): 0.8}) for i in range(count)]
    Counted.asked = 0
    found = _pairs(specs, rates, company)
    assert found is not None and Counted.asked <= 2 * count
    expected = [(a, a - 1, 0) for a in range(1, count, 2)]
    assert list(zip(found.first.tolist(), found.second.tolist(), found.pool.tolist(), strict=True)) == expected
    assert _pairs(specs, rates, [Counted()] * count) is None


def test_pairs_are_those_of_a_full_search() -> None:
    draw = np.random.default_rng(1)
    specs = [JobSpec(profile=f"p{i % 7}", gpus=int(draw.choice([1, 2])), accelerators=("V100",) * (i % 2)) for i in range(30)]
    rates = draw.uniform(1, 2, (30, 3))
    company = [
        {
            (int(pool), f"p{other}"): float(draw.uniform(0.3, 1.5))
            for pool in range(3)
            for other in range(7)
            if draw.random() < 0.5
        }
        for _ in specs
    ]
    found = _pairs(specs, rates, company)
    best = rates.max(axis=1)
    expected = []
    for a, spec in enumerate(specs):
        for b in range(a + 1):
            for pool in range(3):
                one, other = company[a].get((pool, specs[b].profile)), company[b].get((pool, spec.profile))
                if specs[b].gpus != spec.gpus or one is None or other is None:
                    continue
                if one / rates[a, pool] + other / rates[b, pool] > 1:
                    expected.append((a, b, pool, one / best[a], other / best[b]))
    assert found is not None
    columns = (found.first, found.second, found.pool, found.first_speed, found.second_speed)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
