"""Two jobs on a GPU, for any workload: never three, never an ungranted pair, no work done twice or lost, and no bound beaten."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from rota.beliefs.locality import Locality
from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import Rates
from rota.core.decision_timing import AtEvents, AtRounds, DecisionTiming
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.snapshot import make_codec
from rota.core.validate import validate
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.model.units import FOREVER, Floats
from rota.placers.packed import Packed
from rota.placers.random import Random
from rota.placers.spread import Spread
from rota.report.bounds import bounds
from rota.report.metrics import summarise
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from rota.sim.record import Record
from rota.sim.recorded_step import Journal
from tests.examples import examples
from tests.packing import Crowded, Evenly

TOLERANCE = 1e-9
TYPES = ("V100", "P100", "K80")
PROFILES = ("a", "b", "")
FLOORS = ("1xV100", "3xV100", "2x(2xV100) + 1x(4xK80)", "1x(4xV100) + 2x(2xP100) + 2xK80")
MOMENTS: tuple[DecisionTiming, ...] = (
    AtEvents(),
    AtEvents(slice_seconds=30.0),
    AtRounds(round_seconds=40.0),
    AtRounds(round_seconds=45.0, at_events=True),
    AtEvents(solve_every_seconds=70.0, slice_seconds=20.0),
)

speeds = st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0]) | st.floats(0.1, 4.0)
slowdowns = st.sampled_from([0.3, 0.5, 0.7, 0.95, 1.0, 1.1]) | st.floats(0.05, 1.2)


@dataclass(frozen=True, eq=False)
class Case:
    cluster: Cluster
    rates: Rates
    physics: Physics
    arrivals: list[Arrival]


@st.composite
def cases(draw: st.DrawFn, *, kind: bool = False, most: int = 14) -> Case:
    """Any workload with measured pairs. `kind`: moves cost nothing, GPUs of a type are alike, nothing fails."""
    cluster = Cluster.parse(draw(st.sampled_from(FLOORS)))
    table = {(name, card, n): draw(speeds) * n for name in PROFILES[:2] for card in TYPES for n in (1, 2, 3)}
    plain = Rates(table=table, speeds=dict.fromkeys(TYPES, 1.0))
    pairs = {}
    for i, one in enumerate(PROFILES):
        for other in PROFILES[i:]:
            for card in draw(st.lists(st.sampled_from(TYPES), min_size=1, unique=True)):
                for n in (1, 2, 3):
                    alone = plain.rate(one, card, n)[0], plain.rate(other, card, n)[0]
                    pairs[one, other, card, n] = (alone[0] * draw(slowdowns), alone[1] * draw(slowdowns))
    penalty = 1.0 if kind else draw(st.sampled_from([1.0, 1.6]))
    rates = Rates(table=table, speeds=plain.speeds, pairs=pairs, spread_penalty=Locality.of(penalty))
    uneven = not kind and draw(st.booleans())
    fails = not kind and draw(st.sampled_from([False, False, True]))
    physics = Physics(
        rates=rates,
        gpu_speed=np.array([draw(st.floats(0.5, 1.5)) for _ in range(cluster.gpus)]) if uneven else None,
        launch_seconds=0.0 if kind else draw(st.sampled_from([0.0, 2.0])),
        checkpoint_seconds=0.0 if kind else draw(st.sampled_from([0.0, 3.0])),
        restore_seconds=0.0 if kind else draw(st.sampled_from([0.0, 1.0])),
        node_mtbf_seconds=900.0 if fails else FOREVER,
        node_repair_seconds=30.0,
        checkpoint_every_seconds=25.0 if fails else FOREVER,
    )
    now_s, arrivals = 0.0, []
    for _ in range(draw(st.integers(2, most))):
        now_s += draw(st.sampled_from([0.0, 0.0, 5.0, 40.0]) | st.floats(0.0, 60.0))
        spec = JobSpec(
            gpus=draw(st.sampled_from([1, 1, 1, 2, 3])),
            steps=draw(st.floats(1.0, 300.0)),
            profile=draw(st.sampled_from(PROFILES)),
            accelerators=tuple(draw(st.sampled_from([(), (), (), ("V100",), ("K80", "V100")]))),
            can_park=draw(st.booleans()),
        )
        if physics.fastest(spec, cluster):
            arrivals.append(Arrival(now_s, spec))
    return Case(cluster, rates, physics, arrivals or [Arrival(now_s, JobSpec(steps=10.0))])


class Watched(Scheduler):
    """Looked at after every step; remembers the units it saw."""

    shared = 0

    def fold(self, now_s: float, events: Any) -> None:
        super().fold(now_s, events)
        validate(self.state)

    def commit(self, decided: Any) -> Any:
        commands = super().commit(decided)
        validate(self.state)
        self.shared += int(bool(self.state.nodes.observed.shared))
        return commands


@st.composite
def runs(draw: st.DrawFn, **options: Any) -> tuple[Case, Watched, Record, Journal]:
    case = draw(cases(**options))
    physics = case.physics
    costs = MoveCosts(physics.launch_seconds, physics.checkpoint_seconds, physics.restore_seconds)
    placer = draw(st.sampled_from([Packed(), Packed(), Random(), Spread(), Packed(sticky=False), Random(sticky=False)]))
    chosen = Settings(colocation=True, seed=draw(st.integers(0, 5)), decide=draw(st.sampled_from(MOMENTS)))
    core = Watched(case.cluster, placer, chosen, rates=case.rates, costs=costs)
    journal: Journal = []
    report = 20.0 if physics.fails else FOREVER
    policy = draw(st.sampled_from([Crowded(), Evenly()]))
    record = Engine(core, policy, physics, case.arrivals, seed=1, report_seconds=report, journal=journal).run()
    return case, core, record, journal


def most_at_once(record: Record, gpus: int) -> list[int]:
    """The largest number of jobs that ever had each GPU at the same time."""
    holds, found = record.gpu_intervals, []
    held = [holds.gpus[holds.first[i] : holds.first[i + 1]] for i in range(len(holds))]
    for gpu in range(gpus):
        here = [i for i in range(len(holds)) if gpu in held[i] and holds.end_s[i] > holds.start_s[i]]
        edges = sorted([(holds.start_s[i], 1) for i in here] + [(holds.end_s[i], -1) for i in here])
        found.append(int(np.cumsum([step for _, step in edges]).max(initial=0)))
    return found


@given(runs())
@examples(100)
def test_never_three_and_never_strangers(run: tuple[Case, Watched, Record, Journal]) -> None:
    """`validate` looks for strangers after every fold and every decision."""
    case, core, record, _ = run
    assert not np.isnan(record.finished_s).any()
    assert max(most_at_once(record, case.cluster.gpus)) <= 2
    assert core.state.nodes.observed.free.all() and core.state.nodes.planned.free.all()
    assert not core.state.nodes.observed.gpu_fractions and not core.state.nodes.planned.gpu_fractions


def test_the_runs_do_share() -> None:
    seen = []

    @given(runs())
    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    def look(run: tuple[Case, Watched, Record, Journal]) -> None:
        seen.append(run[1].shared)

    look()
    assert sum(count > 0 for count in seen) >= len(seen) / 5


@given(runs(kind=True))
@examples(60)
def test_true_beliefs_foresee_every_step(run: tuple[Case, Watched, Record, Journal]) -> None:
    """With nothing to disturb them, what the core believes a job has done when it ends is what it had to do."""
    case, _, record, journal = run
    twin = Scheduler(case.cluster, Packed(), Settings(colocation=True), rates=case.rates)
    for now_s, events, decided in journal:
        for event in events:
            if type(event).__name__ == "Exited":
                row = twin.state.jobs.row[event.job]
                jobs = twin.state.jobs.table
                believed = jobs.steps_done[row] + jobs.rate[row] * (now_s - jobs.as_of_s[row])
                assert believed == pytest.approx(case.arrivals[event.job].spec.steps, rel=1e-6, abs=1e-6)
            twin.fold(now_s, [event])
        twin.commit(decided)
    assert not twin.state.jobs.row and len(record.finished_s) == len(case.arrivals)


@given(runs(kind=True))
@examples(60)
def test_all_work_is_done_once(run: tuple[Case, Watched, Record, Journal]) -> None:
    """From who had which GPUs when alone follows how many steps each job has done."""
    case, _, record, _ = run
    holds = record.gpu_intervals
    done = np.zeros(len(case.arrivals))
    for i, job in enumerate(holds.job.tolist()):
        gpus = holds.gpus[holds.first[i] : holds.first[i + 1]]
        spec = case.arrivals[job].spec
        nodes = len(set(case.cluster.gpu_node[gpus].tolist()))
        alone = case.physics.rate(spec, case.cluster, gpus, nodes)
        done[job] += alone * (holds.end_s[i] - holds.start_s[i])
        for j, other in enumerate(holds.job.tolist()):
            both = min(holds.end_s[i], holds.end_s[j]) - max(holds.start_s[i], holds.start_s[j])
            if other != job and both > 0 and holds.gpus[holds.first[j]] in gpus:
                colocated_with = case.arrivals[other].spec
                done[job] -= both * (alone - case.physics.colocated_rate(spec, colocated_with, case.cluster, gpus, nodes))
    assert done == pytest.approx([arrival.spec.steps for arrival in case.arrivals], rel=1e-6, abs=1e-6)
    assert record.occupied_gpu_seconds.sum() == pytest.approx(record.pool_gpu_seconds.sum())


@given(runs(), st.floats(0, 1))
@examples(30)
def test_a_snapshot_and_the_rest_equal_the_whole(run: tuple[Case, Watched, Record, Journal], where: float) -> None:
    case, core, _, journal = run
    words, cut = make_codec(), int(where * len(journal))

    def make() -> Scheduler:
        return Scheduler(case.cluster, core.placer, core.settings, rates=case.rates, costs=core.state.beliefs.costs)

    whole, half = make(), make()
    saved = half.snapshot(words)
    for number, (now_s, events, decided) in enumerate(journal):
        whole.fold(now_s, events)
        again = whole.decide()
        assert words.encode(again) == words.encode(decided), "deciding again gives the same"
        whole.commit(decided)
        if number + 1 == cut:
            saved = whole.snapshot(words)
    half.restore(saved, words)
    for now_s, events, decided in journal[cut:]:
        half.fold(now_s, events)
        half.commit(decided)
    assert half.snapshot(words) == whole.snapshot(words) == core.snapshot(words)


# Bounds ----------------------------------------------------------------------------------------------------------


@given(runs(), st.integers(0, 100), st.integers(1, 100))
@examples(100)
def test_no_simulation_beats_its_bounds(run: tuple[Case, Watched, Record, Journal], first: int, length: int) -> None:
    case, _, record, _ = run
    count = len(case.arrivals)
    for window in (None, (first % count, first % count + length)):
        found = summarise(
            record,
            case.arrivals,
            case.cluster,
            case.physics,
            window=window,
            rounds=None,
            decisions=0,
            decision_seconds=None,
            simulated_in_seconds=None,
            peak_memory_mb=None,
        )
        assert found.gap_to_jct_bound is not None and found.gap_to_jct_bound >= -TOLERANCE
        assert found.makespan_seconds is not None and found.makespan_bound_seconds is not None
        assert found.makespan_seconds >= found.makespan_bound_seconds * (1 - TOLERANCE)
        assert found.utilization is not None and found.utilization <= 1 + TOLERANCE


def ways(case: Case) -> list[tuple[int, float, tuple[int, ...], tuple[float, ...]]]:
    """(pool, GPUs, jobs, rates) of everything that can run: a job alone, or two of the same width."""
    found = []
    fastest = [case.physics.fastest(arrival.spec, case.cluster) for arrival in case.arrivals]
    for i, (_, spec) in enumerate(case.arrivals):
        for pool, rate in fastest[i].items():
            found.append((pool, float(spec.gpus), (i,), (rate,)))
            for j in range(i):
                other = case.arrivals[j].spec
                if other.gpus != spec.gpus or pool not in fastest[j]:
                    continue
                known = case.rates.colocated_rates(spec.profile, other.profile, case.cluster.pools[pool], spec.gpus)
                pace = (rate / 2, fastest[j][pool] / 2)
                if known is not None:
                    nominal = [case.rates.rate(s.profile, case.cluster.pools[pool], s.gpus)[0] for s in (spec, other)]
                    pace = (known[0] * rate / nominal[0], known[1] * fastest[j][pool] / nominal[1])
                found.append((pool, float(spec.gpus), (i, j), pace))
    return found


def cheating(case: Case, weigh: Any) -> Floats:
    """Ends of jobs in a schedule no machine could carry out: jobs and pairs of them run on fractions of GPUs, on several pools at
    once. Whenever a job comes or ends, a program deals out all anew, for the most weighted progress."""
    options = ways(case)
    count = len(case.arrivals)
    submitted = np.array([arrival.submitted_s for arrival in case.arrivals])
    left = np.array([float(arrival.spec.steps) for arrival in case.arrivals])
    best = np.array([max(rates[jobs.index(i)] for _, _, jobs, rates in options if i in jobs) for i in range(count)])
    ends, now_s = np.full(count, np.nan), float(submitted[0])
    while np.isnan(ends).any():
        here = (submitted <= now_s) & np.isnan(ends)
        if not here.any():
            now_s = float(submitted[submitted > now_s].min())
            continue
        open_to = [way for way in options if all(here[job] for job in way[2])]
        weight = weigh(left / best)
        taken = np.zeros((len(case.cluster.pools) + count, len(open_to)))
        gain = np.zeros((count, len(open_to)))
        for at, (pool, gpus, jobs, rates) in enumerate(open_to):
            taken[pool, at] = gpus
            taken[[len(case.cluster.pools) + job for job in jobs], at] = 1.0
            gain[list(jobs), at] = rates
        room = np.concatenate((case.cluster.pool_gpus, np.ones(count)))
        solved = linprog(-(weight / best) @ gain, A_ub=taken, b_ub=room)
        speed = gain @ np.maximum(solved.x, 0.0) * (1 - 1e-9)  # the program may overdraw by its tolerance
        finish = np.full(count, FOREVER)
        finish[here & (speed > 0)] = now_s + (left / np.maximum(speed, 1e-300))[here & (speed > 0)]
        coming = submitted[submitted > now_s].min(initial=FOREVER)
        until_s = min(float(finish.min()), coming)
        if finish.min() <= coming:
            ends[int(np.argmin(finish))] = finish.min()
        left = np.maximum(left - speed * (until_s - now_s), 0.0)
        now_s = until_s
    return ends


@pytest.mark.parametrize(
    "weigh", [lambda left: 1 / (left + 1e-3), np.ones_like, lambda left: left + 1e-3, lambda left: (left + 0.01) ** -2.0]
)
@given(case=cases(kind=True, most=8))
@examples(30)
def test_no_cheating_schedule_beats_its_bounds(weigh: Any, case: Case) -> None:
    ends = cheating(case, weigh)
    found = bounds(case.arrivals, case.cluster, case.physics, colocation=True)
    submitted = np.array([arrival.submitted_s for arrival in case.arrivals])
    assert found.mean_jct_seconds is not None and found.makespan_seconds is not None
    assert (ends - submitted).mean() >= found.mean_jct_seconds * (1 - TOLERANCE)
    assert ends.max() - submitted[0] >= found.makespan_seconds * (1 - TOLERANCE)


def test_a_bound_for_exclusive_gpus_is_beaten_by_sharing_and_ours_is_reached() -> None:
    """Two jobs that do not slow each other down: on one GPU, both done at once."""
    rates = Rates(speeds={}, pairs={("", "", "V100", 1): (1.0, 1.0)})
    cluster, physics = Cluster.parse("1xV100"), Physics(rates=rates)
    jobs = [Arrival(0.0, JobSpec(steps=10.0))] * 2
    record = Engine(Scheduler(cluster, Packed(), Settings(colocation=True), rates=rates), Crowded(), physics, jobs).run()
    assert record.finished_s.tolist() == [10.0, 10.0]
    assert bounds(jobs, cluster, physics).makespan_seconds == pytest.approx(20.0)
    assert bounds(jobs, cluster, physics, colocation=True).makespan_seconds == pytest.approx(10.0)
    assert bounds(jobs, cluster, physics, colocation=True).mean_jct_seconds == pytest.approx(10.0)
