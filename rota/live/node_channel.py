"""What carries messages between the driver and the agents of nodes.

`rota/live/local_channel.py` has an agent in the scheduler's process, for a single machine. `rota/ray/channel.py` reaches the
nodes of a Ray cluster. A host is one life of a node's agent: a machine that was away comes back as another host with the same
name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rota.agent.gpu_readings import Readings
from rota.agent.node_agent import NodeFacts
from rota.model.cluster import Cluster


@dataclass(frozen=True)
class ReachableHost:
    """A host that can be reached."""

    facts: NodeFacts
    draining: bool = False
    """Whether the host is to leave and gets no new work."""
    machine: Cluster | None = field(default=None, compare=False)
    """The nodes into which a single machine is divided; None: the host is one node, as its facts say."""


class HostReply(NamedTuple):
    """What became of a message."""

    host: str
    text: str | None
    """None: it got lost, or the answer did. Whether anything was done is not known."""
    arrived_s: float
    """When it came, on this machine's clock that counts from boot."""


class NodeChannel(Protocol):
    """Carries messages. All methods are quick: what takes time is done by threads of the channel, or is a command to an agent in
    this process."""

    nodes_can_leave: bool
    """Whether nodes are machines of their own, which may be unreachable, leave and come back. Otherwise the one host is this
    machine and has all nodes, and its agent has answered when `send` returns."""

    def open(self, wake: Callable[[], None]) -> None:
        """Begin. `wake` is called, from any thread, when there is an answer, a supervisor rang, or hosts came or went."""

    def nodes(self) -> Mapping[str, ReachableHost]:
        """Return the hosts that can be reached, by their names of one life. May be asked before `open`."""

    def send(self, host: str, text: str) -> None:
        """Send a message to the agent of a host (`NodeAgent.exchange`), one at a time for each host."""

    def replies(self) -> list[HostReply]:
        """Return the answers that have come since the last call."""

    def changed(self, host: str, facts: NodeFacts) -> None:
        """The agent of this host was started again, and says that its node is this."""

    def notes(self) -> list[str]:
        """Return lines for the operator since the last call: a node that can't be used, and why."""

    def rang(self) -> set[str]:
        """Return the hosts where something has changed since the last call."""

    def read_gpus(self) -> Readings:
        """Return readings of this moment, if the GPUs can be read from here within a second; else none. Any thread."""

    def close(self) -> None:
        """Leave. Agents of other machines stay, and supervisors everywhere."""
