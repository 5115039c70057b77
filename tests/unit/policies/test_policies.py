"""Which job comes first under each policy, by example."""

import math
from typing import Any

import numpy as np
import pytest

from rota.core.decision_timing import AtEvents
from rota.model.allocation import Assignment, Ranking, Shares
from rota.model.cluster import Cluster
from rota.model.events import Exited, Outcome, TimerFired
from rota.policies.fifo import Fifo
from rota.policies.gittins import Gittins, gittins_index
from rota.policies.las import Las
from rota.policies.sjf import Sjf
from rota.policies.srsf import Srsf
from rota.policies.srtf import Srtf
from rota.policies.tiresias import Tiresias
from tests.unit.core.helpers import Bench, of_type


def ranked(policy: Any, *specs: dict[str, Any], after: float = 0.0) -> list[int]:
    """Job numbers in the order the policy puts them, first submitted first run on one pool of 2 GPUs."""
    bench = Bench("2xV100", policy)
    for spec in specs:
        bench.obey(bench.submit(**spec))
    bench.tell(at_s=after)
    view = bench.core.view()
    return view.jobs.ids[policy.allocate(view).order].tolist()


JOBS = ({"gpus": 2, "steps": 60.0}, {"gpus": 1, "steps": 100.0}, {"gpus": 1, "steps": 10.0})


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        (Fifo(), [0, 1, 2]),
        (Sjf(), [2, 0, 1]),
        (Srtf(), [2, 0, 1]),
        (Srsf(), [2, 1, 0]),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_order(policy: Any, order: list[int]) -> None:
    assert ranked(policy, *JOBS) == order


def test_fifo_keeps_running_jobs_running() -> None:
    answer = Fifo().allocate(Bench("2xV100").core.view())
    assert answer.blocking and not answer.preempt and not answer.reserve
    assert Fifo(backfill=True).allocate(Bench("2xV100").core.view()).reserve


def test_las_counts_gpu_seconds_or_seconds() -> None:
    jobs = ({"gpus": 2, "steps": 900.0}, {"gpus": 1, "steps": 900.0})
    assert ranked(Las(), *jobs, after=50.0) == [1, 0]
    assert ranked(Las(service="seconds"), *jobs, after=50.0) == [1, 0]
    bench = Bench("3xV100", Las())
    for spec in jobs:
        bench.obey(bench.submit(**spec))
    bench.tell(at_s=50.0)
    view = bench.core.view()
    assert view.jobs.attained_gpu_seconds.tolist() == [100.0, 50.0]
    assert Las(service="seconds").allocate(view).order.tolist() == [0, 1], "a tie: the earlier submission"


def test_las_holds_only_while_nobody_waits() -> None:
    bench = Bench("1xV100", Las(quantum_seconds=30.0))
    bench.obey(bench.submit())
    assert Las().allocate(bench.core.view()).until_s == math.inf
    bench.obey(bench.submit())
    assert Las(quantum_seconds=30.0).allocate(bench.core.view()).until_s == 30.0


def test_tiresias_never_preempts_inside_a_queue_while_the_job_fits() -> None:
    bench = Bench("1xV100", Tiresias(thresholds=(1000.0,)))
    bench.obey(bench.submit(steps=900.0))
    for at_s in range(1, 20):
        bench.obey(bench.submit(at_s=float(at_s), steps=1.0))
    assert list(bench.state.jobs.attempts) == [0]


def test_tiresias_sinks_one_queue_after_the_other() -> None:
    bench = Bench("1xV100", Tiresias(thresholds=(10.0, 30.0)))
    bench.obey(bench.submit(steps=900.0))
    levels = []
    for at_s in (0.0, 9.9, 10.0, 29.9, 30.0):
        bench.tell(at_s=at_s)
        levels.append(int(bench.policy.allocate(bench.core.view()).memory.level[0]))
    assert levels == [0, 0, 1, 1, 2]


def test_tiresias_puts_the_demoted_behind_those_who_wait() -> None:
    bench = Bench("1xV100", Tiresias(thresholds=(10.0,)))
    bench.obey(bench.submit(steps=900.0))
    for at_s in (1.0, 2.0):
        bench.obey(bench.submit(at_s=at_s, steps=900.0))
    for at_s in (10.0, 20.0, 30.0, 45.0):
        bench.obey(bench.tell(TimerFired(at_s), at_s=at_s))
    view = bench.core.view()
    assert view.jobs.ids[bench.policy.allocate(view).order].tolist() == [0, 1, 2], "back in the order in which they sank"


def test_promotion_brings_a_starving_job_back_once_it_waited_long_enough() -> None:
    bench = Bench("1xV100", Tiresias(thresholds=(10.0,), promote=2.0))
    bench.obey(bench.submit(steps=900.0))
    bench.obey(bench.submit(at_s=5.0, steps=9.9))
    bench.obey(bench.tell(TimerFired(10.0), at_s=10.0))
    assert list(bench.state.jobs.attempts) == [1]
    ended = bench.obey(bench.tell(Exited(1, 1, 19.0, Outcome.FINISHED, 9.9), at_s=19.0))
    assert list(bench.state.jobs.attempts) == [0] and ended
    bench.obey(bench.submit(at_s=20.0, steps=500.0))
    assert list(bench.state.jobs.attempts) == [2]
    bench.obey(bench.submit(at_s=21.0, steps=500.0))
    # Job 0 ran 11 s, so it comes back to the first queue after 22 s of waiting: 9 s before, 13 s now.
    bench.tell(at_s=32.9)
    assert bench.policy.allocate(bench.core.view()).memory.level[0] == 1
    bench.tell(at_s=33.0)
    memory = bench.policy.allocate(bench.core.view()).memory
    assert memory.level[0] == 0 and memory.base[0, 0] == 11.0


def test_without_promotion_nothing_comes_back() -> None:
    assert Tiresias().allocate(Bench("1xV100").core.view()).wait_seconds is None


def test_gittins_index_by_hand() -> None:
    past = np.array([10.0, 20.0, 100.0])
    index = gittins_index(past, np.array([0.0, 10.0, 50.0, 100.0]), np.array([10.0, 10.0, 50.0, 5.0]))
    # age 0, look 10 ahead: one of three ends, and the three spend 10 each; age 10: one of two; age 50: the last one for sure.
    assert index.tolist() == pytest.approx([1 / 30, 1 / 20, 1 / 50, 0.0])


def test_gittins_looks_to_the_end_of_the_queue_by_default() -> None:
    past = np.array([5.0, 50.0])
    endless = gittins_index(past, np.array([0.0]), np.array([math.inf]))
    assert endless.tolist() == pytest.approx([2 / 55])


def test_gittins_learns_from_jobs_that_finish() -> None:
    bench = Bench("1xV100", Gittins(thresholds=(1000.0,)))
    bench.obey(bench.submit(steps=4.0))
    bench.tell(Exited(0, 1, 4.0, Outcome.FINISHED, 4.0), at_s=4.0)
    assert bench.core.view().history_gpu_seconds.tolist() == [4.0]
    bench.obey(bench.submit(steps=9.0))
    assert bench.policy.allocate(bench.core.view()).order.tolist() == [0]


def test_gittins_prefers_who_is_likely_to_end_soon() -> None:
    policy = Gittins(thresholds=(1000.0,), history=(10.0, 10.0, 10.0, 500.0), delta=10.0)
    bench = Bench("1xV100", policy)
    bench.obey(bench.submit(steps=900.0))
    bench.tell(at_s=50.0)
    bench.submit(steps=5.0)
    assert of_type(bench.tell(at_s=51.0)) == []
    view = bench.core.view()
    assert view.jobs.ids[policy.allocate(view).order].tolist() == [1, 0], "whoever passed 10 s is probably long"


def test_gittins_breaks_ties_by_submission_and_not_by_rounding() -> None:
    """Found by drawing set-ups: two jobs of 50 GPU-seconds each differed in the last digit, and that decided."""
    policy = Gittins(thresholds=(10.0, 200.0), history=(20.0, 60.0, 500.0))
    bench = Bench("2xV100", policy)
    for _ in range(2):
        bench.obey(bench.submit(steps=900.0))
    bench.tell(at_s=50.0)
    view = bench.core.view()
    for less in (0.0, 1e-9, -1e-9):
        view.jobs.attained_gpu_seconds.setflags(write=True)
        view.jobs.attained_gpu_seconds[1] = view.jobs.attained_gpu_seconds[0] - less
        assert policy.allocate(view).order.tolist() == [0, 1]


@pytest.mark.slow
def test_shares_give_time_in_proportion() -> None:
    class Thirds:
        """Two thirds of the GPU to the first kind, one third to the second."""

        def allocate(self, view: Any) -> Shares:
            share = np.where(view.options.gpus == 1, 2 / 3, 1 / 3)
            return Shares(option=np.arange(len(view.options)), share=share, until_s=view.now_s + 10)

    bench = Bench(Cluster.parse("2xV100"), Thirds(), decide=AtEvents(slice_seconds=20.0))
    bench.obey(bench.submit(gpus=1, steps=1e6))
    bench.obey(bench.submit(gpus=2, steps=1e6))
    for at_s in range(10, 6000, 10):
        bench.obey(bench.tell(TimerFired(float(at_s)), at_s=float(at_s)))
    run = bench.core.view().jobs.run_seconds
    assert run[0] / run.sum() == pytest.approx(2 / 3, abs=0.02)


def test_an_assignment_is_granted_as_it_stands_and_its_hint_followed() -> None:
    class Pinned:
        def allocate(self, view: Any) -> Assignment:
            count = len(view.jobs)
            option = view.options.by_kind[view.jobs.kind, 0]
            return Assignment(position=np.arange(count), option=option, gpus={i: (3 - i,) for i in range(count)})

    bench = Bench("4xV100", Pinned())
    for _ in range(3):
        bench.obey(bench.submit())
    assert bench.state.nodes.observed.holder.tolist() == [-1, 2, 1, 0]


def test_ranking_by_breaks_ties_by_submission() -> None:
    assert Ranking.by([2.0, 1.0, 1.0]).order.tolist() == [1, 2, 0]
    assert Ranking.by([2.0, 1.0, 2.0], largest_first=True).order.tolist() == [0, 2, 1]


def test_jobs_go_to_the_fastest_pool_with_room_and_move_only_if_it_pays() -> None:
    from rota.beliefs.move_costs import MoveCosts
    from rota.beliefs.rates import Rates
    from rota.core.scheduler import Scheduler
    from rota.placers.packed import Packed

    for price, moved in ((0.0, True), (1e9, False)):
        bench = Bench("1xV100 + 1xK80", Srsf())
        bench.core = Scheduler(
            Cluster.parse("1xV100 + 1xK80"), Packed(), rates=Rates(speeds={"K80": 0.25}), costs=MoveCosts(launch_seconds=price)
        )
        bench.obey(bench.submit(steps=50.0))
        bench.obey(bench.submit(steps=90.0))
        assert bench.state.nodes.observed.holder.tolist() == [0, 1]
        bench.obey(bench.tell(Exited(0, 1, 50.0, Outcome.FINISHED, 50.0), at_s=50.0), steps=12.5)
        assert bench.state.nodes.observed.holder.tolist() == ([1, -1] if moved else [-1, 1])
