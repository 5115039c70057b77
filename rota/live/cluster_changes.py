"""Changes of the GPUs of a home between two starts: the scheduler's cluster follows that of the driver.

GPUs have permanent names, by which they are recognised. A node whose GPUs are all present stays. Any other node is drained: its
jobs save and stop as in any suspension. Once it is empty it leaves, and the present GPUs join as a new node. All of this is
events, in the journal like any other event, so recovery and replay give the same cluster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rota.core.explain import explain, reasons
from rota.core.state.state import State
from rota.model.cluster import Cluster, Node
from rota.model.events import External, NodeDrainChanged, NodeJoined, NodeLeft
from rota.model.reasons import Reason

Devices = tuple[str, ...]
"""Names of the GPUs of a node, in order."""


@dataclass(frozen=True)
class NamedNode:
    """A node and the names of its GPUs."""

    node: Node
    devices: Devices

    def __str__(self) -> str:
        return f"{self.node.name} ({self.node.gpus}x{self.node.accelerator})"


class ClusterChanges:
    """Differences between the scheduler's cluster and the driver's, until there are none."""

    def __init__(
        self, state: State, known: Mapping[int, Devices], there: Sequence[NamedNode], *, nodes_can_leave: bool = False
    ) -> None:
        """Compare the clusters. With `nodes_can_leave`, a node that is not present may only be silent, and the driver reports
        when it has left."""
        self.devices = dict(known)
        """Names of GPUs by number of the node, including nodes that have left."""
        here = {number: NamedNode(node, self.devices.get(number, ())) for number, node in _present(state).items()}
        occupied = _occupied(state)
        self._staying: set[int] = set()
        self._joining: list[NamedNode] = []
        for wanted in (each for each in there if each.node.name not in state.nodes.removed):
            inside = [number for number, mine in here.items() if _stays(mine, wanted, number in occupied)]
            self._staying.update(inside)
            taken = {device for number in inside for device in here[number].devices}
            left = tuple(device for device in wanted.devices if device not in taken)
            if left:
                self._joining.append(NamedNode(replace(wanted.node, gpus=len(left)), left))
        absent = {number: mine for number, mine in here.items() if number not in self._staying}
        self._leaving = {} if nodes_can_leave else absent
        self._back_in_use = set() if nodes_can_leave else self._staying
        self.text = _format_changes([str(mine) for mine in self._leaving.values()], [str(new) for new in self._joining])
        """Description of the change; empty if there is none."""

    @property
    def done(self) -> bool:
        return not (self._leaving or self._joining)

    def due(self, state: State) -> bool:
        """Return whether `events` has something new to report: a node that has to leave is empty now."""
        return bool(self._leaving) and bool(self._leaving.keys() - _occupied(state))

    def events(self, state: State, now_s: float) -> list[External]:
        """Return the changes that are possible now. `devices` then has the GPUs of nodes that join."""
        draining = state.nodes.draining
        if self.done and not self._back_in_use & draining:
            return []
        occupied = _occupied(state)
        events: list[External] = [NodeDrainChanged(node, now_s, draining=False) for node in sorted(self._back_in_use & draining)]
        events += [NodeDrainChanged(node, now_s) for node in sorted(self._leaving.keys() & (occupied - draining))]
        empty = sorted(self._leaving.keys() - occupied)
        events += [NodeLeft(node, now_s) for node in empty]
        for node in empty:
            del self._leaving[node]
        here = {number: node for number, node in _present(state).items() if number not in empty}
        held = {device for number in here for device in self.devices.get(number, ())}
        names = {node.name for node in here.values()}
        for new in [new for new in self._joining if held.isdisjoint(new.devices)]:
            self._joining.remove(new)
            joined = replace(new.node, name=_free_name(new.node.name, names))
            names.add(joined.name)
            self.devices[len(state.nodes.cluster.nodes) + sum(isinstance(event, NodeJoined) for event in events)] = new.devices
            events.append(NodeJoined(joined, now_s))
        return events


def named_nodes(cluster: Cluster, devices: Sequence[Devices]) -> list[NamedNode]:
    return [NamedNode(node, names) for node, names in zip(cluster.nodes, devices, strict=True)]


def pretend_devices(cluster: Cluster) -> tuple[Devices, ...]:
    """Return names for pretend GPUs: the first V100 of a cluster is the first V100 of a larger one."""
    counts: dict[str, int] = {}
    found = []
    for node in cluster.nodes:
        first = counts.get(node.accelerator, 0)
        counts[node.accelerator] = first + node.gpus
        found.append(tuple(f"{node.accelerator}:{first + i}" for i in range(node.gpus)))
    return tuple(found)


def gpus_present(state: State) -> int:
    """Return the number of GPUs of nodes that have not left."""
    return sum(node.gpus for node in _present(state).values())


def never_run(state: State) -> list[tuple[int, str]]:
    """Return the jobs that can no longer run on any node, and why. They are kept, and run once such GPUs are present again."""
    codes = reasons(state)
    found = [
        job
        for job, row in state.jobs.row.items()
        if Reason(int(codes[row])) in (Reason.UNSATISFIABLE, Reason.NO_SUCH_ACCELERATOR)
    ]
    return [(job, explain(state, job)[0].sentence) for job in found]


def device_of(state: State, devices: Mapping[int, Devices], gpu: int) -> str:
    """Return the name of a GPU by its number; empty if it has none."""
    node = int(state.nodes.cluster.gpu_node[gpu])
    names, place = devices.get(node, ()), gpu - int(state.nodes.cluster.node_first[node])
    return names[place] if place < len(names) else ""


def _present(state: State) -> dict[int, Node]:
    return {number: node for number, node in enumerate(state.nodes.cluster.nodes) if number not in state.nodes.gone}


def _occupied(state: State) -> set[int]:
    """Return the nodes on which processes of a job may be running."""
    return {node for attempt in state.jobs.attempts.values() for node in attempt.live_nodes}


def _stays(mine: NamedNode, wanted: NamedNode, occupied: bool) -> bool:
    """Return whether a node stays as part of the present one. If jobs run on it, it is enough that all its GPUs are present:
    additional GPUs are not a reason to stop these jobs."""
    if mine.node.accelerator != wanted.node.accelerator or not mine.devices:
        return False
    same = replace(mine.node, name="") == replace(wanted.node, name="") and mine.devices == wanted.devices
    return same or (occupied and set(mine.devices) <= set(wanted.devices))


def _free_name(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    return found


def _format_changes(leaving: list[str], joining: list[str]) -> str:
    parts = [f"{', '.join(leaving)} left"] * bool(leaving) + [f"{', '.join(joining)} joined"] * bool(joining)
    return "; ".join(parts)
