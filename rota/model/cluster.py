"""The machines: nodes of equal GPUs, GPUs numbered node by node, one pool per accelerator type."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rota.errors import ClusterError
from rota.model.accelerators import ACCELERATORS
from rota.model.units import Ints, frozen_ints

EXAMPLE = '"8xV100 + 2x(4xA100)" is eight pooled V100s and two nodes of four A100s'
MOST_GPUS = 1_000_000

_TERM = re.compile(
    r"(?:(?P<nodes>\d+)\s*x\s*)?\(\s*(?P<per>\d+)\s*x\s*(?P<type>[\w.-]+)\s*\)|(?P<count>\d+)\s*x\s*(?P<bare>[\w.-]+)"
)


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with an agent. All its GPUs are of one accelerator type."""

    name: str
    accelerator: str
    gpus: int
    rack: str = ""
    host_gib: float = 0.0
    """Host memory that parked jobs may use."""


@dataclass(frozen=True)
class Cluster:
    """An immutable floor plan. GPU numbers run through the nodes in order, so a node is a range of GPUs."""

    nodes: tuple[Node, ...]
    text: str = field(default="", compare=False)
    dollars_per_hour: Mapping[str, float] = field(default_factory=dict)
    """What one GPU of a type costs, where that is not its list price."""
    inside_gb_s: Mapping[str, float] = field(default_factory=dict)
    """Bandwidth between the GPUs of one node, by accelerator type, where that is not what is usual for the type."""
    between_gb_s: float | None = None
    """Bandwidth between nodes; None: what is usual."""

    @classmethod
    def of(cls, nodes: Iterable[Node], text: str = "", **facts: Any) -> "Cluster":
        found = tuple(nodes)
        if not found:
            raise ClusterError("a cluster needs at least one GPU.", field="cluster", value=text, hint=EXAMPLE)
        if sum(node.gpus for node in found) > MOST_GPUS:
            raise ClusterError(f"more than {MOST_GPUS:,} GPUs.", field="cluster", value=text, hint=EXAMPLE)
        return cls(found, text, **facts)

    def price(self, accelerator: str) -> float | None:
        """Dollars a GPU of a type costs an hour: as the operator said, or its list price; None where nobody knows."""
        card = ACCELERATORS.get(accelerator)
        return self.dollars_per_hour.get(accelerator, card.dollars_per_hour if card is not None else None)

    @classmethod
    def parse(cls, text: str) -> "Cluster":
        """Read `36xV100 + 9x(4xP100)`: a bare term is one pool without node structure, brackets are nodes."""
        nodes: list[Node] = []
        for raw in text.split("+"):
            term = raw.strip()
            match = _TERM.fullmatch(term)
            if match is None:
                raise ClusterError("not COUNTxTYPE or NODESx(COUNTxTYPE).", field="cluster", value=term or text, hint=EXAMPLE)
            copies = int(match["nodes"] or 1)
            gpus = int(match["per"] or match["count"])
            if gpus < 1 or copies < 1:
                raise ClusterError("a count must be at least 1.", field="cluster", value=term, hint=EXAMPLE)
            if copies * gpus > MOST_GPUS:
                raise ClusterError(f"more than {MOST_GPUS:,} GPUs.", field="cluster", value=term, hint=EXAMPLE)
            kind = canonical(match["type"] or match["bare"])
            nodes += [Node(f"n{number}", kind, gpus) for number in range(len(nodes) + 1, len(nodes) + copies + 1)]
        return cls.of(nodes, text)

    @cached_property
    def pools(self) -> tuple[str, ...]:
        """Accelerator types, in order of first appearance."""
        return tuple(dict.fromkeys(node.accelerator for node in self.nodes))

    @cached_property
    def node_pool(self) -> Ints:
        index = {name: i for i, name in enumerate(self.pools)}
        return frozen_ints([index[node.accelerator] for node in self.nodes])

    @cached_property
    def node_rack(self) -> Ints:
        """Number of each node's rack, in order of first appearance."""
        index = {name: i for i, name in enumerate(dict.fromkeys(node.rack for node in self.nodes))}
        return frozen_ints([index[node.rack] for node in self.nodes])

    @cached_property
    def node_gpus(self) -> Ints:
        return frozen_ints([node.gpus for node in self.nodes])

    @cached_property
    def node_first(self) -> Ints:
        """First GPU of each node, with the total behind it: node n has GPUs node_first[n] to node_first[n + 1]."""
        return frozen_ints(np.concatenate(([0], np.cumsum(self.node_gpus))))

    @cached_property
    def gpu_node(self) -> Ints:
        return frozen_ints(np.repeat(np.arange(len(self.nodes)), self.node_gpus))

    @cached_property
    def gpu_pool(self) -> Ints:
        return frozen_ints(self.node_pool[self.gpu_node])

    @cached_property
    def pool_gpus(self) -> Ints:
        """GPUs in each pool."""
        return frozen_ints(np.bincount(self.gpu_pool, minlength=len(self.pools)))

    @cached_property
    def pool_nodes(self) -> tuple[list[int], ...]:
        """Nodes of each pool."""
        return tuple([n for n, pool in enumerate(self.node_pool.tolist()) if pool == p] for p in range(len(self.pools)))

    def fewest_nodes(self, pool: int, gpus: int) -> int:
        """Nodes of a pool that so many GPUs take at least."""
        largest = np.sort(self.node_gpus[self.pool_nodes[pool]])[::-1]
        return int(np.searchsorted(np.cumsum(largest), gpus)) + 1

    @property
    def gpus(self) -> int:
        return int(self.node_first[-1])

    def __str__(self) -> str:
        return self.text or " + ".join(f"1x({node.gpus}x{node.accelerator})" for node in self.nodes)


ACCELERATOR = re.compile(r"[\w.-]+")
"""What a name of an accelerator type looks like."""


def canonical(accelerator: str) -> str:
    """Accelerator names ignore case: `v100` and `V100` are one type."""
    return accelerator.strip().upper()
