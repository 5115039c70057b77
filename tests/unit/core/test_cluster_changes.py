"""Nodes that join, are drained, leave, and come back with other GPUs."""

import json

import numpy as np

from rota.core.explain import explain
from rota.core.snapshot import make_codec
from rota.model.cluster import Node
from rota.model.commands import Launch, Suspend, SuspendKind
from rota.model.events import NodeDrainChanged, NodeJoined, NodeLeft, NodeReported
from rota.model.job import Phase
from rota.model.reasons import Reason
from rota.policies.fifo import Fifo
from tests.unit.core.helpers import Bench, of_type

A, B = Node("a", "V100", 2), Node("b", "V100", 2)


def bench(*nodes: Node) -> Bench:
    return Bench(list(nodes) or [A], Fifo(backfill=True))


def phase(made: Bench, job: int) -> Phase:
    return Phase(int(made.state.jobs.table.phase[made.state.jobs.row[job]]))


def test_a_node_that_joins_is_used_at_once() -> None:
    made = bench()
    made.obey(made.submit(gpus=2))
    made.obey(made.submit(gpus=2))
    assert explain(made.state, 1)[0].code is Reason.NO_FREE_GPUS
    commands = made.tell(NodeJoined(B, 5.0), at_s=5.0)
    (launch,) = of_type(commands, Launch)
    assert launch.job == 1 and launch.gpus.tolist() == [2, 3] and launch.nodes == (1,)
    again = made.tell(NodeJoined(B, 6.0), at_s=6.0)
    assert not again and made.state.nodes.cluster.gpus == 4, "a repeat changes nothing"


def test_a_job_that_fitted_nowhere_fits_when_a_wider_node_or_another_type_joins() -> None:
    made = bench()
    made.obey(made.submit(gpus=1, accelerators=("H100",)))
    made.obey(made.submit(gpus=3))
    assert [explain(made.state, job)[0].code for job in (0, 1)] == [Reason.NO_SUCH_ACCELERATOR, Reason.UNSATISFIABLE]
    options = [(row.kind, row.pool) for row in made.state.beliefs.options.rows()]
    commands = made.tell(NodeJoined(Node("c", "H100", 4), 5.0), at_s=5.0)
    assert sorted(launch.job for launch in of_type(commands, Launch)) == [0, 1]
    assert made.state.nodes.cluster.pools == ("V100", "H100")
    after = [(row.kind, row.pool) for row in made.state.beliefs.options.rows()]
    assert after[: len(options)] == options, "numbers in use stay true"


def test_a_drained_node_is_left_and_comes_back() -> None:
    made = bench(A, B)
    made.obey(made.submit(gpus=2))
    home = made.state.jobs.attempts[0].live_nodes[0]
    (suspend,) = of_type(made.tell(NodeDrainChanged(home, 5.0), at_s=5.0), Suspend)
    assert suspend.job == 0 and suspend.kind is SuspendKind.CHECKPOINT
    made.obey([suspend])
    assert made.state.jobs.attempts[0].live_nodes == (1 - home,) and phase(made, 0) is Phase.RUNNING
    made.obey(made.submit(gpus=2))
    assert phase(made, 1) is Phase.QUEUED and explain(made.state, 1)[0].code is Reason.NO_FREE_GPUS
    made.obey(made.tell(NodeDrainChanged(home, 9.0, draining=False), at_s=9.0))
    assert phase(made, 1) is Phase.RUNNING and made.state.jobs.attempts[1].live_nodes == (home,)


def test_a_job_parked_on_a_drained_node_is_written_to_storage() -> None:
    made = Bench([Node("a", "V100", 1, host_gib=8.0), Node("b", "V100", 1, host_gib=8.0)])
    for steps in (500.0, 500.0, 10.0):
        made.obey(made.submit(steps=steps, can_park=True, parked_gib=1.0))
    (job,) = (job for job, mine in made.state.jobs.attempts.items() if mine.parked)
    commands = made.tell(NodeDrainChanged(made.state.jobs.attempts[job].live_nodes[0], 9.0), at_s=9.0)
    assert job in {command.job for command in of_type(commands, Suspend) if command.kind is SuspendKind.CHECKPOINT}


def test_a_parked_job_that_may_sleep_on_is_settled() -> None:
    """Else every step would look at it again."""
    made = Bench([Node("a", "V100", 1, host_gib=8.0), Node("b", "V100", 1, host_gib=8.0)])
    for steps in (500.0, 500.0, 10.0):
        made.obey(made.submit(steps=steps, can_park=True, parked_gib=1.0))
    (job,) = (job for job, mine in made.state.jobs.attempts.items() if mine.parked)
    made.obey(made.tell(NodeDrainChanged(made.state.jobs.attempts[job].live_nodes[0], 9.0, draining=False), at_s=9.0))
    assert not made.state.jobs.to_reconcile
    made.obey(made.submit(steps=5000.0, gpu_gib=4.0))
    assert made.state.jobs.attempts[job].parked and not made.state.jobs.to_reconcile, "the new job leaves it its memory"


def test_a_node_that_left_is_never_heard_again_and_its_jobs_go_elsewhere() -> None:
    made = bench(A, B)
    made.obey(made.submit(gpus=2))
    home = made.state.jobs.attempts[0].live_nodes[0]
    made.obey(made.tell(NodeLeft(home, 5.0), at_s=5.0))
    assert made.state.jobs.attempts[0].live_nodes == (1 - home,)
    made.tell(NodeReported(home, 7, 6.0), NodeReported(99, 0, 6.0), at_s=6.0)
    assert not made.state.nodes.node_up[home] and made.state.nodes.gone == {home}
    made.obey(made.submit(gpus=4))
    why = explain(made.state, 1)[0]
    assert why.code is Reason.UNSATISFIABLE and "since nodes left, the largest pool it accepts has 2" in why.sentence


def test_a_machine_comes_back_with_other_gpus_as_another_node() -> None:
    made = bench(A)
    made.tell(NodeLeft(0, 1.0), at_s=1.0)
    made.tell(NodeJoined(Node("a", "V100", 4), 2.0), at_s=2.0)
    made.obey(made.submit(gpus=4))
    assert made.state.jobs.attempts[0].gpus.tolist() == [2, 3, 4, 5] and made.state.nodes.gone == {0}


def test_snapshots_and_forks_know_the_cluster() -> None:
    made, words = bench(), make_codec()
    made.tell(NodeJoined(B, 1.0), NodeDrainChanged(0, 1.0), at_s=1.0)
    twin = made.core.fork()
    plain = json.loads(json.dumps(made.core.snapshot(words)))
    made.tell(NodeLeft(1, 2.0), at_s=2.0)
    assert twin.state.nodes.node_up.all() and not twin.state.nodes.gone and twin.state.nodes.draining == {0}
    made.core.restore(plain, words)
    assert (
        made.state.nodes.cluster.nodes == (A, B)
        and made.state.nodes.draining == {0}
        and np.array_equal(made.state.nodes.node_up, [True, True])
    )


def test_a_job_that_no_node_can_run_any_more_holds_up_no_other() -> None:
    """Under strict FIFO it blocked all jobs behind it; it waits, says why, and runs when there are such nodes again."""
    made = Bench([Node("a", "V100", 4), Node("b", "V100", 1)], Fifo())
    made.tell(NodeLeft(0, 0.0))
    made.obey(made.submit(gpus=4))
    made.obey(made.submit(gpus=1))
    assert phase(made, 1) is Phase.RUNNING and phase(made, 0) is Phase.QUEUED
    assert explain(made.state, 0)[0].code is Reason.UNSATISFIABLE
    commands = made.tell(NodeJoined(Node("c", "V100", 4), 1.0), at_s=1.0)
    assert [launch.job for launch in of_type(commands, Launch)] == [0]


def test_a_job_that_waits_when_its_nodes_leave_is_passed_over() -> None:
    made = Bench([Node("a", "V100", 4), Node("b", "V100", 1)], Fifo())
    made.obey(made.submit(gpus=3))
    made.obey(made.submit(gpus=3))
    made.obey(made.submit(gpus=1))
    assert phase(made, 2) is Phase.QUEUED, "strict"
    made.obey(made.tell(NodeLeft(0, 2.0), at_s=2.0))
    assert phase(made, 2) is Phase.RUNNING
