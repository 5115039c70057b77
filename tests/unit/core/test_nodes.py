"""Nodes that crash, go silent and come back; gangs over several of them; leases, parking and unknown attempts."""

from dataclasses import replace

import pytest

from rota.beliefs.rates import Rates
from rota.core.snapshot import make_codec, restore, take
from rota.model.cluster import Node
from rota.model.commands import Kill, Launch, Renew, Resume, SetTimer, Suspend, SuspendKind
from rota.model.events import (
    CancelRequested,
    Exited,
    InventoryItem,
    NodeDrainChanged,
    NodeLeft,
    NodeLost,
    NodeReported,
    NodesReported,
    Outcome,
    ProcessState,
    Started,
    Suspended,
    TimerFired,
)
from rota.model.job import Phase
from rota.policies.fifo import Fifo
from tests.unit.core.helpers import Bench, of_type

LEASED = {"lease_seconds": 30.0, "lease_margin_seconds": 1.0, "retry_seconds": 4.0, "node_timeout_seconds": 12.0}


def phase(bench: Bench, job: int) -> Phase:
    return Phase(bench.state.jobs.table.phase[bench.state.jobs.row[job]])


def start_gang(bench: Bench, **spec: object) -> Launch:
    (launch,) = of_type(bench.submit(**spec), Launch)
    for node in launch.nodes:
        bench.tell(Started(launch.job, launch.attempt, launch.sequence, bench.now_s, node))
    return launch


def test_a_gang_runs_only_once_every_node_has_answered() -> None:
    bench = Bench("2x(2xV100)")
    (launch,) = of_type(bench.submit(gpus=4), Launch)
    assert launch.nodes == (0, 1) and launch.boots == (0, 0)
    bench.tell(Started(0, 1, 1, 0.0, 0))
    assert phase(bench, 0) is Phase.STARTING
    bench.tell(Started(0, 1, 1, 0.0, 1))
    assert phase(bench, 0) is Phase.RUNNING


def test_a_lost_part_takes_the_gang_with_it_and_it_starts_again_from_storage() -> None:
    bench = Bench("2x(2xV100)")
    start_gang(bench, gpus=4)
    (kill,) = of_type(bench.tell(Exited(0, 1, 5.0, Outcome.LOST, 2.0, 1), at_s=5.0), Kill)
    assert kill.nodes == (0,) and phase(bench, 0) is Phase.STOPPING
    assert bench.state.nodes.observed.holder.tolist() == [0, 0, -1, -1]
    again = bench.tell(Exited(0, 1, 6.0, Outcome.LOST, 2.0, 0), at_s=6.0)
    (launch,) = of_type(again, Launch)
    assert (launch.attempt, launch.from_step) == (2, 2.0)


def test_the_last_part_frees_only_what_is_still_its_own() -> None:
    bench = Bench("2x(2xV100)", Fifo(backfill=True))
    start_gang(bench, gpus=4, steps=50.0)
    bench.tell(CancelRequested(0, 1.0), at_s=1.0)
    bench.tell(Exited(0, 1, 2.0, Outcome.LOST, 0.0, 1), at_s=2.0)
    start_gang(bench, gpus=2)
    assert bench.state.nodes.observed.holder.tolist() == [0, 0, 1, 1]
    bench.tell(Exited(0, 1, 3.0, Outcome.LOST, 0.0, 0), at_s=3.0)
    assert bench.state.nodes.observed.holder.tolist() == [-1, -1, 1, 1]


def test_one_part_that_finished_means_the_work_is_done() -> None:
    bench = Bench("2x(2xV100)")
    start_gang(bench, gpus=4)
    bench.tell(Exited(0, 1, 100.0, Outcome.FINISHED, 100.0, 0), at_s=100.0)
    bench.tell(NodeLost(1, 0, 101.0), at_s=101.0)
    assert 0 not in bench.state.jobs.row


def test_a_crashed_node_loses_its_jobs_and_is_not_used() -> None:
    bench = Bench("2x(2xV100)")
    start_gang(bench, gpus=2)
    (launch,) = of_type(bench.tell(NodeLost(0, 0, 5.0), at_s=5.0), Launch)
    assert launch.nodes == (1,)
    assert not of_type(bench.submit(gpus=2), Launch), "one node is left, and it is full"
    back = bench.tell(NodeReported(0, 1, 9.0), at_s=9.0)
    assert of_type(back, Launch)[0].boots == (1,)


def test_an_old_boot_is_not_believed() -> None:
    bench = Bench("2x(2xV100)")
    bench.tell(NodeLost(0, 0, 5.0), at_s=5.0)
    bench.tell(NodeReported(0, 0, 4.0), at_s=6.0)
    assert not bench.state.nodes.node_up[0]


def test_a_silent_nodes_job_waits_for_its_lease_before_it_starts_elsewhere() -> None:
    bench = Bench("2x(2xV100)", **LEASED)
    start_gang(bench, gpus=2)
    for at_s in (4.0, 8.0, 12.0):
        bench.tell(NodeReported(1, 0, at_s), at_s=at_s)
    assert phase(bench, 0) is Phase.UNREACHABLE
    assert not of_type(bench.tell(NodeReported(1, 0, 20.0), at_s=20.0), Launch, Renew)
    assert phase(bench, 0) is Phase.UNREACHABLE
    bench.tell(NodeReported(1, 0, 30.9), at_s=30.9)
    assert phase(bench, 0) is Phase.UNREACHABLE, "the lease is over, the margin is not"
    (launch,) = of_type(bench.tell(NodeReported(1, 0, 31.0), at_s=31.0), Launch)
    assert (launch.attempt, launch.nodes) == (2, (1,))


def test_a_node_that_comes_back_in_time_goes_on_as_if_nothing_happened() -> None:
    bench = Bench("2x(2xV100)", **LEASED)
    launch = start_gang(bench, gpus=2)
    for at_s in (4.0, 8.0, 12.0):
        bench.tell(NodeReported(1, 0, at_s), at_s=at_s)
    part = InventoryItem(0, 1, launch.sequence, ProcessState.RUNNING, 13.0)
    bench.tell(NodeReported(0, 0, 14.0, (part,)), at_s=14.0)
    assert phase(bench, 0) is Phase.RUNNING and bench.state.jobs.table.attempt[bench.state.jobs.row[0]] == 1


def test_leases_are_renewed_at_half_time() -> None:
    bench = Bench("1xV100", lease_seconds=30.0)
    commands = bench.obey(bench.submit())
    assert of_type(commands, SetTimer)[-1].at_s == 15.0
    (renew,) = of_type(bench.tell(TimerFired(15.0), at_s=15.0), Renew)
    assert (renew.job, renew.attempt, renew.lease_s) == (0, 1, 45.0)


def test_a_long_lease_is_renewed_early_and_most_of_it_is_left_at_any_time() -> None:
    bench = Bench("1xV100", lease_seconds=86_400.0)
    commands = bench.obey(bench.submit())
    assert of_type(commands, SetTimer)[-1].at_s == 600.0
    (renew,) = of_type(bench.tell(TimerFired(600.0), at_s=600.0), Renew)
    assert renew.lease_s == 87_000.0 and of_type(bench.tell(TimerFired(601.0), at_s=601.0), Renew) == []


def test_an_unanswered_command_is_sent_again_with_the_same_key() -> None:
    bench = Bench("1xV100", retry_seconds=4.0)
    (first,) = of_type(bench.submit(), Launch)
    assert not of_type(bench.tell(TimerFired(3.9), at_s=3.9), Launch)
    (again,) = of_type(bench.tell(TimerFired(4.0), at_s=4.0), Launch)
    assert (again.attempt, again.sequence) == (first.attempt, first.sequence)


def test_a_stray_is_killed_and_nothing_else_is_disturbed() -> None:
    bench = Bench("2x(1xV100)")
    start_gang(bench, gpus=1)
    stray = InventoryItem(0, 7, 3, ProcessState.RUNNING, 1.0)
    (kill,) = of_type(bench.tell(NodeReported(1, 0, 5.0, (stray,)), at_s=5.0), Kill)
    assert (kill.job, kill.attempt, kill.nodes) == (0, 7, (1,))
    assert not bench.state.jobs.in_flight and phase(bench, 0) is Phase.RUNNING


def test_reports_of_many_nodes_in_one_event_are_what_each_would_say() -> None:
    reports = [
        NodeReported(
            0, 0, 5.0, (InventoryItem(0, 1, 0, ProcessState.RUNNING, 2.0), InventoryItem(4, 2, 0, ProcessState.PARKED, 3.5))
        ),
        NodeReported(1, 3, 5.0),
        NodeReported(2, 0, 5.0, (InventoryItem(9, 1, 0, ProcessState.RUNNING, 0.0),)),
    ]
    words = make_codec()
    event = words.decode(words.encode(NodesReported.of(reports, 5.0)))
    assert list(event.reports()) == reports
    one, many = Bench("3x(1xV100)", node_timeout_seconds=12.0), Bench("3x(1xV100)", node_timeout_seconds=12.0)
    for bench in (one, many):
        start_gang(bench, gpus=1)
    assert one.tell(*reports, at_s=5.0) == many.tell(event, at_s=5.0)
    assert [many.state.nodes.node_heard_s.tolist(), many.state.nodes.node_boot.tolist()] == [[5.0] * 3, [0, 3, 0]]


def test_an_inventory_answers_for_lost_messages() -> None:
    bench = Bench("1xV100")
    (launch,) = of_type(bench.submit(), Launch)
    bench.tell(NodeReported(0, 0, 2.0, (InventoryItem(0, 1, launch.sequence, ProcessState.RUNNING, 1.0),)), at_s=2.0)
    assert phase(bench, 0) is Phase.RUNNING
    bench.tell(NodeReported(0, 0, 9.0, (InventoryItem(0, 1, 1, ProcessState.ENDED, 100.0, Outcome.FINISHED),)), at_s=9.0)
    assert 0 not in bench.state.jobs.row


@pytest.fixture
def parking() -> Bench:
    bench = Bench([Node("a", "V100", 1, host_gib=10.0), Node("b", "V100", 1, host_gib=10.0)])
    start_gang(bench, gpus=1, steps=1000.0, can_park=True, parked_gib=8.0)
    start_gang(bench, gpus=1, steps=1001.0)
    return bench


def park(bench: Bench) -> None:
    """A short job comes for the second GPU's job... the longest one, which cannot park, goes; then one for the other."""
    bench.obey(bench.submit(at_s=5.0, steps=1.0))
    (suspend,) = of_type(bench.submit(at_s=6.0, steps=2.0), Suspend)
    assert (suspend.job, suspend.kind) == (0, SuspendKind.PARK)
    assert bench.state.nodes.host_gib.tolist() == [2.0, 10.0], "set aside as soon as it is told"
    bench.obey([suspend])


def test_a_parked_job_gives_its_gpu_back_and_resumes_in_place(parking: Bench) -> None:
    park(parking)
    assert phase(parking, 0) is Phase.PARKED and parking.state.nodes.observed.holder.tolist() == [3, 2]
    ended = parking.tell(Exited(3, 1, 9.0, Outcome.FINISHED, 2.0), at_s=9.0)
    (resume,) = of_type(ended, Resume)
    assert (resume.job, resume.attempt) == (0, 1)
    parking.tell(Started(0, 1, resume.sequence, 9.5), at_s=9.5)
    assert phase(parking, 0) is Phase.RUNNING and parking.state.nodes.host_gib.tolist() == [10.0, 10.0]


def test_the_first_parking_is_not_what_parking_costs() -> None:
    """It takes longer, because the host's memory has to be made ready."""
    bench = Bench([Node("a", "V100", 1, host_gib=10.0)])
    start_gang(bench, gpus=1, steps=1000.0, can_park=True, parked_gib=8.0)
    learned, at_s = [], 5.0
    for number, seconds in enumerate((20.0, 0.5, 0.7), start=1):
        (suspend,) = of_type(bench.submit(at_s=at_s, steps=1.0), Suspend)
        parked_s = at_s + seconds
        told = bench.tell(Suspended(0, 1, suspend.sequence, parked_s, SuspendKind.PARK, 5.0), at_s=parked_s)
        (launch,) = of_type(told, Launch)
        bench.tell(Started(number, 1, launch.sequence, parked_s + 1), at_s=parked_s + 1)
        (resume,) = of_type(bench.tell(Exited(number, 1, parked_s + 2, Outcome.FINISHED, 1.0), at_s=parked_s + 2), Resume)
        bench.tell(Started(0, 1, resume.sequence, parked_s + 3), at_s=parked_s + 3)
        learned.append(bench.state.jobs.table.park_seconds.item(bench.state.jobs.row[0]))
        at_s = parked_s + 100.0
    assert learned == pytest.approx([0.0, 0.5, 0.7])


def test_a_parked_job_dies_with_its_node(parking: Bench) -> None:
    park(parking)
    parking.tell(NodeLost(0, 0, 8.0), at_s=8.0)
    assert phase(parking, 0) is Phase.QUEUED, "it was never saved to storage"
    assert parking.state.nodes.host_gib.tolist() == [10.0, 10.0]


def test_a_parked_job_that_should_go_elsewhere_saves_first(parking: Bench) -> None:
    park(parking)
    moved = parking.tell(Exited(2, 1, 9.0, Outcome.FINISHED, 1.0), at_s=9.0)
    (suspend,) = of_type(moved, Suspend)
    assert (suspend.job, suspend.kind) == (0, SuspendKind.CHECKPOINT)
    (launch,) = of_type(parking.tell(Suspended(0, 1, suspend.sequence, 10.0, SuspendKind.CHECKPOINT, 6.0), at_s=10.0), Launch)
    assert (launch.job, launch.attempt, launch.from_step) == (0, 2, 6.0)


def test_a_parked_job_waits_for_its_own_gpus_where_that_is_set(parking: Bench) -> None:
    parking.core.settings = replace(parking.core.settings, resume_in_place=True)
    park(parking)
    moved = parking.tell(Exited(2, 1, 9.0, Outcome.FINISHED, 1.0), at_s=9.0)
    assert [command.job for command in of_type(moved, Launch)] == [1], "the other one, which was saved, takes what is free"
    assert phase(parking, 0) is Phase.PARKED and not of_type(moved, Suspend)
    drained = parking.tell(NodeDrainChanged(0, 10.0), at_s=10.0)
    assert [command.job for command in of_type(drained, Suspend) if command.kind is SuspendKind.CHECKPOINT]


def test_a_parked_job_goes_on_where_it_sleeps_though_another_type_is_free_and_faster() -> None:
    rates = Rates({("net", "A100", 1): 2.0, ("net", "V100", 1): 1.0})
    bench = Bench([Node("a", "A100", 1, host_gib=10.0), Node("b", "V100", 1, host_gib=10.0)], rates=rates, resume_in_place=True)
    start_gang(bench, gpus=1, steps=1.0)
    start_gang(bench, gpus=1, steps=1000.0, can_park=True, parked_gib=1.0, profile="net")
    assert bench.state.nodes.observed.holder.tolist() == [0, 1]
    bench.obey(bench.submit(at_s=5.0, steps=2.0, accelerators=("V100",)))
    assert phase(bench, 1) is Phase.PARKED
    bench.tell(Exited(0, 1, 8.0, Outcome.FINISHED, 1.0), at_s=8.0)
    (resume,) = of_type(bench.tell(Exited(2, 1, 9.0, Outcome.FINISHED, 2.0), at_s=9.0), Resume)
    assert resume.job == 1, "and does not wait on an empty cluster"


def test_no_parking_without_memory() -> None:
    bench = Bench([Node("a", "V100", 1, host_gib=4.0)])
    start_gang(bench, gpus=1, steps=1000.0, can_park=True, parked_gib=8.0)
    (suspend,) = of_type(bench.submit(at_s=5.0, steps=1.0), Suspend)
    assert suspend.kind is SuspendKind.CHECKPOINT


def test_a_type_on_which_a_job_hardly_runs_is_taken_when_the_others_have_left() -> None:
    """Found by drawing set-ups: a job that was only estimated not to run there waited for good, and others behind it."""
    rates = Rates(table={("a", "V100", 1): 1.0, ("a", "K80", 1): 1e-6}, speeds={"V100": 1.0, "K80": 1.0})
    made = Bench([Node("n1", "V100", 1), Node("n2", "K80", 1)], rates=rates)
    made.obey(made.submit(steps=10.0, profile="a"))
    assert made.submit(steps=10.0, profile="a") == [], "it waits for a V100"
    (launch, *_) = of_type(made.tell(NodeLeft(0, 5.0), at_s=5.0), Launch)
    assert launch.nodes == (1,)
    twin = restore(take(made.state, make_codec()), make_codec())
    assert twin.beliefs.options.too_slow.tolist() == made.state.beliefs.options.too_slow.tolist() == [False, False]
