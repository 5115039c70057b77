"""No schedule goes below its bounds: no schedule of the simulator, and none that divides GPUs and time arbitrarily."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from rota.beliefs.efficiency import Efficiency
from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import Rates
from rota.core.decision_timing import AtEvents, AtRounds
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.model.policy import Policy
from rota.model.units import FOREVER, Floats
from rota.placers.packed import Packed
from rota.placers.random import Random
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo
from rota.policies.goodput import Goodput
from rota.policies.las import Las
from rota.policies.optimus import Optimus
from rota.policies.srsf import Srsf
from rota.policies.srtf import Srtf
from rota.policies.tiresias import Tiresias
from rota.report.bounds import bounds
from rota.report.metrics import Summary, summarise
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from tests.examples import examples

TOLERANCE = 1e-9
TYPES = ("V100", "P100", "K80")
PROFILES = ("a", "b", "c", "")

speeds = st.sampled_from([0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0]) | st.floats(0.1, 8.0)
lengths = st.sampled_from([0.0, 1.0, 10.0, 60.0]) | st.floats(0.0, 100.0)
overheads = st.sampled_from([0.0, 0.0, 1.5, 12.0])


@dataclass(frozen=True, eq=False)
class Case:
    cluster: Cluster
    physics: Physics
    arrivals: list[Arrival]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """One to three types, each one pool without structure or a few small nodes."""
    terms = []
    for accelerator in TYPES[: draw(st.integers(1, 3))]:
        nodes, gpus = draw(st.integers(1, 3)), draw(st.integers(1, 4))
        terms.append(draw(st.sampled_from([f"{nodes * gpus}x{accelerator}", f"{nodes}x({gpus}x{accelerator})"])))
    return Cluster.parse(" + ".join(terms))


@st.composite
def tables(draw: st.DrawFn) -> Rates:
    """Rates that grow or shrink with the count as they please; a type that is not listed cannot run the profile."""
    table = {}
    for profile in PROFILES[: draw(st.integers(0, 3))]:
        for accelerator in draw(st.lists(st.sampled_from(TYPES), min_size=1, unique=True)):
            for gpus in draw(st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True)):
                table[profile, accelerator, gpus] = draw(speeds)
    batches = {(*key, size): draw(speeds) for key in table for size in draw(st.sampled_from([(), (32, 64, 256)]))}
    relative = draw(st.one_of(st.just({}), st.fixed_dictionaries(dict.fromkeys(TYPES, speeds))))
    noise = {profile: draw(st.sampled_from([10.0, 300.0])) for profile in draw(st.sampled_from([(), ("a", "b")]))}
    return Rates(table=table, speeds=relative, batches=batches, efficiency=Efficiency(noise=noise))


@st.composite
def cases(draw: st.DrawFn, *, plain: bool = False, elastic: bool = True) -> Case:
    """Any workload that can run at all. `plain`: moves and spreading are free and GPUs of a type alike."""
    cluster = draw(clusters())
    uneven = not plain and draw(st.booleans())
    low, high = draw(st.sampled_from([(0.4, 1.0), (1.0, 2.5), (0.3, 3.0)]))
    gpu_speeds = st.lists(st.floats(low, high), min_size=cluster.gpus, max_size=cluster.gpus)
    fails = not plain and draw(st.sampled_from([False, False, False, True]))
    physics = Physics(
        rates=draw(tables()),
        gpu_speed=np.array(draw(gpu_speeds)) if uneven else None,
        spread_penalty=1.0 if plain else draw(st.sampled_from([1.0, 1.7])),
        launch_seconds=0.0 if plain else draw(overheads),
        checkpoint_seconds=0.0 if plain else draw(overheads),
        restore_seconds=0.0 if plain else draw(overheads),
        node_mtbf_seconds=2000.0 if fails else FOREVER,
        node_repair_seconds=30.0,
        checkpoint_every_seconds=20.0 if fails else FOREVER,
    )
    now_s, arrivals = draw(st.sampled_from([0.0, 1234.5])), []
    for _ in range(draw(st.integers(1, 12))):
        now_s += draw(lengths)
        spec = JobSpec(
            gpus=draw(st.integers(1, 5)),
            gpu_counts=() if plain or not elastic else tuple(draw(st.lists(st.integers(1, 5), max_size=2))),
            batch_size=64,
            batch_sizes=() if plain or not elastic else tuple(draw(st.sampled_from([(), (), (32, 256)]))),
            can_resize=draw(st.booleans()),
            steps=draw(st.integers(1, 20) | st.floats(0.5, 300.0)),
            profile=draw(st.sampled_from(PROFILES)),
            accelerators=tuple(draw(st.sampled_from([(), (), (), ("V100",), ("K80", "P100")]))),
            can_park=draw(st.booleans()),
        )
        if physics.fastest(spec, cluster):
            arrivals.append(Arrival(now_s, spec))
    return Case(cluster, physics, arrivals or [Arrival(now_s, JobSpec(steps=10.0))])


POLICIES: list[Policy] = [
    Fifo(),
    Fifo(backfill=True),
    Srsf(),
    Srtf(),
    Tiresias(thresholds=(20.0, 100.0)),
    Tiresias(thresholds=(60.0,), service="seconds"),
    Las(quantum_seconds=60.0),
    Goodput(),
    Optimus(interval_seconds=100.0),
]
MOMENTS = [
    Settings(),
    Settings(decide=AtEvents(solve_every_seconds=50.0)),
    Settings(decide=AtRounds(round_seconds=30.0, at_events=True)),
    Settings(decide=AtRounds(round_seconds=60.0)),
]


@st.composite
def runs(draw: st.DrawFn) -> tuple[Case, Summary, Summary]:
    """A simulated case: all of its jobs, and a window of them."""
    case = draw(cases())
    physics = case.physics
    costs = MoveCosts(physics.launch_seconds, physics.checkpoint_seconds, physics.restore_seconds, physics.resize_seconds)
    sticky = draw(st.booleans())
    placer = draw(st.sampled_from([Packed, Spread, Random]))(sticky=sticky)
    core = Scheduler(case.cluster, placer, draw(st.sampled_from(MOMENTS)), rates=physics.rates, costs=costs)
    policy = draw(st.sampled_from(POLICIES))
    record = Engine(core, policy, physics, case.arrivals, report_seconds=20.0 if physics.fails else FOREVER).run()
    first = draw(st.integers(0, len(case.arrivals) - 1))
    last = draw(st.integers(first + 1, len(case.arrivals)))

    def summary(window: tuple[int, int] | None) -> Summary:
        return summarise(
            record,
            case.arrivals,
            case.cluster,
            physics,
            window=window,
            rounds=None,
            decisions=record.decisions,
            decision_seconds=None,
            simulated_in_seconds=None,
            peak_memory_mb=None,
        )

    return case, summary(None), summary((first, last))


@given(runs())
@examples(600)
def test_no_simulation_beats_its_bounds(run: tuple[Case, Summary, Summary]) -> None:
    case, whole, window = run
    assert whole.finished == whole.jobs == len(case.arrivals)
    for found in (whole, window):
        assert found.mean_jct_seconds is not None and found.makespan_seconds is not None
        assert found.mean_jct_bound_seconds is not None and found.makespan_bound_seconds is not None
        assert found.gap_to_jct_bound is not None
        assert 0 < found.mean_jct_bound_seconds < FOREVER
        assert 0 < found.makespan_bound_seconds < FOREVER
        assert found.gap_to_jct_bound >= -TOLERANCE
        assert found.makespan_seconds >= found.makespan_bound_seconds * (1 - TOLERANCE)
    assert whole.utilization is not None and 0 < whole.utilization <= 1 + TOLERANCE


# A scheduler that cheats -----------------------------------------------------------------------------------------

Key = Callable[[Floats, Floats], Floats]
KEYS: dict[str, Key] = {
    "shortest left": lambda seconds, gpus: seconds,
    "least service left": lambda seconds, gpus: seconds * gpus,
    "longest left": lambda seconds, gpus: -seconds,
    "widest": lambda seconds, gpus: -gpus,
}


def fluid(case: Case, key: Key, taste: Floats) -> Floats:
    """End of each job in a schedule no machine could carry out: a gang may run on a fraction of its GPUs, and on several pools
    at once, as long as its fractions sum to 1. At every arrival and end all is dealt out anew, in the order of the key, each job
    taking the pools where its rate over the taste for the pool is best."""
    count, pools = len(case.arrivals), len(case.cluster.pools)
    submitted = np.array([arrival.submitted_s for arrival in case.arrivals])
    gpus = np.array([float(arrival.spec.gpus) for arrival in case.arrivals])
    left = np.array([float(arrival.spec.steps) for arrival in case.arrivals])
    rates = np.zeros((count, pools))
    for job, arrival in enumerate(case.arrivals):
        for pool, rate in case.physics.fastest(arrival.spec, case.cluster).items():
            rates[job, pool] = rate
    ends = np.full(count, np.nan)
    now_s = submitted[0]
    while np.isnan(ends).any():
        here = np.flatnonzero((submitted <= now_s) & np.isnan(ends))
        free = case.cluster.pool_gpus.astype(np.float64)
        speed = np.zeros(count)
        for job in here[np.argsort(key(left[here] / rates[here].max(axis=1), gpus[here]), kind="stable")].tolist():
            share = 1.0
            for pool in np.argsort(-rates[job] / taste, kind="stable").tolist():
                if rates[job, pool] > 0:
                    part = min(share, free[pool] / gpus[job])
                    speed[job] += part * rates[job, pool]
                    share -= part
                    free[pool] -= part * gpus[job]
        runs = speed > 0
        finish = np.full(count, FOREVER)
        finish[runs] = now_s + left[runs] / speed[runs]
        coming = submitted[submitted > now_s].min(initial=FOREVER)
        if finish.min() <= coming:
            job = int(np.argmin(finish))
            ends[job] = finish[job]
        until_s = min(float(finish.min()), coming)
        left = np.maximum(left - speed * (until_s - now_s), 0.0)
        now_s = until_s
    return ends


def check(case: Case, ends: Floats) -> None:
    found = bounds(case.arrivals, case.cluster, case.physics)
    submitted = np.array([arrival.submitted_s for arrival in case.arrivals])
    assert found.run_time_seconds is not None and found.srpt_seconds is not None and found.busy_time_seconds is not None
    assert found.mean_jct_seconds is not None and found.makespan_seconds is not None
    parts = (found.run_time_seconds, found.srpt_seconds, found.busy_time_seconds)
    assert all(0 < part < FOREVER for part in (*parts, found.makespan_seconds))
    assert found.mean_jct_seconds == max(parts)
    assert found.offered_load is None or 0 < found.offered_load < FOREVER
    assert (ends - submitted).mean() >= found.mean_jct_seconds * (1 - TOLERANCE)
    assert ends.max() - submitted[0] >= found.makespan_seconds * (1 - TOLERANCE)


@pytest.mark.parametrize("order", KEYS)
@given(case=cases(plain=True), taste=st.lists(st.sampled_from([0.25, 1.0, 4.0]), min_size=3, max_size=3))
@examples(150)
def test_no_fluid_schedule_beats_its_bounds(order: str, case: Case, taste: list[float]) -> None:
    check(case, fluid(case, KEYS[order], np.array(taste[: len(case.cluster.pools)])))


@given(
    st.lists(st.tuples(lengths, st.floats(0.5, 300.0)), min_size=1, max_size=20),
    st.integers(1, 64),
)
@examples(150)
def test_jobs_as_wide_as_the_cluster_reach_the_bound(jobs: list[tuple[float, float]], gpus: int) -> None:
    """Then the cluster is one machine, and shortest-remaining-first is the best there is."""
    submitted = np.cumsum([gap for gap, _ in jobs])
    arrivals = [Arrival(at_s, JobSpec(gpus=gpus, steps=seconds)) for at_s, (_, seconds) in zip(submitted, jobs, strict=True)]
    case = Case(Cluster.parse(f"{gpus}xV100"), Physics(), arrivals)
    ends = fluid(case, KEYS["shortest left"], np.ones(1))
    found = bounds(arrivals, case.cluster, case.physics)
    assert found.srpt_seconds == pytest.approx((ends - submitted).mean(), rel=1e-9)
    assert found.mean_jct_seconds == pytest.approx(found.srpt_seconds, rel=1e-9)
    assert found.makespan_seconds == pytest.approx(ends.max() - submitted[0], rel=1e-9)


@given(case=cases(elastic=False))
@examples(150)
def test_offered_load_is_the_least_time_the_work_could_take(case: Case) -> None:
    """Strong duality: the best prices ask for as much of the cluster's time as the best division of the work over pools needs."""
    cluster, arrivals = case.cluster, case.arrivals
    ways = [
        (job, pool, rate)
        for job, arrival in enumerate(arrivals)
        for pool, rate in case.physics.fastest(arrival.spec, cluster).items()
    ]
    work = np.zeros((len(arrivals), len(ways) + 1))
    taken = np.zeros((len(cluster.pools), len(ways) + 1))
    taken[:, -1] = -cluster.pool_gpus
    for way, (job, pool, rate) in enumerate(ways):
        work[job, way] = rate / arrivals[job].spec.steps
        taken[pool, way] = arrivals[job].spec.gpus
    least = linprog(
        np.append(np.zeros(len(ways)), 1.0),
        A_ub=taken,
        b_ub=np.zeros(len(taken)),
        A_eq=work,
        b_eq=np.ones(len(arrivals)),
    )
    span = arrivals[-1].submitted_s - arrivals[0].submitted_s
    load = bounds(arrivals, cluster, case.physics).offered_load
    if span <= 0:
        assert load is None
        return
    assert load is not None and load <= least.fun / span * (1 + 1e-6)
    if load < least.fun / span * (1 - 1e-6):
        # Then it is the most that jobs would have at once if none waited, which is a simple count in a single pool.
        shortest = bounds(arrivals, cluster, case.physics).shortest_seconds
        lives = [(a.submitted_s, a.submitted_s + t, a.spec.gpus) for a, t in zip(arrivals, shortest.tolist(), strict=True)]
        there = [sum(gpus for begin, end, gpus in lives if begin <= at < end) for at, _, _ in lives]
        if len(cluster.pools) == 1:
            assert load == pytest.approx(max(there) / cluster.gpus, rel=1e-6)
