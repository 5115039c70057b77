"""The machines: nodes of equal GPUs, GPUs numbered node by node, one pool per accelerator type."""

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
MOST_GPUS = 1_000_000

_TERM = re.compile(r"(?:(?P<copies>\d+)\s*x\s*)?\((?P<inner>.+)\)|(?P<count>\d+)\s*x\s*(?P<bare>[\w.-]+)", re.DOTALL)
HOST_GIB_PER_GPU = 64.0
"""Host memory for parked jobs where the cluster does not say: what a DGX-1 has for each of its eight GPUs."""

MOST_LEVELS = 8
"""Brackets around brackets: more than any fabric has."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with an agent. All its GPUs are of one accelerator type."""

    name: str
    accelerator: str
    gpus: int
    rack: str = ""
    """Where it stands, from the outside in: `r5`, or `hall1/row2/r5`; empty: nobody said."""
    host_gib: float | None = None
    """Host memory that parked jobs may use; None: not known."""

    @property
    def room_gib(self) -> float:
        """The same; where it is not known, what servers usually have for each GPU."""
        return HOST_GIB_PER_GPU * self.gpus if self.host_gib is None else self.host_gib


class ClusterChange(NamedTuple):
    """What happens to a node of a simulated cluster, and when."""

    at_s: float
    what: Literal["join", "drain", "undrain", "leave"]
    node: int
    """Nodes that join have the highest numbers, in the order they join."""


@dataclass(frozen=True)
class Cluster:
    """An immutable floor plan. GPU numbers run through the nodes in order, so a node is a range of GPUs."""

    nodes: tuple[Node, ...]
    """In the order of their GPUs' numbers."""
    text: str = field(default="", compare=False)
    """What it was read from: a text, or the name of a file."""
    dollars_per_hour: Mapping[str, float] = field(default_factory=dict)
    """What one GPU of a type costs, where that is not its list price."""
    inside_gb_s: Mapping[str, float] = field(default_factory=dict)
    """Bandwidth between the GPUs of one node, by accelerator type, where that is not what is usual for the type."""
    between_gb_s: float | None = None
    """Bandwidth between nodes; None: what is usual."""
    beyond_gb_s: tuple[float, ...] = ()
    """Bandwidth between racks, and between what racks stand in, outwards; levels that are not listed are like the last."""

    @classmethod
    def of(cls, nodes: Iterable[Node], text: str = "", **facts: Any) -> "Cluster":
        """A cluster of these nodes; `facts` are further fields."""
        found = tuple(nodes)
        if not found:
            raise ClusterError("a cluster needs at least one GPU.", field="cluster", value=text, hint=EXAMPLE)
        if sum(node.gpus for node in found) > MOST_GPUS:
            raise ClusterError(f"more than {MOST_GPUS:,} GPUs.", field="cluster", value=text, hint=EXAMPLE)
        return cls(found, text, **facts)

    def price(self, accelerator: str) -> float | None:
        """Dollars a GPU of a type costs an hour: as the operator said, or its list price; None if unknown."""
        card = ACCELERATORS.get(accelerator)
        return self.dollars_per_hour.get(accelerator, card.dollars_per_hour if card is not None else None)

    @classmethod
    def parse(cls, text: str) -> "Cluster":
        """Read `36xV100 + 9x(4xP100)`: a bare term is one pool without node structure, brackets are nodes. Brackets around those
        are racks, and so on outwards: `2x(9x(4xP100))` is two racks of nine nodes."""
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
        """What each node is part of, from the inside out: itself, its rack, what that stands in, and so on. A gang spans as many
        levels as there are rows in which its nodes differ."""
        paths = [tuple(part for part in node.rack.split("/") if part) for node in self.nodes]
        depth = max(map(len, paths))
        paths = [(*path, *("",) * (depth - len(path))) for path in paths]
        rows = [frozen_ints(np.arange(len(paths)))]
        for kept in range(depth, 0, -1):
            index = {path: i for i, path in enumerate(dict.fromkeys(path[:kept] for path in paths))}
            rows.append(frozen_ints([index[path[:kept]] for path in paths]))
        return tuple(rows)

    def levels_of(self, nodes: Sequence[int]) -> int:
        """Levels of locality that these nodes span: 0 for one node, 1 for several of a rack, and so on outwards."""
        if len(nodes) < 2:
            return 0
        places = list(nodes)
        return sum(bool((row[places] != row[places[0]]).any()) for row in self.domains)

    def spanned(self, gpus: Ints) -> int:
        """The same of some sorted GPUs."""
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
        """First GPU of each node, with the total behind it: node n has GPUs node_first[n] to node_first[n + 1]."""
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
        """GPUs of the largest node of each pool."""
        return tuple(int(self.node_gpus[nodes].max()) for nodes in self.pool_nodes)

    def count_by_node(self, gpus: Bools) -> Ints:
        """How many of these GPUs each node has."""
        counts: Ints = np.add.reduceat(gpus, self.node_first[:-1], dtype=np.int64)
        return counts

    def fewest_nodes(self, pool: int, gpus: int) -> int:
        """Nodes of a pool that so many GPUs take at least."""
        largest = np.sort(self.node_gpus[self.pool_nodes[pool]])[::-1]
        return int(np.searchsorted(np.cumsum(largest), gpus)) + 1

    def fewest_levels(self, pool: int, gpus: int) -> int:
        """Levels that so many GPUs of a pool span at least."""
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
        """GPUs of all nodes."""
        return int(self.node_first[-1])

    def __str__(self) -> str:
        return self.text or " + ".join(f"1x({node.gpus}x{node.accelerator})" for node in self.nodes)


ACCELERATOR = re.compile(r"[\w.-]+")
"""What a name of an accelerator type looks like."""


def _term(term: str, text: str) -> tuple[str, list[int]]:
    """The accelerator type of a term, and its counts from the inside out: GPUs, nodes, racks, ..."""
    counts: list[int] = []
    inner = term
    while True:
        match = _TERM.fullmatch(inner)
        if match is None or len(counts) > MOST_LEVELS:
            if text.count("(") != text.count(")"):
                raise ClusterError("a bracket has no partner.", field="cluster", value=text, hint="2x(3x(4xV100)) is two racks")
            if "+" in text and term.count("(") != term.count(")"):
                hint = "each kind of node in a term of its own, or a YAML file with racks"
                raise ClusterError("what is in brackets must be alike.", field="cluster", value=text, hint=hint)
            raise ClusterError("not COUNTxTYPE or NODESx(COUNTxTYPE).", field="cluster", value=term or text, hint=EXAMPLE)
        counts.append(int(match["count"] or match["copies"] or 1))
        if min(counts) < 1:
            raise ClusterError("a count must be at least 1.", field="cluster", value=term, hint=EXAMPLE)
        if math.prod(counts) > MOST_GPUS:
            raise ClusterError(f"more than {MOST_GPUS:,} GPUs.", field="cluster", value=term, hint=EXAMPLE)
        if match["bare"]:
            if re.match(r"\d+x", match["bare"], re.IGNORECASE):
                problem = f"{match['bare']!r} is no accelerator type: is a bracket missing?"
                raise ClusterError(
                    problem, field="cluster", value=term, hint="2x(3x(4xV100)) is two racks of three nodes of four"
                )
            counts.reverse()
            return canonical(match["bare"]), counts if len(counts) > 1 else [*counts, 1]
        inner = match["inner"].strip()


def _path(number: int, groups: Sequence[int], first: int) -> str:
    """Where the rack with this number stands, if so many racks stand in each of so many larger groups, and so on."""
    parts = []
    for count in groups[:-1]:
        number, place = divmod(number, count)
        parts.append(f"r{place + 1}")
    parts.append(f"r{first + number}")
    return "/".join(reversed(parts))


def canonical(accelerator: str) -> str:
    """Accelerator names ignore case: `v100` and `V100` are one type."""
    return accelerator.strip().upper()
