"""GPUs that are used by programs other than jobs of this scheduler: out of service until they are free."""

import json
from typing import Any

from rota.core.explain import explain, taken_gpus
from rota.core.snapshot import make_codec
from rota.model.cluster import Node
from rota.model.commands import Launch, Suspend
from rota.model.events import Exited, GpusTaken, NodeLeft, Outcome
from rota.model.job import Phase
from rota.model.reasons import Reason
from rota.policies.fifo import Fifo
from rota.policies.srsf import Srsf
from tests.unit.core.helpers import Bench, of_type

A, B = Node("a", "V100", 2), Node("b", "V100", 2)
BOB = "process 7 (python) of bob"


def bench(*nodes: Node, policy: Any = None) -> Bench:
    return Bench(list(nodes) or [A], policy or Fifo(backfill=True))


def phase(made: Bench, job: int) -> Phase:
    return Phase(int(made.state.jobs.table.phase[made.state.jobs.row[job]]))


def test_no_job_is_put_there_until_it_is_free_and_why_says_who_has_it() -> None:
    made = bench()
    made.tell(GpusTaken(0, (0,), (BOB,), 0.0))
    (launch,) = of_type(made.obey(made.submit(gpus=1)), Launch)
    assert launch.gpus.tolist() == [1]
    assert not of_type(made.obey(made.submit(gpus=1)), Launch)
    found = explain(made.state, 1)[0]
    assert found.code is Reason.NO_FREE_GPUS and f"GPU 0 of a is out of service: {BOB} uses it." in found.sentence
    assert not of_type(made.tell(GpusTaken(0, (0,), ("process 8 of ana",), 5.0), at_s=5.0), Launch)
    (launch,) = of_type(made.tell(GpusTaken(0, (), (), 6.0), at_s=6.0), Launch)
    assert launch.job == 1 and launch.gpus.tolist() == [0] and taken_gpus(made.state) == []


def test_a_job_that_runs_there_stays_and_the_next_one_does_not_come() -> None:
    made = bench()
    made.obey(made.submit(gpus=1))
    made.obey(made.submit(gpus=1))
    waiting = made.obey(made.submit(gpus=1))
    assert not of_type(waiting, Launch)
    commands = made.tell(GpusTaken(0, (0,), (BOB,), 5.0), at_s=5.0)
    assert not of_type(commands, Suspend) and phase(made, 0) is phase(made, 1) is Phase.RUNNING
    assert taken_gpus(made.state) == [f"GPU 0 of a has a job, and {BOB} uses it too."]
    gpu = made.state.jobs.attempts[0].gpus.tolist()
    assert gpu == [0]
    assert not of_type(made.tell(Exited(0, 1, 6.0, Outcome.FINISHED, 100.0), at_s=6.0), Launch)
    assert phase(made, 2) is Phase.QUEUED
    (launch,) = of_type(made.tell(Exited(1, 1, 7.0, Outcome.FINISHED, 100.0), at_s=7.0), Launch)
    assert launch.job == 2 and launch.gpus.tolist() == [1]


def test_a_job_that_was_to_come_when_another_leaves_does_not() -> None:
    """A shorter job takes the GPU of a longer one, and before that has left, another program comes."""
    made = bench(Node("a", "V100", 1), policy=Srsf())
    made.obey(made.submit(gpus=1, steps=1000.0))
    (suspend,) = of_type(made.submit(at_s=1.0, gpus=1, steps=10.0), Suspend)
    made.tell(GpusTaken(0, (0,), (BOB,), 2.0), at_s=2.0)
    commands = made.obey([suspend])
    assert not of_type(commands, Launch) and made.state.jobs.desired == {}
    (launch,) = of_type(made.tell(GpusTaken(0, (), (), 9.0), at_s=9.0), Launch)
    assert launch.job == 1


def test_it_is_said_of_one_node_and_goes_with_it() -> None:
    made = bench(A, B)
    made.tell(GpusTaken(0, (0, 1), (BOB, BOB), 0.0))
    made.tell(GpusTaken(1, (2,), (BOB,), 0.0))
    assert sorted(made.state.nodes.taken) == [0, 1, 2]
    made.tell(GpusTaken(0, (3, 17), (BOB, BOB), 1.0))
    assert sorted(made.state.nodes.taken) == [2], "GPUs of other nodes are not its to speak of"
    made.tell(NodeLeft(1, 2.0))
    made.tell(GpusTaken(1, (2,), (BOB,), 3.0), GpusTaken(9, (2,), (BOB,), 3.0))
    assert made.state.nodes.taken == {}


def test_a_snapshot_and_a_copy_know_it() -> None:
    made, words = bench(), make_codec()
    made.tell(GpusTaken(0, (1,), (BOB,), 0.0))
    plain = json.loads(json.dumps(made.core.snapshot(words)))
    other = bench()
    other.core.restore(plain, words)
    twin = made.core.fork()
    made.tell(GpusTaken(0, (), (), 1.0))
    assert other.state.nodes.taken == twin.state.nodes.taken == {1: BOB}
    event = GpusTaken(0, (1,), (BOB,), 0.0)
    assert words.decode(json.loads(json.dumps(words.encode(event)))) == event
