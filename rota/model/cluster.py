"""A cluster: nodes whose GPUs are numbered node by node, and a pool for each accelerator type."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from rota.errors import ClusterError
from rota.model.accelerators import ACCELERATORS
from rota.model.units import Bools, Ints, frozen_ints

EXAMPLE = '"8xV100 + 2x(4xA100)" is eight pooled V100s and two nodes of four A100s'
MAX_GPUS = 1_000_000

_TERM = re.compile(r"(?:(?P<copies>\d+)\s*x\s*)?\((?P<inner>.+)\)|(?P<count>\d+)\s*x\s*(?P<bare>[\w.-]+)", re.DOTALL)
HOST_GIB_PER_GPU = 64.0
"""Host memory for parked jobs per GPU, in GiB, if the cluster does not specify it. A DGX-1 has this much."""

MAX_LEVELS = 8
"""Maximum depth of nested brackets. No real fabric has this many levels."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with an agent. All its GPUs have the same accelerator type."""

    name: str
    accelerator: str
    gpus: int
    rack: str = ""
    """Location of the node, outermost first: `r5`, or `hall1/row2/r5`; empty if unknown."""
    host_gib: float | None = None
    """Host memory that parked jobs may use, in GiB; None if unknown."""

    @property
    def room_gib(self) -> float:
        """Host memory that parked jobs may use, in GiB. If unknown, it is estimated from the number of GPUs."""
        return HOST_GIB_PER_GPU * self.gpus if self.host_gib is None else self.host_gib


class ClusterChange(NamedTuple):
    """What happens to a node of a simulated cluster, and when."""

    at_s: float
    what: Literal["join", "drain", "undrain", "leave"]
    node: int
    """Number of the node. Nodes that join have the highest numbers, in the order in which they join."""


@dataclass(frozen=True)
class Cluster:
    """The nodes of a cluster. GPUs are numbered through the nodes in order, so that a node is a range of GPUs."""

    nodes: tuple[Node, ...]
    """Nodes, in the order of the numbers of their GPUs."""
    text: str = field(default="", compare=False)
    """Text that describes the cluster, or name of the file that does."""
    dollars_per_hour: Mapping[str, float] = field(default_factory=dict)
    """Price of one GPU by accelerator type, in dollars per hour, for types that do not have their list price."""
    intra_node_gb_s: Mapping[str, float] = field(default_factory=dict)
    """Bandwidth between the GPUs of one node by accelerator type, in GB/s, for types that do not have their usual bandwidth."""
    inter_node_gb_s: float | None = None
    """Bandwidth between nodes, in GB/s; None for the usual one."""
    inter_rack_gb_s: tuple[float, ...] = ()
    """Bandwidths between racks and at each level further out, in GB/s. Levels that are not listed have the last of them."""

    @classmethod
    def of(cls, nodes: Iterable[Node], text: str = "", **facts: Any) -> "Cluster":
        """Build a cluster from nodes. `facts` are other fields."""
        found = tuple(nodes)
        if not found:
            raise ClusterError("a cluster needs at least one GPU.", field="cluster", value=text, hint=EXAMPLE)
        if sum(node.gpus for node in found) > MAX_GPUS:
            raise ClusterError(f"more than {MAX_GPUS:,} GPUs.", field="cluster", value=text, hint=EXAMPLE)
        return cls(found, text, **facts)

    def price(self, accelerator: str) -> float | None:
        """Return the price of a GPU in dollars per hour: the operator's, or else the list price; None if unknown."""
        card = ACCELERATORS.get(accelerator)
        return self.dollars_per_hour.get(accelerator, card.dollars_per_hour if card is not None else None)

    @classmethod
    def parse(cls, text: str) -> "Cluster":
        """Read a text such as `36xV100 + 9x(4xP100)`. A term without brackets is a pool of single GPUs. Brackets are nodes, and
        brackets around brackets are racks and so on: `2x(9x(4xP100))` is two racks of nine nodes."""
        nodes: list[Node] = []
        for raw in text.split("+"):
            kind, counts = _term(raw.strip(), text)
            gpus, copies, *groups = counts
            racks = 1 + len({node.rack for node in nodes if node.rack})
            for number in range(math.prod(counts[1:])):
                rack = _path(number // copies, groups, racks) if groups else ""
                nodes.append(Node(f"n{len(nodes) + 1}", kind, gpus, rack))
        return cls.of(nodes, text)

    @cached_property
    def pools(self) -> tuple[str, ...]:
        """Accelerator types, in order of first appearance."""
        return tuple(dict.fromkeys(node.accelerator for node in self.nodes))

    @cached_property
    def node_pool(self) -> Ints:
        """Pool of each node."""
        index = {name: i for i, name in enumerate(self.pools)}
        return frozen_ints([index[node.accelerator] for node in self.nodes])

    @cached_property
    def domains(self) -> tuple[Ints, ...]:
        """Numbers of the node, rack and so on that each node belongs to: one row for each level, innermost first. A gang spans as
        many levels as there are rows in which its nodes differ."""
        paths = [tuple(part for part in node.rack.split("/") if part) for node in self.nodes]
        depth = max(map(len, paths))
        paths = [(*path, *("",) * (depth - len(path))) for path in paths]
        rows = [frozen_ints(np.arange(len(paths)))]
        for kept in range(depth, 0, -1):
            index = {path: i for i, path in enumerate(dict.fromkeys(path[:kept] for path in paths))}
            rows.append(frozen_ints([index[path[:kept]] for path in paths]))
        return tuple(rows)

    def levels_of(self, nodes: Sequence[int]) -> int:
        """Return how many levels of locality these nodes span: 0 for one node, 1 for several nodes of a rack, and so on."""
        if len(nodes) < 2:
            return 0
        places = list(nodes)
        return sum(bool((row[places] != row[places[0]]).any()) for row in self.domains)

    def spanned(self, gpus: Ints) -> int:
        """Return how many levels of locality these sorted GPUs span."""
        if len(gpus) < 2 or self.gpu_node.item(gpus.item(0)) == self.gpu_node.item(gpus.item(-1)):
            return 0
        if len(self.domains) == 1:
            return 1
        return self.levels_of(np.unique(self.gpu_node[gpus]).tolist())

    @cached_property
    def node_gpus(self) -> Ints:
        """GPUs of each node."""
        return frozen_ints([node.gpus for node in self.nodes])

    @cached_property
    def node_first(self) -> Ints:
        """First GPU of each node, then the number of all GPUs. Node n has GPUs node_first[n] to node_first[n + 1] - 1."""
        return frozen_ints(np.concatenate(([0], np.cumsum(self.node_gpus))))

    @cached_property
    def gpu_node(self) -> Ints:
        """Node of each GPU."""
        return frozen_ints(np.repeat(np.arange(len(self.nodes)), self.node_gpus))

    @cached_property
    def gpu_pool(self) -> Ints:
        """Pool of each GPU."""
        return frozen_ints(self.node_pool[self.gpu_node])

    @cached_property
    def pool_gpus(self) -> Ints:
        """GPUs in each pool."""
        return frozen_ints(np.bincount(self.gpu_pool, minlength=len(self.pools)))

    @cached_property
    def pool_nodes(self) -> tuple[list[int], ...]:
        """Nodes of each pool."""
        return tuple([n for n, pool in enumerate(self.node_pool.tolist()) if pool == p] for p in range(len(self.pools)))

    @cached_property
    def widest(self) -> tuple[int, ...]:
        """Number of GPUs of the largest node of each pool."""
        return tuple(int(self.node_gpus[nodes].max()) for nodes in self.pool_nodes)

    def count_by_node(self, gpus: Bools) -> Ints:
        """Return how many of these GPUs each node has."""
        counts: Ints = np.add.reduceat(gpus, self.node_first[:-1], dtype=np.int64)
        return counts

    def fewest_nodes(self, pool: int, gpus: int) -> int:
        """Return the smallest number of nodes of a pool that have this many GPUs."""
        largest = np.sort(self.node_gpus[self.pool_nodes[pool]])[::-1]
        return int(np.searchsorted(np.cumsum(largest), gpus)) + 1

    def fewest_levels(self, pool: int, gpus: int) -> int:
        """Return the smallest number of levels that this many GPUs of a pool can span."""
        key = (pool, gpus)
        if key not in self._fewest_levels:
            mine = np.where(self.node_pool == pool, self.node_gpus, 0)
            rooms = (int(np.bincount(row, weights=mine).max()) for row in self.domains)
            self._fewest_levels[key] = sum(room < gpus for room in rooms)
        return self._fewest_levels[key]

    @cached_property
    def _fewest_levels(self) -> dict[tuple[int, int], int]:
        return {}

    @property
    def gpus(self) -> int:
        """Number of GPUs of all nodes."""
        return int(self.node_first[-1])

    def __str__(self) -> str:
        return self.text or " + ".join(f"1x({node.gpus}x{node.accelerator})" for node in self.nodes)


ACCELERATOR = re.compile(r"[\w.-]+")
"""Form of an accelerator type's name."""


def _term(term: str, text: str) -> tuple[str, list[int]]:
    """Return the accelerator type of a term and its counts, innermost first: GPUs, nodes, racks and so on."""
    counts: list[int] = []
    inner = term
    while True:
        match = _TERM.fullmatch(inner)
        if match is None or len(counts) > MAX_LEVELS:
            if text.count("(") != text.count(")"):
                raise ClusterError("a bracket is missing.", field="cluster", value=text, hint="2x(3x(4xV100)) is two racks")
            if "+" in text and term.count("(") != term.count(")"):
                hint = "write a term for each kind of node, or a YAML file with racks"
                raise ClusterError("a bracket must have only one accelerator type.", field="cluster", value=text, hint=hint)
            raise ClusterError("is neither COUNTxTYPE nor NODESx(COUNTxTYPE).", field="cluster", value=term or text, hint=EXAMPLE)
        counts.append(int(match["count"] or match["copies"] or 1))
        if min(counts) < 1:
            raise ClusterError("a count must be at least 1.", field="cluster", value=term, hint=EXAMPLE)
        if math.prod(counts) > MAX_GPUS:
            raise ClusterError(f"more than {MAX_GPUS:,} GPUs.", field="cluster", value=term, hint=EXAMPLE)
        if match["bare"]:
            if re.match(r"\d+x", match["bare"], re.IGNORECASE):
                problem = f"{match['bare']!r} is not an accelerator type. Is a bracket missing?"
                raise ClusterError(
                    problem, field="cluster", value=term, hint="2x(3x(4xV100)) is two racks of three nodes of four"
                )
            counts.reverse()
            return canonical(match["bare"]), counts if len(counts) > 1 else [*counts, 1]
        inner = match["inner"].strip()


def _path(number: int, groups: Sequence[int], first: int) -> str:
    """Return the location of the rack with this number. `groups` counts the racks in each larger group, and so on outwards."""
    parts = []
    for count in groups[:-1]:
        number, place = divmod(number, count)
        parts.append(f"r{place + 1}")
    parts.append(f"r{first + number}")
    return "/".join(reversed(parts))


def canonical(accelerator: str) -> str:
    """Return the accelerator type in capitals: `v100` and `V100` are the same type."""
    return accelerator.strip().upper()
