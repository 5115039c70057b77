"""Requests of operators about machines: drain and undrain nodes or GPUs, plan maintenance, and remove nodes."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager

from rota.core.state.state import State
from rota.errors import ConflictError, OptionError, UnknownNameError
from rota.live.drain_rows import drain_row, drain_rows
from rota.live.queued_requests import ChangeMachines
from rota.model.counted import counted
from rota.model.events import DrainCancelled, External, GpusDrained, GpusUndrained, NodeReadmitted, NodeRemoved
from rota.model.units import FOREVER
from rota.wire.rows import DrainRow

MAX_NAMED = 5
_COUNT = re.compile(r"([1-9][0-9]{0,6})x(.+)")


class MachineRequests:
    """Each request is one turn of the loop, and is in the journal when the method returns."""

    def __init__(
        self,
        state: Callable[[], State],
        lock: AbstractContextManager[object],
        put: Callable[[ChangeMachines | None], None],
        answer: Callable[["Future[int]"], int],
    ) -> None:
        """`put` gives an item to the loop; `answer` waits until the loop has carried it out."""
        self._state, self._lock, self._put, self._answer = state, lock, put, answer
        self._last = 0

    def next_drain(self) -> int:
        """Return the number of a new drain. For the thread of the loop."""
        self._last = max(self._last, self._state().nodes.last_drain) + 1
        return self._last

    def drain(
        self,
        places: Sequence[str],
        reason: str = "",
        *,
        from_s: float | None = None,
        until_s: float | None = None,
        seconds: float | None = None,
        by: str | None = None,
    ) -> DrainRow:
        """Drain nodes or GPUs, each `NODE` or `NODE:GPU`, or `8xA100` for a number of GPUs. `from_s`: now by default. `until_s`
        or `seconds`: by default until an operator ends it."""
        numbers: list[int] = []

        def events(state: State, now_s: float) -> Sequence[External]:
            start_s = now_s if from_s is None else from_s
            end_s = start_s + seconds if seconds is not None else FOREVER if until_s is None else until_s
            if end_s <= now_s or end_s <= start_s:
                raise OptionError("the end is not after the beginning, or is in the past.", field="until", hint="--for 2h")
            gpus = tuple(gpu for place in places for gpu in _gpus_of(state, place, start_s, end_s))
            numbers.append(self.next_drain())
            return [GpusDrained(numbers[0], gpus, now_s, start_s, end_s, reason or None, by)]

        self._change(events)
        with self._lock:
            state = self._state()
            if numbers[0] in state.nodes.drains:
                return drain_row(state, state.nodes.drains[numbers[0]])
        raise ConflictError("the drain has ended already.", hint="rota reservations")

    def undrain(self, place: str, by: str | None = None) -> None:
        """End the drain of a node or a GPU. A removed node may join again."""

        def events(state: State, now_s: float) -> Sequence[External]:
            if place in state.nodes.removed:
                return [NodeReadmitted(place, now_s, by)]
            gpus = tuple(_gpus_of(state, place))
            if set(gpus).isdisjoint(state.nodes.drained):
                raise ConflictError(f"{place} is not drained by an operator.", hint="rota nodes · rota reservations")
            return [GpusUndrained(gpus, now_s, by)]

        self._change(events)
        self._put(None)  # a machine that may join again does so now

    def remove(self, name: str, *, force: bool = False, by: str | None = None) -> None:
        """Remove a node for good. It must be drained and empty, or lost. `force`: remove a lost node whose jobs may still run."""

        def events(state: State, now_s: float) -> Sequence[External]:
            node = _node(state, name)
            _check_removable(state, node, force=force)
            return [NodeRemoved(node, now_s, by)]

        self._change(events)

    def cancel(self, number: int, by: str | None = None) -> None:
        """End a drain or a maintenance window, whether it has begun or not."""

        def events(state: State, now_s: float) -> Sequence[External]:
            if number not in state.nodes.drains:
                raise UnknownNameError("reservation", str(number), map(str, state.nodes.drains), hint="rota reservations")
            return [DrainCancelled(number, now_s, by)]

        self._change(events)

    def list(self) -> "list[DrainRow]":
        """Return all drains, those that have not begun too, by number."""
        with self._lock:
            return drain_rows(self._state())

    def _change(self, events: Callable[[State, float], Sequence[External]]) -> None:
        item = ChangeMachines(events, Future())
        self._put(item)
        self._answer(item.done)


def _present(state: State) -> Iterator[tuple[int, str]]:
    for number, node in enumerate(state.nodes.cluster.nodes):
        if number not in state.nodes.gone:
            yield number, node.name


def _node(state: State, name: str) -> int:
    for number, known in _present(state):
        if known == name:
            return number
    raise UnknownNameError("node", name, (known for _, known in _present(state)), hint="rota nodes")


def _gpus_of(state: State, place: str, from_s: float = 0.0, until_s: float = FOREVER) -> list[int]:
    """Return the GPUs of a node, one GPU of a node, or a number of GPUs of a type."""
    cluster, names = state.nodes.cluster, {name for _, name in _present(state)}
    name, colon, index = place.rpartition(":")
    wanted = _COUNT.fullmatch(place)
    if wanted is not None and place not in names:
        return _choose(state, int(wanted[1]), wanted[2], from_s, until_s)
    if place in names or not colon:
        node = _node(state, place)
        return list(range(*cluster.node_first[node : node + 2].tolist()))
    node = _node(state, name)
    if not index.isdecimal() or int(index) >= cluster.node_gpus[node]:
        last = int(cluster.node_gpus[node]) - 1
        raise OptionError(f"is not a GPU of {name}: it has GPUs 0 to {last}.", field="GPU", value=place, hint=f"{name}:{last}")
    return [int(cluster.node_first[node]) + int(index)]


def _choose(state: State, count: int, kind: str, from_s: float, until_s: float) -> list[int]:
    """Return GPUs of a type that no drain has in this time, on few nodes, first those with the fewest jobs."""
    cluster, nodes = state.nodes.cluster, state.nodes
    overlapping = [each for each in nodes.drains.values() if each.from_s < until_s and from_s < each.until_s]
    drained = {gpu for drain in overlapping for gpu in drain.gpus}
    found: list[tuple[int, int, list[int]]] = []
    for node, _ in _present(state):
        if cluster.nodes[node].accelerator.lower() == kind.lower():
            mine = [gpu for gpu in range(*cluster.node_first[node : node + 2].tolist()) if gpu not in drained]
            jobs = sum(node in attempt.live_nodes for attempt in state.jobs.attempts.values())
            found.append((jobs, -len(mine), mine))
    if not found:
        kinds = {cluster.nodes[node].accelerator for node, _ in _present(state)}
        raise UnknownNameError("accelerator", kind, sorted(kinds), hint="rota nodes")
    gpus = [gpu for _, _, mine in sorted(found) for gpu in mine]
    if len(gpus) < count:
        problem = f"{counted(len(gpus), 'GPU')} of type {kind} can be reserved in this time."
        raise OptionError(problem, field="GPUS", value=f"{count}x{kind}", hint="fewer GPUs, or another time: rota reservations")
    return gpus[:count]


def _check_removable(state: State, node: int, *, force: bool) -> None:
    nodes, cluster = state.nodes, state.nodes.cluster
    name, up = cluster.nodes[node].name, bool(nodes.node_up[node])
    mine = set(range(*cluster.node_first[node : node + 2].tolist()))
    jobs = sorted(job for job, attempt in state.jobs.attempts.items() if node in attempt.live_nodes)
    if up and not (mine <= set(nodes.drained) or node in nodes.draining):
        raise ConflictError(f"{name} is in use. It has to be drained before it is removed.", hint=f"rota drain {name} --wait")
    if up and jobs:
        raise ConflictError(f"{name} still has {_named(jobs)}.", hint=f"rota drain {name} --wait, or cancel what stays there")
    if jobs and not force:
        table = state.jobs.table
        seconds = max(float(table.lease_s[[state.jobs.row[job] for job in jobs]].max()) - state.now_s, 0.0)
        until = f" for another {math.ceil(seconds)} s" if seconds < FOREVER else ""
        problem = f"{name} is lost, and {_named(jobs)} may still run there{until}."
        raise ConflictError(problem, hint=f"if it is switched off: rota remove {name} --force")


def _named(jobs: Sequence[int]) -> str:
    return f"job{'s' * (len(jobs) > 1)} {', '.join(map(str, jobs[:MAX_NAMED]))}{', ...' * (len(jobs) > MAX_NAMED)}"
