"""Nodes: their condition, and which jobs hold which of their GPUs."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from rota.core.state.copying import copied
from rota.core.state.records import Drain, FailedStart
from rota.model.accelerators import ACCELERATORS
from rota.model.cluster import Cluster, Node
from rota.model.occupancy import FREE, Occupancy
from rota.model.units import FOREVER, Bools, Floats, Ints


@dataclass(eq=False)
class NodeTable:
    """Nodes by number, as columns, and their GPUs."""

    cluster: Cluster
    """All nodes that ever joined."""
    observed: Occupancy
    """Which jobs hold which GPUs, as reported."""
    planned: Occupancy
    """Which jobs should hold which GPUs, by the plan."""
    node_up: Bools
    """Whether each node answers."""
    node_boot: Ints
    """Number of restarts of each node. Reports from before a restart are ignored."""
    node_heard_s: Floats
    """Time of the last report from each node."""
    host_gib: Floats
    """Host memory left for parked jobs on each node, in GiB."""
    gpu_gib: Floats
    """Memory of each GPU, in GiB; infinite if unknown."""
    context_gib: Floats
    """GPU memory that parked jobs keep on each GPU, in GiB."""
    draining: set[int] = field(default_factory=set)
    """Nodes that jobs are to leave."""
    gone: set[int] = field(default_factory=set)
    """Nodes that left for good. Their numbers are not used again."""
    cordoned: tuple[int, ...] = ()
    """GPUs that are out of service: those of failing nodes, then those that are too slow, the slowest first."""
    failed_starts: dict[int, tuple[FailedStart, ...]] = field(default_factory=dict)
    """By node: starts that failed there within seconds, since a job last began to run there."""
    failing: dict[int, float] = field(default_factory=dict)
    """Nodes that are out of service because starts fail there, and until when."""
    proven_failures: dict[int, tuple[FailedStart, ...]] = field(default_factory=dict)
    """By node: starts that failed there, of jobs that ran on others. A failing node without any is on trial."""
    failing_jobs: set[int] = field(default_factory=set)
    """Jobs whose starts fail on several nodes."""
    taken: dict[int, str] = field(default_factory=dict)
    """GPUs that other programs use, with a description of the program."""
    drains: dict[int, Drain] = field(default_factory=dict)
    """Drains and reservations of operators by number, those that have not begun too."""
    drained: tuple[int, ...] = ()
    """GPUs that operators drain now, in order."""
    windows: tuple[tuple[int, bool], ...] = ()
    """Reservations, and drains that have not begun: the number of each, and whether it has begun. No GPU is for all jobs that is
    in one of them."""
    last_drain: int = 0
    """Number of the latest drain. Numbers rise."""
    absent_drains: dict[str, tuple[Drain, ...]] = field(default_factory=dict)
    """Drains of whole nodes that have left since, by name of the node. They continue when the machine joins again."""
    removed: set[str] = field(default_factory=set)
    """Names of nodes that operators have removed. Machines with these names do not join."""

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        """All nodes up and empty."""
        nodes = len(cluster.nodes)
        return cls(
            cluster=cluster,
            observed=Occupancy(np.full(cluster.gpus, FREE, dtype=np.int64)),
            planned=Occupancy(np.full(cluster.gpus, FREE, dtype=np.int64)),
            node_up=np.ones(nodes, dtype=bool),
            node_boot=np.zeros(nodes, dtype=np.int64),
            node_heard_s=np.zeros(nodes),
            gpu_gib=np.repeat([_memory_of(node) for node in cluster.nodes], cluster.node_gpus),
            context_gib=np.zeros(cluster.gpus),
            host_gib=np.array([node.room_gib for node in cluster.nodes], dtype=np.float64),
        )

    def nodes_of(self, gpus: Ints) -> tuple[int, ...]:
        """Nodes of some sorted GPUs."""
        nodes = self.cluster.gpu_node
        first = nodes.item(gpus.item(0))
        last = nodes.item(gpus.item(-1)) if len(gpus) > 1 else first
        return (first,) if first == last else tuple(dict.fromkeys(nodes[gpus].tolist()))

    def lasting_gpus(self) -> Ints:
        """GPUs of each pool on nodes that have not left."""
        there = ~np.isin(self.cluster.gpu_node, list(self.gone))
        return np.bincount(self.cluster.gpu_pool[there], minlength=len(self.cluster.pools))

    def staying(self) -> Bools:
        """GPUs on nodes that are up and not drained."""
        mask = self.node_up[self.cluster.gpu_node]
        if self.draining:
            mask &= ~np.isin(self.cluster.gpu_node, list(self.draining))
        return mask

    def add(self, node: Node, now_s: float) -> None:
        """Append a node."""
        self.cluster = replace(self.cluster, nodes=(*self.cluster.nodes, node), text="")
        for occupancy in (self.observed, self.planned):
            occupancy.grow(node.gpus)
        self.gpu_gib = np.append(self.gpu_gib, np.full(node.gpus, _memory_of(node)))
        self.context_gib = np.append(self.context_gib, np.zeros(node.gpus))
        self.node_up = np.append(self.node_up, True)
        self.node_boot = np.append(self.node_boot, 0)
        self.node_heard_s = np.append(self.node_heard_s, now_s)
        self.host_gib = np.append(self.host_gib, node.room_gib)

    def copy(self) -> "NodeTable":
        return copied(self)


def _memory_of(node: Node) -> float:
    """Memory of each GPU of a node, as its maker says."""
    known = ACCELERATORS.get(node.accelerator)
    return FOREVER if known is None else known.memory_gib
