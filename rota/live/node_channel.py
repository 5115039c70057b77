"""Channels, which carry messages between the driver and the agents of nodes.

`rota/live/local_channel.py` has an agent in the scheduler's process, for a single machine. `rota/ray/channel.py` reaches the
nodes of a Ray cluster. A host is one run of a node's agent: a machine that was away comes back as another host with the same
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
    """Nodes into which a single machine is divided; None if the host is one node, as its facts describe."""


class HostReply(NamedTuple):
    """The reply to a message."""

    host: str
    text: str | None
    """The reply; None if the request or the reply was lost, so the outcome is unknown."""
    arrived_s: float
    """Time of arrival, on this machine's clock that counts from boot."""


class NodeChannel(Protocol):
    """Carries messages. All methods are quick: slow work is done by threads of the channel, or is a command to an agent in this
    process."""

    nodes_can_leave: bool
    """Whether nodes are separate machines, which may be unreachable, leave and come back. Otherwise the only host is this
    machine, which has all nodes, and its agent has replied when `send` returns."""

    def open(self, wake: Callable[[], None]) -> None:
        """Begin. `wake` is called, from any thread, when there is a reply, a supervisor rang, or hosts came or went."""

    def nodes(self) -> Mapping[str, ReachableHost]:
        """Return the reachable hosts by ID. May be called before `open`."""

    def send(self, host: str, text: str) -> None:
        """Send a message to the agent of a host (`NodeAgent.exchange`), one at a time for each host."""

    def replies(self) -> list[HostReply]:
        """Return the replies since the last call."""

    def changed(self, host: str, facts: NodeFacts) -> None:
        """Note that the agent of this host was restarted and now reports these facts of its node."""

    def notes(self) -> list[str]:
        """Return lines for the operator since the last call: nodes that cannot be used, and why."""

    def notified(self) -> set[str]:
        """Return the hosts where something has changed since the last call."""

    def read_gpus(self) -> Readings:
        """Return present readings if the GPUs can be read from here within a second; otherwise none. Any thread."""

    def close(self) -> None:
        """Disconnect. Agents of other machines stay, and so do all supervisors."""
