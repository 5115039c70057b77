"""What many measurements, a long queue and many profiles cost, in CPU seconds of this process.

    .venv/bin/python -m benchmarks.many

Three things that once grew with the square of something: estimates of pairs (`--known-rates` with packing), `hierarchical` with
tenants that serve their jobs in order, and bounds of jobs with thousands of profiles. Everything is made up from a seed.
"""

import time
from collections.abc import Callable

import numpy as np

import rota
from rota.beliefs.rates import Rates
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.model.tenants import Tenants
from rota.policies.hierarchical import Hierarchical
from rota.report.bounds import bounds
from rota.sim.physics import Physics
from rota.solver.raising import Raise
from rota.traces.trace import Trace

TYPES = {"V100": 1.0, "P100": 0.55, "K80": 0.2}
PROFILES = 24


def profiled_with_packing(jobs: int = 30) -> str:
    """Jobs of profiles of which three cells of ten were measured, in pairs too."""
    draw = np.random.default_rng(0)
    speed = {f"p{i}": float(draw.uniform(1, 20)) for i in range(PROFILES)}
    left = {name: float(draw.uniform(0.35, 0.9)) for name in speed}
    table = {(name, kind, 1): rate * factor for name, rate in speed.items() for kind, factor in TYPES.items()}
    pairs = {
        (a, b, kind, 1): (table[a, kind, 1] * left[b], table[b, kind, 1] * left[a])
        for a in speed
        for b in speed
        if a <= b
        for kind in TYPES
    }
    arrivals = [Arrival(60.0 * i, JobSpec(steps=float(draw.uniform(2e4, 2e5)), profile=f"p{i % PROFILES}")) for i in range(jobs)]
    made = rota.simulate(
        Trace.of("made", "made", arrivals),
        policy="max-min-fairness:colocation=true",
        cluster="3xV100 + 3xP100 + 3xK80",
        rates=Rates(table, pairs=pairs),
        known_rates=0.3,
    )
    return f"{jobs} jobs, {len(pairs):,} pairs, {made.summary.decisions} decisions"


def queue_in_order(jobs: int = 150) -> str:
    """Two tenants that serve their jobs in order, and a pool that none of them can use."""
    draw, programs, solve = np.random.default_rng(0), 0, Raise.solve

    def counted(self: Raise, *given: np.ndarray) -> object:
        nonlocal programs
        programs += 1
        return solve(self, *given)

    arrivals = [
        Arrival(
            float(i),
            JobSpec(
                gpus=int(draw.choice([1, 2, 4])),
                steps=float(draw.uniform(500, 5000)),
                accelerators=("V100",),
                tenant=("vision", "speech")[i % 2],
            ),
        )
        for i in range(jobs)
    ]
    tenants = Tenants({"vision": 2.0}, {"": "fifo"})
    Raise.solve = counted  # type: ignore[method-assign,assignment]
    try:
        made = rota.simulate(Trace.of("made", "made", arrivals), policy=Hierarchical(tenants), cluster="8xV100 + 8xK80")
    finally:
        Raise.solve = solve  # type: ignore[method-assign]
    return f"{jobs} jobs, {programs:,} programs in {made.summary.decisions} decisions"


def bounds_of_many_profiles(jobs: int = 4000) -> str:
    """Every job with a profile of its own."""
    draw = np.random.default_rng(0)
    table = {(f"p{i}", kind, 1): float(draw.uniform(0.5, 5)) for i in range(jobs) for kind in TYPES}
    arrivals = [Arrival(float(i), JobSpec(steps=float(draw.uniform(100, 1000)), profile=f"p{i}")) for i in range(jobs)]
    found = bounds(arrivals, Cluster.parse("8xV100 + 8xP100 + 8xK80"), Physics(rates=Rates(table)))
    return f"{jobs:,} profiles, mean JCT bound {found.mean_jct_seconds:,.6g} s"


def main() -> None:
    rota.simulate("synthetic:jobs=5", policy="max-min-fairness")  # what is loaded once is not counted
    bounds_of_many_profiles(50)
    benchmarks: tuple[Callable[[], str], ...] = (profiled_with_packing, queue_in_order, bounds_of_many_profiles)
    for run in benchmarks:
        began = time.process_time()
        told = run()
        print(f"{time.process_time() - began:7.2f} s  {run.__name__}: {told}")


if __name__ == "__main__":
    main()
