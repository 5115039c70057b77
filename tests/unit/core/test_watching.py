"""Slow GPUs are found by the jobs that run on them, and taken out of service if the operator allows it."""

import json
from typing import Any

import numpy as np
import pytest

from rota.api import simulate
from rota.beliefs.rates import SAME_SPEED, Rates
from rota.beliefs.variability import Variability
from rota.core.learn.cordon import slow_gpus
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.snapshot import make_codec
from rota.core.validate import validate
from rota.errors import OptionError
from rota.model.cluster import Cluster
from rota.model.events import NodeLost, Submitted
from rota.model.job import Arrival, JobSpec
from rota.placers.packed import Packed
from rota.placers.pal import Pal
from rota.placers.random import Random
from rota.policies.fifo import Fifo
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from rota.sim.recorded_step import Journal

CLUSTER = Cluster.parse("2x(4xV100)")


def arrivals(
    count: int, every_s: float = 200.0, gpus: tuple[int, ...] = (1,), steps: float = 1500.0, profile: str = "p"
) -> list[Arrival]:
    return [Arrival(every_s * i, JobSpec(gpus=gpus[i % len(gpus)], steps=steps, profile=profile)) for i in range(count)]


def run(
    jobs: list[Arrival],
    speed: list[float] | None = None,
    placer: Any = None,
    rates: Rates = SAME_SPEED,
    journal: Journal | None = None,
    **settings: Any,
) -> tuple[Scheduler, Any]:
    core = Scheduler(CLUSTER, placer or Random(), Settings(learn_variability=True, **settings), rates=rates)
    physics = Physics(rates=rates, gpu_speed=np.array(speed or [1.0] * 8))
    policy = Fifo(colocation=True) if settings.get("colocation") else Fifo()
    engine = Engine(core, policy, physics, jobs, report_seconds=300.0, journal=journal)
    return core, engine.run()


SLOW = [1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 1.0, 1.0]


def test_a_slow_gpu_is_found_and_avoided() -> None:
    core, record = run(arrivals(60, every_s=280.0), SLOW, Pal(sticky=True))
    known = core.state.beliefs.variability
    assert known is not None and [(gpu, round(score, 2)) for gpu, _, score in known.outliers(1.2)] == [(5, 2.0)]
    assert slow_gpus(core.state) == ["GPU 5 on n2 takes 2.00 times as long as others for class A."]
    there = record.gpu_intervals.gpus[record.gpu_intervals.first[:-1]] == 5
    late = record.gpu_intervals.start_s > 6000
    assert there.any() and there[late].sum() < there[~late].sum(), "used for a while, then only where nothing else is free"


def test_gpus_that_are_alike_stay_so_whatever_runs() -> None:
    """Jobs of many speeds, some of which nobody profiled."""
    rates = Rates({("fast", "V100", n): 9.0 for n in (1, 2)} | {("slow", "V100", n): 0.5 for n in (1, 2)})
    mixed = [
        Arrival(90.0 * i, JobSpec(gpus=1 + i % 2, steps=(400.0, 9000.0, 1000.0)[i % 3], profile=("slow", "fast", "")[i % 3]))
        for i in range(60)
    ]
    core, _ = run(mixed, rates=rates)
    assert core.state.beliefs.variability is not None
    assert core.state.beliefs.variability.feared == pytest.approx(np.ones((1, 8)), rel=1e-6)


def test_company_is_not_taken_for_a_slow_gpu() -> None:
    rates = Rates({(name, "V100", 1): 1.0 for name in "pq"}, pairs={("p", "q", "V100", 1): (0.8, 0.8)})
    jobs = [Arrival(60.0 * i, JobSpec(steps=1500.0, profile="pq"[i % 2])) for i in range(40)]
    core, record = run(jobs, rates=rates, placer=Packed(), colocation=True)
    assert record.gpu_intervals.shared, "some shared"
    assert core.state.beliefs.variability is not None
    assert core.state.beliefs.variability.feared == pytest.approx(np.ones((1, 8)), rel=0.02)


def test_a_gang_that_is_always_the_same_makes_suspects() -> None:
    """Gangs of four on whole nodes: which of the four it is nobody can know."""
    floor = Cluster.parse("5x(4xV100)")
    core = Scheduler(floor, Packed(), Settings(learn_variability=True, cordon_slower_than=1.5))
    speed = np.ones(20)
    speed[5] = 0.5
    jobs = arrivals(60, every_s=400.0, gpus=(4,), steps=1500.0)
    Engine(core, Fifo(), Physics(gpu_speed=speed), jobs, report_seconds=300.0).run()
    known = core.state.beliefs.variability
    assert known is not None and (known.scores == 1.0).all() and core.state.nodes.cordoned == (), "nobody is proven to be slow"
    assert known.feared[0, 4:8] == pytest.approx(2.0) and (np.delete(known.feared[0], [4, 5, 6, 7]) == 1.0).all()
    assert slow_gpus(core.state) == ["One of GPUs 4 to 7 on n2 takes 2.00 times as long as others for class A."]


def test_the_journal_tells_it_again_and_a_snapshot_keeps_it() -> None:
    journal: Journal = []
    core, _ = run(arrivals(40), SLOW, Pal(sticky=True), journal=journal, cordon_slower_than=1.5)
    twin = Scheduler(CLUSTER, Pal(sticky=True), core.settings, rates=SAME_SPEED)
    words = make_codec()
    for number, (now_s, events, decided) in enumerate(journal):
        twin.fold(now_s, events)
        twin.commit(decided)
        if number == len(journal) // 2:
            plain = json.loads(json.dumps(twin.snapshot(words)))
            twin = Scheduler(CLUSTER, Pal(sticky=True), core.settings, rates=SAME_SPEED)
            twin.restore(plain, words)
    assert core.state.beliefs.learning is not None and twin.state.beliefs.learning is not None
    assert (
        twin.state.beliefs.learning.scores == core.state.beliefs.learning.scores
    ).all() and core.state.beliefs.learning.scores.max() > 1.5
    assert (
        twin.state.beliefs.comparable_rates == core.state.beliefs.comparable_rates
        and twin.state.nodes.cordoned == core.state.nodes.cordoned == (5,)
    )


def test_a_cordoned_gpu_is_left_and_not_used_again() -> None:
    jobs = arrivals(12, every_s=5.0, steps=4000.0)
    _, free = run(jobs, SLOW, Packed())
    assert 5 in free.gpu_intervals.gpus.tolist()
    told = Variability(("A",), np.array([[1 / speed for speed in SLOW]]), np.zeros((1, 8)))
    known = Scheduler(CLUSTER, Packed(), Settings(cordon_slower_than=1.5), variability=told)
    record = Engine(known, Fifo(), Physics(gpu_speed=np.array(SLOW)), jobs).run()
    assert known.state.nodes.cordoned == (5,) and 5 not in record.gpu_intervals.gpus.tolist()
    assert "out of service" in slow_gpus(known.state)[0]
    assert free.ended == record.ended == 12


def test_who_runs_there_when_the_rule_strikes_moves() -> None:
    core, record = run(arrivals(60, every_s=400.0, steps=2600.0), SLOW, Pal(sticky=True), cordon_slower_than=1.5)
    assert core.state.nodes.cordoned == (5,)
    held = record.gpu_intervals
    there = [(s, e) for s, e, g in zip(held.start_s, held.end_s, held.gpus[held.first[:-1]], strict=True) if g == 5]
    assert there and max(end for _, end in there) < 15_000, "early on, and then never again"
    assert record.ended == 60


def test_nothing_is_cordoned_that_a_job_needs() -> None:
    told = Variability(("A",), np.array([[1 / speed for speed in SLOW]]), np.zeros((1, 8)))
    core = Scheduler(CLUSTER, Packed(), Settings(cordon_slower_than=1.5), variability=told)
    assert core.state.out_of_service() == [5]
    record = Engine(core, Fifo(), Physics(gpu_speed=np.array(SLOW)), arrivals(10, gpus=(1, 8))).run()
    assert record.ended == 10 and core.state.nodes.cordoned == (5,) and core.state.out_of_service() == []


def test_a_gpu_comes_back_when_a_node_is_lost_and_a_job_needs_it() -> None:
    told = Variability(("A",), np.array([[2.0] + [1.0] * 11]), np.zeros((1, 12)))
    core = Scheduler(Cluster.parse("3x(4xV100)"), Packed(), Settings(cordon_slower_than=1.5), variability=told)
    core.step(0.0, [Submitted(0, JobSpec(gpus=8, steps=10.0), 0.0)])
    assert core.state.out_of_service() == [0] and core.state.usable()[1].tolist() == [11]
    core.step(1.0, [NodeLost(2, 0, 1.0)])
    assert core.state.out_of_service() == [] and core.state.usable()[1].tolist() == [8]
    validate(core.state)


def test_what_was_seen_of_a_job_that_nobody_profiled_goes_with_it() -> None:
    core, _ = run(arrivals(10, every_s=400.0, profile=""))
    assert core.state.beliefs.comparable_rates == {}


def test_a_rule_must_leave_the_median_in_service() -> None:
    with pytest.raises(OptionError, match="more than 1"):
        Settings(cordon_slower_than=0.9)


@pytest.mark.slow
def test_a_simulation_says_what_was_learned(tmp_path: Any) -> None:
    scores = tmp_path / "scores.csv"
    scores.write_text("gpu,class,score\n" + "\n".join(f"{gpu},A,{1 / speed}" for gpu, speed in enumerate(SLOW)))
    trace = tmp_path / "trace.csv"
    trace.write_text("submit_time,gpus,steps,profile\n" + "\n".join(f"{200 * i},1,150000,bert" for i in range(60)))
    options: dict[str, Any] = {"cluster": "2x(4xV100)", "placer": "pal", "variability": scores, "preset": "ideal"}
    done = simulate(trace, learn_variability=True, **options)
    assert done.believed is not None and done.believed.outliers(1.5)[0][0] == 5
    assert any("GPU 5 on n2" in note for note in done.params["notes"])
    told = simulate(trace, **options)
    type_agnostic = simulate(trace, **{**options, "placer": "packed"})
    assert told.summary.mean_jct_seconds <= done.summary.mean_jct_seconds <= type_agnostic.summary.mean_jct_seconds
