"""Messages to the operator about nodes that come and go."""

from typing import Any

import pytest

from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.live.node_log import NodeLog
from rota.model.cluster import Cluster
from rota.model.events import (
    Allocated,
    DrainCancelled,
    External,
    GpusDrained,
    GpusUndrained,
    NodeDrainChanged,
    NodeLeft,
    NodeRemoved,
    NodeReported,
    Started,
    Submitted,
    TimerFired,
)
from rota.model.job import JobSpec
from rota.placers.packed import Packed
from rota.policies.fifo import Fifo


class Desk:
    """A scheduler of two nodes, and its log."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(Cluster.parse("2x(2xV100)"), Packed(), Settings(node_timeout_seconds=30.0))
        self.log = NodeLog(self.scheduler.state)

    def run(self, job: int, **spec: Any) -> None:
        """Let a job run."""
        now_s, core = self.scheduler.state.now_s, self.scheduler
        core.step(now_s, [Submitted(job, JobSpec(**spec), now_s)])
        core.step(now_s, [Allocated(core.state.cycle.decision, Fifo().allocate(core.view()), now_s)])
        core.step(now_s, [Started(job, 1, 1, now_s)])

    def at(self, now_s: float, *events: External) -> list[str]:
        self.scheduler.fold(now_s, events or [TimerFired(now_s)])
        self.scheduler.commit(self.scheduler.decide())
        return self.log.lines(self.scheduler.state)


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    assert made.at(1.0, *(NodeReported(node, 1, 1.0, ()) for node in (0, 1))) == []
    return made


def test_a_node_is_lost_comes_back_is_drained_and_leaves(desk: Desk) -> None:
    first, second = (node.name for node in desk.scheduler.state.nodes.cluster.nodes)
    assert desk.at(20.0, NodeReported(0, 1, 20.0, ())) == []
    assert desk.at(41.0) == [f"{second} is unreachable: no answer for 40 s"]
    assert desk.at(42.0) == []
    assert desk.at(43.0, NodeReported(1, 1, 43.0, ()), NodeReported(0, 1, 43.0, ())) == [f"{second} is back"]
    assert desk.at(44.0, NodeDrainChanged(0, 44.0)) == [f"{first} is drained: its jobs move to other nodes"]
    assert desk.at(45.0, NodeDrainChanged(0, 45.0, draining=False)) == [f"{first} is no longer drained"]
    assert desk.at(46.0, NodeLeft(1, 46.0)) == [f"{second} left"]
    assert desk.at(47.0) == []


def test_the_next_scheduler_tells_of_nodes_that_are_away_and_not_of_those_that_left(desk: Desk) -> None:
    desk.at(46.0, NodeReported(0, 1, 46.0, ()), NodeLeft(1, 46.0))
    desk.at(90.0)
    lines = NodeLog(desk.scheduler.state).lines(desk.scheduler.state)
    assert len(lines) == 1 and "is unreachable" in lines[0]


def test_a_node_that_is_lost_and_leaves_is_named_with_its_jobs(desk: Desk) -> None:
    first = desk.scheduler.state.nodes.cluster.nodes[0].name
    desk.run(1, gpus=2)
    desk.at(20.0, NodeReported(1, 1, 20.0, ()))
    assert desk.at(41.0) == [f"{first} is unreachable: no answer for 40 s; job 1 keeps its GPUs until the lease expires"]
    assert desk.at(42.0, NodeLeft(0, 42.0)) == [f"{first} left; job 1 ran there and ended with it"]


def test_drains_of_operators_are_named_with_their_jobs(desk: Desk) -> None:
    first, second = (node.name for node in desk.scheduler.state.nodes.cluster.nodes)
    desk.run(1, gpus=1)
    desk.run(2, gpus=1, saves=False)
    lines = desk.at(5.0, GpusDrained(1, (0, 1), 5.0, 5.0, 3605.0, "fan", "ana"), GpusDrained(2, (3,), 5.0, 9.0, 99.0))
    assert lines == [f"{first} is drained by ana (fan) for another 1 h; job 1 moves away; job 2 stays until the end"]
    assert desk.at(9.0) == [f"GPU 1 of {second} is drained for another 1.5 min"]
    assert desk.at(10.0, GpusUndrained((0, 1), 10.0)) == [f"{first} is no longer drained"]
    assert desk.at(11.0, NodeRemoved(1, 11.0)) == [f"GPU 1 of {second} is no longer drained", f"{second} was removed"]


def test_reservations_are_named_with_the_jobs_of_others(desk: Desk) -> None:
    first, second = (node.name for node in desk.scheduler.state.nodes.cluster.nodes)
    desk.run(1, gpus=1)
    desk.run(2, gpus=1, saves=False)
    reserved = GpusDrained(1, (0, 1, 2), 5.0, 5.0, 3605.0, "deadline", "ana", users=("ben",))
    text = "is reserved for user ben by ana (deadline) for another 1 h; job 1 moves away; job 2 stays until the end"
    assert desk.at(5.0, reserved) == [f"{first} {text}", f"GPU 0 of {second} {text}"]
    ended = desk.at(10.0, DrainCancelled(1, 10.0))
    assert ended == [f"{first} is no longer reserved", f"GPU 0 of {second} is no longer reserved"]


def test_a_single_machine_reports_only_what_operators_request(desk: Desk) -> None:
    desk.log = NodeLog(desk.scheduler.state, nodes_can_leave=False)
    name = desk.scheduler.state.nodes.cluster.nodes[0].name
    assert desk.at(2.0, NodeDrainChanged(1, 2.0)) == []
    assert desk.at(3.0, GpusDrained(1, (0, 1), 3.0, 3.0, float("inf"))) == [f"{name} is drained"]
    assert desk.at(4.0, NodeLeft(1, 4.0)) == []
