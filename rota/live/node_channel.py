"""What reaches the nodes of a cluster, as the driver `Fleet` sees it. `rota/ray` does it by Ray; tests do it in one process.

A host is one life of a node's agent. A machine that was away comes back as another host with the same name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rota.agent.node_agent import NodeFacts


@dataclass(frozen=True)
class ReachableHost:
    """A host that can be reached."""

    facts: NodeFacts
    draining: bool = False
    """It is to leave: no new work for it."""


class HostReply(NamedTuple):
    """What became of a message."""

    host: str
    text: str | None
    """None: it got lost, or the answer did. Whether anything was done is not known."""
    arrived_s: float
    """When it came, on this machine's clock that counts from boot."""


class NodeChannel(Protocol):
    """All methods are quick: what takes time is done by threads of its own."""

    def open(self, wake: Callable[[], None]) -> None:
        """`wake` is called, from any thread, when there is an answer, a supervisor rang, or hosts came or went."""

    def nodes(self) -> Mapping[str, ReachableHost]:
        """Hosts that can be reached, by their names of one life."""

    def send(self, host: str, text: str) -> None:
        """A message for its agent (`NodeAgent.exchange`). One at a time for each host."""

    def replies(self) -> list[HostReply]:
        """What has come since the last call."""

    def changed(self, host: str, facts: NodeFacts) -> None:
        """The agent of this host was started again, and says that its node is this."""

    def notes(self) -> list[str]:
        """What the operator should know, since the last call: a node that can't be used, and why."""

    def rang(self) -> set[str]:
        """Hosts where something has changed since the last call."""

    def close(self) -> None: ...
