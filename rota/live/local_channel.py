"""The channel to a single machine: an agent in this process, which keeps its files in the scheduler's home.

The agent has replied when `send` returns, so there is no thread and no wait between a command and its supervisor. The lock on the
home prevents a second agent, and leases are kept on the clock of this machine, so neither boots nor epochs are compared.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rota.agent.gpu_readings import Readings
from rota.agent.gpus import Gpu
from rota.agent.node_agent import NodeAgent, NodeFacts
from rota.agent.processes import boot_s
from rota.live.cluster_changes import pretend_devices
from rota.live.node_channel import HostReply, ReachableHost
from rota.model.cluster import Cluster

HOST = "here"


class LocalChannel:
    """A `NodeChannel` to this machine."""

    nodes_can_leave = False

    def __init__(self, home: Path, cluster: Cluster, gpus: Sequence[Sequence[Gpu]] | None = None) -> None:
        """Describe the machine. `cluster` has the nodes into which it is divided; `gpus` has the real GPUs of each node, None for
        pretend GPUs."""
        self._home = home
        real = [gpu for each in gpus or () for gpu in each]
        self._uuids = {gpu.index: gpu.uuid for gpu in real}
        pretend = [name for names in pretend_devices(cluster) for name in names]
        facts = NodeFacts(
            name="",
            accelerator="",
            devices=tuple(gpu.uuid for gpu in real) if gpus is not None else tuple(pretend),
            indices=tuple(gpu.index for gpu in real) if gpus is not None else tuple(range(len(pretend))),
            boot=0,
            host=socket.gethostname(),
            address="127.0.0.1",
            interface="",
            host_gib=None,
            pretend=gpus is None,
        )
        self._there = {HOST: ReachableHost(facts, machine=cluster)}
        self._agent: NodeAgent | None = None
        self._replies: list[HostReply] = []

    def open(self, wake: Callable[[], None]) -> None:
        """Start the agent. It finds the attempts of an earlier daemon by their files."""
        self._agent = NodeAgent(self._home, self._there[HOST].facts, self._uuids, wake=wake)

    def nodes(self) -> Mapping[str, ReachableHost]:
        return self._there

    def send(self, host: str, text: str) -> None:
        assert self._agent is not None, "the channel is open"
        self._replies.append(HostReply(host, self._agent.exchange(text), boot_s()))
        # No job starts before the GPUs were read once; afterwards the scheduler never waits for readings.
        self._agent.read_seconds = 0.0

    def replies(self) -> list[HostReply]:
        found, self._replies = self._replies, []
        return found

    def changed(self, host: str, facts: NodeFacts) -> None:
        """Do nothing: the agent belongs to this process, and stays."""

    def notes(self) -> list[str]:
        return []

    def notified(self) -> set[str]:
        """Return nothing: every look asks the agent."""
        return set()

    def read_gpus(self) -> Readings:
        return self._agent.readings() if self._agent is not None else {}

    def close(self) -> None:
        if self._agent is not None:
            self._agent.close()
