"""A home that opens with other GPUs than before: the scheduler's cluster follows what the driver has.

GPUs have names that stay theirs, so it is known which are the same. A node whose GPUs are all there stays. Any
other is drained: its jobs save and stop as in any suspension. Once it is empty it leaves, and what is there now joins as a new
node. All of it is events, in the journal like any other, so recovery and replay give the same cluster.
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
    """What has to change until the scheduler's cluster is the driver's."""

    def __init__(
        self, state: State, known: Mapping[int, Devices], there: Sequence[NamedNode], *, nodes_can_leave: bool = False
    ) -> None:
        """`nodes_can_leave`: a node that is not there may only be silent, and the driver says when it has left."""
        self.devices = dict(known)
        """By number of the node, also of nodes that have left."""
        here = {number: NamedNode(node, self.devices.get(number, ())) for number, node in _present(state).items()}
        occupied = _occupied(state)
        self._staying: set[int] = set()
        self._joining: list[NamedNode] = []
        for wanted in there:
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
        """The change in words; empty: there is none."""

    @property
    def done(self) -> bool:
        return not (self._leaving or self._joining)

    def due(self, state: State) -> bool:
        """Whether `events` has something new to say: a node that is to leave is empty now."""
        return bool(self._leaving) and bool(self._leaving.keys() - _occupied(state))

    def events(self, state: State, now_s: float) -> list[External]:
        """What can be done at this moment. `devices` then knows the GPUs of nodes that join."""
        draining = state.machines.draining
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
            self.devices[len(state.machines.cluster.nodes) + sum(isinstance(event, NodeJoined) for event in events)] = new.devices
            events.append(NodeJoined(joined, now_s))
        return events


def named_nodes(cluster: Cluster, devices: Sequence[Devices]) -> list[NamedNode]:
    return [NamedNode(node, names) for node, names in zip(cluster.nodes, devices, strict=True)]


def pretend_devices(cluster: Cluster) -> tuple[Devices, ...]:
    """Names for GPUs that have none of their own: the first V100 of a cluster is the first V100 of a larger one."""
    counts: dict[str, int] = {}
    found = []
    for node in cluster.nodes:
        first = counts.get(node.accelerator, 0)
        counts[node.accelerator] = first + node.gpus
        found.append(tuple(f"{node.accelerator}:{first + i}" for i in range(node.gpus)))
    return tuple(found)


def gpus_present(state: State) -> int:
    """GPUs of nodes that have not left."""
    return sum(node.gpus for node in _present(state).values())


def never_run(state: State) -> list[tuple[int, str]]:
    """Jobs that no node could run any more, and why, in words. They are kept, and run when such GPUs are there again."""
    codes = reasons(state)
    found = [
        job
        for job, row in state.jobs.row.items()
        if Reason(int(codes[row])) in (Reason.UNSATISFIABLE, Reason.NO_SUCH_ACCELERATOR)
    ]
    return [(job, explain(state, job)[0].sentence) for job in found]


def device_of(state: State, devices: Mapping[int, Devices], gpu: int) -> str:
    """The name of a GPU that the scheduler has a number for; empty where it has none."""
    node = int(state.machines.cluster.gpu_node[gpu])
    names, place = devices.get(node, ()), gpu - int(state.machines.cluster.node_first[node])
    return names[place] if place < len(names) else ""


def _present(state: State) -> dict[int, Node]:
    return {number: node for number, node in enumerate(state.machines.cluster.nodes) if number not in state.machines.gone}


def _occupied(state: State) -> set[int]:
    """Nodes where something of a job may live."""
    return {node for attempt in state.jobs.attempts.values() for node in attempt.parts}


def _stays(mine: NamedNode, wanted: NamedNode, occupied: bool) -> bool:
    """Whether a node goes on as it is inside what is there now. While jobs run on it, it is enough that its GPUs are all there:
    others beside them are no reason to stop these jobs."""
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
