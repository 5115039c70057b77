"""Messages to the operator about nodes that come and go."""

import pytest

from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.live.node_log import NodeLog
from rota.model.cluster import Cluster
from rota.model.events import External, NodeDrainChanged, NodeLeft, NodeReported, TimerFired
from rota.placers.packed import Packed


class Desk:
    """A scheduler of two nodes, and its log."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(Cluster.parse("2x(2xV100)"), Packed(), Settings(node_timeout_seconds=30.0))
        self.log = NodeLog(self.scheduler.state)

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
