"""Events at awkward moments: in one batch, on unreachable nodes, halfway through a move."""

import itertools

import numpy as np
import pytest

from rota.beliefs.rates import Rates
from rota.core.decision_timing import AtEvents, AtRounds
from rota.core.explain import explain
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.model.allocation import Assignment, Ranking, Shares
from rota.model.cluster import Cluster, Node
from rota.model.commands import CallPolicy, Kill, Launch, Resume, SetTimer, Suspend, SuspendKind
from rota.model.events import (
    Allocated,
    CancelRequested,
    Exited,
    HoldRequested,
    InventoryItem,
    NodeLost,
    NodeReported,
    Outcome,
    ProcessState,
    Progressed,
    Started,
    Submitted,
    Suspended,
    TimerFired,
)
from rota.model.job import JobSpec, Phase
from rota.model.reasons import Reason
from rota.placers.packed import Packed
from rota.policies.fifo import Fifo
from rota.policies.las import Las
from rota.policies.srsf import Srsf
from tests.unit.core.helpers import Bench, of_type

ROOMY = Node("a", "V100", 1, host_gib=10.0)
SLEEPER = {"steps": 1000.0, "can_park": True, "parked_gib": 1.0}


def phase(bench: Bench, job: int) -> Phase:
    return Phase(bench.state.jobs.table.phase[bench.state.jobs.row[job]])


def test_cancelled_and_started_in_one_batch() -> None:
    bench = Bench("1xV100")
    (launch,) = of_type(bench.submit(), Launch)
    commands = bench.tell(CancelRequested(0, 1.0), Started(0, 1, launch.sequence, 1.0), at_s=1.0)
    assert of_type(commands, Kill) and phase(bench, 0) is Phase.STOPPING


def test_a_part_lost_and_another_started_in_one_batch() -> None:
    bench = Bench("2x(1xV100)")
    (launch,) = of_type(bench.submit(gpus=2), Launch)
    commands = bench.tell(Exited(0, 1, 1.0, Outcome.LOST, 0.0, 0), Started(0, 1, launch.sequence, 1.0, 1), at_s=1.0)
    assert of_type(commands, Kill)[0].nodes == (1,)


def test_cancelled_and_parked_in_one_batch() -> None:
    bench = Bench([ROOMY])
    bench.obey(bench.submit(**SLEEPER))
    (suspend,) = of_type(bench.submit(at_s=5.0, steps=1.0), Suspend)
    answer = Suspended(0, 1, suspend.sequence, 6.0, SuspendKind.PARK, 5.0)
    assert of_type(bench.tell(CancelRequested(0, 6.0), answer, at_s=6.0), Kill)


def test_a_sleeping_process_that_dies_ends_its_job() -> None:
    bench = Bench([ROOMY])
    bench.obey(bench.submit(**SLEEPER))
    bench.obey(bench.submit(at_s=5.0, steps=50.0))
    assert phase(bench, 0) is Phase.PARKED
    bench.tell(Exited(0, 1, 7.0, Outcome.FAILED, 0.0, 0), at_s=7.0)
    assert 0 not in bench.state.jobs.row and bench.state.nodes.host_gib.tolist() == [10.0]


def test_a_resumed_job_is_fenced_by_the_lease_of_its_resume() -> None:
    bench = Bench([ROOMY], lease_seconds=30.0, lease_margin_seconds=1.0)
    bench.obey(bench.submit(**SLEEPER))
    bench.obey(bench.submit(at_s=5.0, steps=10.0))
    (resume,) = of_type(bench.tell(Exited(1, 1, 14.0, Outcome.FINISHED, 10.0), at_s=14.0), Resume)
    assert bench.state.jobs.table.lease_s[bench.state.jobs.row[0]] == resume.lease_s == 44.0


def out_of_sight(bench: Bench) -> None:
    bench.tell(TimerFired(12.0), at_s=12.0)
    assert phase(bench, 0) is Phase.UNREACHABLE


def test_resumed_while_out_of_sight() -> None:
    bench = Bench([ROOMY], node_timeout_seconds=12.0)
    bench.obey(bench.submit(**SLEEPER))
    bench.obey(bench.submit(at_s=1.0, steps=5.0))
    (resume,) = of_type(bench.tell(Exited(1, 1, 11.0, Outcome.FINISHED, 5.0), at_s=11.0), Resume)
    out_of_sight(bench)
    bench.tell(Started(0, 1, resume.sequence, 12.5, 0), at_s=12.5)
    bench.tell(NodeReported(0, 0, 13.0, (InventoryItem(0, 1, resume.sequence, ProcessState.RUNNING, 0.0),)), at_s=13.0)
    assert phase(bench, 0) is Phase.RUNNING and bench.state.nodes.observed.holder.tolist() == [0]
    bench.tell(Exited(0, 1, 20.0, Outcome.FINISHED, 1000.0, 0), at_s=20.0)
    assert not bench.state.jobs.row


def test_parked_while_out_of_sight() -> None:
    bench = Bench([ROOMY], node_timeout_seconds=12.0)
    bench.obey(bench.submit(**SLEEPER))
    (suspend,) = of_type(bench.submit(at_s=11.0, steps=5.0), Suspend)
    out_of_sight(bench)
    bench.tell(Suspended(0, 1, suspend.sequence, 12.5, SuspendKind.PARK, 11.0, 0), at_s=12.5)
    back = bench.tell(NodeReported(0, 0, 13.0, (InventoryItem(0, 1, suspend.sequence, ProcessState.PARKED, 11.0),)), at_s=13.0)
    assert phase(bench, 0) is Phase.PARKED and not bench.state.jobs.table.blocks[bench.state.jobs.row[0]]
    assert [launch.job for launch in of_type(back, Launch)] == [1]


def test_a_silent_node_that_reboots_takes_the_gang_with_it_at_once() -> None:
    bench = Bench("2x(1xV100)", node_timeout_seconds=12.0, retry_seconds=4.0)
    bench.obey(bench.submit(gpus=2))
    for at_s in (4.0, 8.0, 12.0):
        bench.tell(NodeReported(1, 0, at_s), at_s=at_s)
    assert phase(bench, 0) is Phase.UNREACHABLE
    (kill,) = of_type(bench.tell(NodeReported(0, 1, 14.0), at_s=14.0), Kill)
    assert kill.nodes == (1,) and phase(bench, 0) is Phase.STOPPING
    bench.tell(NodeReported(1, 0, 15.0), at_s=15.0)
    assert of_type(bench.tell(TimerFired(18.0), at_s=18.0), Kill), "said again until somebody answers"


def test_a_vouched_loss_of_an_older_boot_changes_nothing() -> None:
    bench = Bench("1xV100")
    bench.tell(NodeReported(0, 3, 1.0), at_s=1.0)
    bench.obey(bench.submit())
    bench.tell(NodeLost(0, 2, 2.0), at_s=2.0)
    assert phase(bench, 0) is Phase.RUNNING and bench.state.nodes.node_up.all()


def test_gpus_of_a_held_job_go_to_whoever_waits() -> None:
    for sleeper in (False, True):
        bench = Bench([ROOMY])
        bench.obey(bench.submit(steps=10.0, can_park=sleeper, parked_gib=1.0))
        bench.submit(steps=1000.0)
        held = bench.tell(HoldRequested(0, 5.0), at_s=5.0)
        assert explain(bench.state, 1)[0].code is Reason.NO_FREE_GPUS
        assert [launch.job for launch in of_type(bench.obey(held, steps=5.0), Launch)] == [1]


def test_a_move_whose_target_dies_is_planned_anew() -> None:
    bench = Bench("4xK80 + 2x(4xV100)")
    bench.core = Scheduler(bench.state.nodes.cluster, Packed(), Settings(), rates=Rates(speeds={"K80": 0.2}))
    bench.obey(bench.submit(gpus=8, steps=10.0))
    bench.obey(bench.submit(gpus=4, steps=5000.0))
    (suspend,) = of_type(bench.tell(Exited(0, 1, 10.0, Outcome.FINISHED, 10.0), at_s=10.0), Suspend)
    target = int(bench.state.nodes.cluster.gpu_node[bench.state.jobs.desired[1][0]])
    bench.tell(NodeLost(target, 0, 11.0), at_s=11.0)
    again = bench.tell(Suspended(1, 1, suspend.sequence, 12.0, suspend.kind, 2.0), at_s=12.0)
    (launch,) = of_type(again, Launch)
    assert target not in launch.nodes and bench.state.nodes.cluster.pools[1] == "V100"
    assert bench.state.nodes.cluster.node_pool[launch.nodes[0]] == 1, "the other V100 node"


def test_a_clock_that_runs_ahead_gains_nothing() -> None:
    bench = Bench("1xV100")
    (launch,) = of_type(bench.submit(), Launch)
    bench.tell(Started(0, 1, launch.sequence, 3600.0), at_s=1.0)
    bench.tell(at_s=11.0)
    jobs = bench.core.view().jobs
    assert jobs.attained_gpu_seconds.tolist() == [10.0] and jobs.move_seconds.tolist() == [1.0]


def test_reports_on_nobody_and_late_reports() -> None:
    bench = Bench("1xV100")

    def report(at_s: float, steps: float) -> Progressed:
        return Progressed(np.array([0]), np.array([1]), np.array([steps]), np.array([0.0]), at_s)

    bench.tell(report(1.0, 5.0), at_s=1.0)
    bench.obey(bench.submit(steps=1000.0))
    bench.tell(report(100.0, 90.0), at_s=101.0)
    bench.tell(report(50.0, 45.0), at_s=101.0)
    assert bench.core.view().jobs.steps_done.tolist() == [91.0]


@pytest.mark.parametrize("seconds", [59.9, 0.1, 1.1, 2.2, 300.3])
def test_rounds_of_any_length_go_on(seconds: float) -> None:
    bench = Bench("1xV100", decide=AtRounds(round_seconds=seconds))
    bench.submit()
    seen = []
    for _ in range(200):
        (wake,) = of_type(bench.tell(TimerFired(bench.state.cycle.timer_s), at_s=bench.state.cycle.timer_s), SetTimer)
        seen.append(wake.at_s)
    assert all(a < b for a, b in itertools.pairwise(seen))


def test_solve_every_plans_at_events_and_asks_when_it_may() -> None:
    bench = Bench("1xV100", Fifo(), decide=AtEvents(solve_every_seconds=50.0))
    bench.obey(bench.submit(steps=10.0))
    commands = bench.submit(at_s=1.0)
    assert of_type(commands, SetTimer)[-1].at_s == 50.0 and bench.state.cycle.decision == 1
    bench.tell(Exited(0, 1, 10.0, Outcome.FINISHED, 10.0), at_s=10.0)
    assert not bench.state.jobs.attempts
    assert of_type(bench.tell(TimerFired(50.0), at_s=50.0), Launch)


@pytest.mark.parametrize(
    "answer",
    [
        Ranking(order=np.array([0, 0])),
        Ranking(order=np.array([5])),
        Ranking(order=np.array([-1])),
        Ranking(order=[0, 1]),  # type: ignore[arg-type]
        Ranking(order=np.array([0.5])),
        Ranking(order=np.array([0, 1]), option=np.array([1, 0])),
        Ranking(order=np.array([0, 1]), option=np.array([0, 9])),
        Ranking(order=np.array([0]), run_seconds=np.array([1.0])),
        Shares(option=np.array([0]), share=np.array([7.0])),
        Shares(option=np.array([9]), share=np.array([0.5])),
        Assignment(position=np.array([0, 0]), option=np.array([0, 0])),
        Assignment(position=np.array([0]), option=np.array([1])),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_failed_policy(answer: Ranking) -> None:
    bench = Bench("4xV100", policy_retry_seconds=7.0)
    commands = bench.core.step(0.0, [Submitted(0, JobSpec(gpus=1), 0.0), Submitted(1, JobSpec(gpus=2), 0.0)])
    (solve,) = of_type(commands, CallPolicy)
    after = bench.core.step(1.0, [Allocated(solve.ticket, answer, 1.0)])
    assert not of_type(after, Launch) and of_type(after, SetTimer)[-1].at_s == 8.0


def test_what_a_policy_sees_it_cannot_change() -> None:
    bench = Bench("4xV100")
    bench.obey(bench.submit())
    view = bench.core.view()
    for column in (view.capacity, view.options.rate, view.options.by_kind, view.jobs.gpus, view.jobs.seconds_left):
        with pytest.raises(ValueError, match="read-only"):
            column[...] = 0
    assert bench.core.view().jobs.gpus.tolist() == [1]


def test_las_shares_time_where_jobs_compete_not_where_gpus_idle() -> None:
    bench = Bench(Cluster.parse("1xV100 + 10xK80"), Las(quantum_seconds=10.0))
    for _ in range(2):
        bench.obey(bench.submit(accelerators=("V100",), steps=1000.0))
    for at_s in range(10, 200, 10):
        bench.obey(bench.tell(TimerFired(float(at_s)), at_s=float(at_s)))
    assert bench.state.jobs.table.suspensions[:2].sum() >= 15


def test_a_job_believed_to_be_done_is_not_moved_at_any_price() -> None:
    from rota.beliefs.move_costs import MoveCosts

    bench = Bench("1xV100 + 1xK80", Srsf())
    bench.core = Scheduler(
        bench.state.nodes.cluster, Packed(), rates=Rates(speeds={"K80": 0.25}), costs=MoveCosts(launch_seconds=1e9)
    )
    bench.obey(bench.submit(steps=500.0))
    bench.obey(bench.submit(steps=600.0))
    bench.tell(at_s=3000.0)
    assert not of_type(bench.tell(Exited(0, 1, 3000.0, Outcome.FINISHED, 500.0), at_s=3000.0), Suspend)


def test_a_demotion_timer_runs_only_while_the_job_does() -> None:
    from rota.policies.tiresias import Tiresias

    bench = Bench("1xV100", Tiresias(thresholds=(10.0,)))
    commands = bench.submit()
    bench.submit()
    assert bench.state.cycle.timer_s == float("inf"), "it is still starting"
    (launch,) = of_type(commands, Launch)
    started = bench.tell(Started(0, 1, launch.sequence, 60.0), at_s=60.0)
    assert of_type(started, SetTimer)[-1].at_s == 70.0


def test_a_parked_job_goes_back_to_its_gpus_if_they_are_free() -> None:
    nodes = [Node(name, "V100", 2, host_gib=10.0) for name in "ab"]
    bench = Bench(nodes)
    bench.obey(bench.submit(gpus=2, **SLEEPER))
    bench.obey(bench.submit(gpus=2, steps=2000.0, can_park=True, parked_gib=1.0))
    bench.obey(bench.submit(at_s=5.0, gpus=4, steps=10.0))
    assert phase(bench, 0) is phase(bench, 1) is Phase.PARKED
    woken = bench.tell(Exited(2, 1, 15.0, Outcome.FINISHED, 10.0), at_s=15.0)
    assert sorted(command.job for command in of_type(woken, Resume)) == [0, 1]


def test_a_gang_whose_part_ends_while_it_is_told_to_park_goes_whole() -> None:
    bench = Bench([Node(name, "V100", 1, host_gib=10.0) for name in "ab"])
    bench.obey(bench.submit(gpus=2, **SLEEPER))
    (suspend,) = of_type(bench.submit(at_s=5.0, gpus=2, steps=1.0), Suspend)
    assert suspend.kind is SuspendKind.PARK
    (kill,) = of_type(bench.tell(Exited(0, 1, 6.0, Outcome.YIELDED, 5.0, 0), at_s=6.0), Kill)
    assert kill.nodes == (1,)
    bench.tell(Suspended(0, 1, suspend.sequence, 6.5, SuspendKind.PARK, 5.0, 1), at_s=6.5)
    assert phase(bench, 0) is Phase.STOPPING
