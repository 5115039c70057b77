"""Read a cluster from a short text or a YAML file, with the failures and events of its nodes for simulations.

nodes:
  - count: 4              # number of such nodes; default 1
    accelerator: A100
    gpus: 8
    name: big             # big1 to big4; default n1, n2, ...
    rack: row1/r1         # from the outside in; or racks: 2, filled in turn; [2, 3]: two racks in each of three rows
    host_memory: 512 GiB  # host memory of a node for parked jobs
    mtbf: 30d             # mean time between failures of a node
    repair: 2h            # time until a failed node is back
links: {inter_node: [12.5, 6], intra_node: {A100: 300}}   # GB/s: between nodes, between racks, ...; between the GPUs of a node
penalties: {all: [1.1, 1.3], vgg19: [1.7, 1.2]}    # how many times longer a step takes across nodes, racks, ...; by model
prices: {A100: 2.9}       # dollars per GPU and hour
failures: {mtbf: 60d, repair: 1h}             # of nodes without mtbf and repair of their own
events:                                       # what happens to nodes, from the start of the trace
  - {at: 2h, join: {accelerator: H100, gpus: 8, count: 2, name: new}}
  - {at: 5h, drain: big2}                     # no job starts on it, and its jobs move elsewhere; undrain: big2
  - {at: 6h, leave: big2, warning: 2m}        # it leaves; with a warning it is drained for this time before
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rota.beliefs.locality import EVERYBODY, Locality
from rota.compose.node_list import read_node_list
from rota.errors import ClusterError
from rota.files.tree import TreeEntry, read_tree
from rota.model.cluster import ACCELERATOR, EXAMPLE, MAX_GPUS, Cluster, ClusterChange, Node, canonical
from rota.model.units import FOREVER

REPAIR_SECONDS = 3600.0

EVENTS: tuple[Literal["join", "drain", "undrain", "leave"], ...] = ("join", "drain", "undrain", "leave")
"""Events of a node."""

_JOINING = ("count", "accelerator", "gpus", "name", "rack", "racks", "host_memory")
_NODE = ("count", "accelerator", "gpus", "name", "rack", "racks", "host_memory", "mtbf", "repair")


@dataclass(frozen=True)
class ClusterDescription:
    """A cluster, and the keywords of `Physics` that its description sets."""

    cluster: Cluster
    """All nodes that the cluster ever has; nodes that join later come last."""
    physics: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[ClusterChange, ...] = ()
    """Events of nodes, in order of time."""


def open_cluster(given: str | Path | Cluster) -> ClusterDescription:
    """Return the cluster of a text such as `9x(4xV100)`, of a YAML file or of a list of nodes; a `Cluster` is used as it is."""
    if isinstance(given, Cluster):
        return ClusterDescription(given)
    if not isinstance(given, str | Path):
        raise ClusterError("is not a text, a path or a Cluster.", field="cluster", value=type(given).__name__, hint=EXAMPLE)
    given = str(given)
    if given.strip().lower().endswith((".yaml", ".yml")):
        return read_cluster_yaml(given.strip())
    if given.strip().lower().endswith((".csv", ".csv.gz")):
        return ClusterDescription(read_node_list(given.strip()))
    return ClusterDescription(Cluster.parse(given))


def read_cluster_yaml(path: Path | str) -> ClusterDescription:
    """Read a YAML file. Raise ClusterError, which names the line, for an unknown name."""
    root = read_tree(path, ClusterError, instead=EXAMPLE)
    top = root.fields(("nodes", "links", "penalties", "prices", "failures", "events"), required=("nodes",))
    failing = top["failures"].fields(("mtbf", "repair")) if "failures" in top else {}
    nodes: list[Node] = []
    mtbf: list[float] = []
    repair: list[float] = []
    for group in top["nodes"].items():
        fields = group.fields(_NODE, required=("accelerator", "gpus"))
        made = list(_nodes(group, fields, len(nodes)))
        _check_names(group, made, nodes)
        nodes += made
        mtbf += [_seconds(fields, failing, "mtbf", FOREVER)] * len(made)
        repair += [_seconds(fields, failing, "repair", REPAIR_SECONDS)] * len(made)
        if sum(node.gpus for node in nodes) > MAX_GPUS:
            raise group.wrong(f"more than {MAX_GPUS:,} GPUs.", hint="fewer nodes")
    changes: tuple[ClusterChange, ...] = ()
    if "events" in top:
        joining, changes = _events(top["events"], nodes)
        nodes += joining
        mtbf += [_seconds({}, failing, "mtbf", FOREVER)] * len(joining)
        repair += [_seconds({}, failing, "repair", REPAIR_SECONDS)] * len(joining)
    types = {node.accelerator for node in nodes}
    links = top["links"].fields(("inter_node", "intra_node", "between", "inside")) if "links" in top else {}
    # Files for earlier versions have `between` and `inside`.
    inter, intra = links.get("inter_node", links.get("between")), links.get("intra_node", links.get("inside"))
    between = [speed.number(above=True) for speed in inter.items()] if inter is not None else []
    cluster = Cluster.of(
        nodes,
        str(path),
        dollars_per_hour=_by_type(top.get("prices"), types, above=False),
        intra_node_gb_s=_by_type(intra, types, above=True),
        inter_node_gb_s=between[0] if between else None,
        inter_rack_gb_s=tuple(between[1:]),
    )
    physics: dict[str, Any] = {}
    if min(mtbf) < FOREVER:
        physics["node_mtbf_seconds"] = np.array(mtbf)
    if set(repair) != {REPAIR_SECONDS}:
        physics["node_repair_seconds"] = np.array(repair)
    if "penalties" in top:
        physics["spread_penalty"] = _penalties(top["penalties"])
    return ClusterDescription(cluster, physics, changes)


def _events(entry: TreeEntry, nodes: list[Node]) -> tuple[list[Node], tuple[ClusterChange, ...]]:
    """Return the nodes that join, and all events in order of time."""
    listed = [(item, item.fields(("at", "warning", *EVENTS), required=("at",))) for item in entry.items()]
    listed.sort(key=lambda each: each[1]["at"].seconds())
    number = {node.name: place for place, node in enumerate(nodes)}
    joining: list[Node] = []
    found: list[ClusterChange] = []
    for item, fields in listed:
        named = [name for name in EVENTS if name in fields]
        if len(named) != 1:
            raise item.wrong(f"needs one of {', '.join(EVENTS)}.", hint="{at: 2h, drain: n1}")
        at_s, what = fields["at"].seconds(), named[0]
        if "warning" in fields and what != "leave":
            raise fields["warning"].wrong("goes with `leave`.", hint="{at: 6h, leave: n1, warning: 2m}")
        if what == "join":
            group = fields["join"]
            made = list(_nodes(group, group.fields(_JOINING, required=("accelerator", "gpus")), len(nodes) + len(joining)))
            for node in made:
                if node.name in number:
                    raise group.wrong(f"a node is already called {node.name!r}.", hint="give each group its own name")
                number[node.name] = len(nodes) + len(joining)
                found.append(ClusterChange(at_s, "join", number[node.name]))
                joining.append(node)
            continue
        name = fields[what].text()
        if name not in number:
            raise fields[what].wrong(
                "the cluster has no node of this name at that time.", hint=f"one of {', '.join(sorted(number))}"
            )
        if what == "leave" and "warning" in fields:
            found.append(ClusterChange(max(at_s - fields["warning"].seconds(), 0.0), "drain", number[name]))
        found.append(ClusterChange(at_s, what, number[name]))
        if what == "leave":
            del number[name]
    return joining, tuple(sorted(found, key=lambda change: change.at_s))


def _penalties(entry: TreeEntry) -> Locality:
    """Read penalties by model, with `all` for other models. A single list is for all models."""
    by_model = entry.mapping() if isinstance(entry.value, dict) else {EVERYBODY: entry}
    factors = {name: tuple(level.number(least=1.0) for level in levels.items()) for name, levels in by_model.items()}
    return Locality(factors.pop(EVERYBODY, ()), factors)


def _nodes(group: TreeEntry, fields: Mapping[str, TreeEntry], before: int) -> Iterator[Node]:
    count = fields["count"].whole(least=1, most=MAX_GPUS) if "count" in fields else 1
    gpus = fields["gpus"].whole(least=1, most=MAX_GPUS)
    if count * gpus > MAX_GPUS:
        raise fields["gpus"].wrong(f"more than {MAX_GPUS:,} GPUs.", hint="fewer nodes")
    if "rack" in fields and "racks" in fields:
        raise fields["racks"].wrong(
            "cannot be combined with `rack`. Give one of the two.", hint="`rack` names one rack, `racks` is a number of racks"
        )
    racks = [group.whole(least=1, most=count) for group in fields["racks"].items()] if "racks" in fields else []
    if len(racks) > 1 and math.prod(racks) > count:
        raise fields["racks"].wrong(f"makes more racks than the {count} nodes.", hint="smaller numbers, or more nodes")
    name = fields["name"].text() if "name" in fields else ""
    accelerator = canonical(fields["accelerator"].text())
    if not ACCELERATOR.fullmatch(accelerator):
        raise fields["accelerator"].wrong("is not an accelerator type.", hint="a name such as A100, without spaces")
    host_gib = fields["host_memory"].gib() if "host_memory" in fields else None
    for i in range(count):
        called = f"{name}{i + 1}" if name and count > 1 else name or f"n{before + i + 1}"
        rack = _path(name or f"n{before + 1}", i, racks) if racks else fields["rack"].text() if "rack" in fields else ""
        yield Node(called, accelerator, gpus, rack, host_gib)


def _path(name: str, number: int, racks: list[int]) -> str:
    """Return the rack of a node in a group whose nodes fill its racks in turn."""
    parts = []
    for level, count in enumerate(racks):
        number, place = divmod(number, count)
        parts.append(f"{('rack', 'row', 'hall')[min(level, 2)]}{place + 1}")
    parts[-1] = f"{name}-{parts[-1]}"
    return "/".join(reversed(parts))


def _seconds(fields: Mapping[str, TreeEntry], failing: Mapping[str, TreeEntry], name: str, otherwise: float) -> float:
    entry = fields.get(name) or failing.get(name)
    return entry.seconds() if entry is not None else otherwise


def _by_type(entry: TreeEntry | None, types: set[str], *, above: bool) -> dict[str, float]:
    if entry is None:
        return {}
    found = {}
    for name, value in entry.mapping().items():
        if canonical(name) not in types:
            raise value.wrong(f"no node has {canonical(name)}.", hint=f"one of {', '.join(sorted(types))}")
        if canonical(name) in found:
            raise value.wrong(f"{canonical(name)} is given twice; case does not matter.", hint="keep one of the two")
        found[canonical(name)] = value.number(above=above)
    return found


def _check_names(group: TreeEntry, made: list[Node], before: list[Node]) -> None:
    taken = {node.name for node in before}
    for node in made:
        if node.name in taken:
            raise group.wrong(f"a node is already called {node.name!r}.", hint="give each group its own name")
