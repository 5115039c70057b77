"""Slots: GPUs on which jobs of one size take turns (Gandiva, OSDI'18, section 4.1). Used by `gandiva` alone.

A server belongs to the size of the first job it gets, so that jobs that take turns there have the same number of GPUs and no GPU
is left over. A job keeps its slot, and so wakes up where it sleeps. Where tactics move a job, its slot goes with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rota.model.cluster import Cluster
from rota.model.units import FOREVER, Bools, Ints


@dataclass(frozen=True, slots=True, eq=False)
class SlotMemory:
    """Memory: which job sits in which slot, whose turn it is, and since when the others wait."""

    job: Ints
    """Jobs in slots; those of one slot stand together, the one whose turn it is first."""
    slot: Ints
    """The slot of each."""
    gpus: tuple[tuple[int, ...], ...]
    """The GPUs of each slot."""
    foreign: tuple[bool, ...]
    """Slots on servers of another size: no other job joins them there."""
    turn: tuple[int, ...]
    """The tick at which the last turn of each began."""
    since_s: tuple[float, ...]
    """When servers were given to each slot that others had; long ago: they were free."""
    waiting: tuple[tuple[int, float], ...]
    """Jobs without a slot, and since when."""
    balanced_s: float
    """When servers were last given from one size to another."""
    refused: tuple[tuple[int, float], ...] = ()
    """Jobs that were not let run on more servers than they need, and when."""


@dataclass(slots=True, eq=False)
class Slot:
    """Some GPUs, and the jobs that take turns on them, the one whose turn it is first."""

    gpus: tuple[int, ...]
    foreign: bool
    turn: int
    since_s: float
    jobs: list[int] = field(default_factory=list)

    @property
    def width(self) -> int:
        return len(self.gpus)


class SlotMap:
    """The slots of a cluster, and the GPUs that are in none."""

    def __init__(self, cluster: Cluster, slots: Iterable[Slot] = (), usable: Bools | None = None) -> None:
        self.cluster = cluster
        self._usable = np.ones(cluster.gpus, dtype=bool) if usable is None else usable
        self.node_gpus: list[int] = cluster.count_by_node(self._usable).tolist()
        """GPUs of each server that can be had."""
        self._begin(slots)

    def _begin(self, slots: Iterable[Slot]) -> None:
        self.slots: list[Slot] = []
        self.free = self._usable.copy()
        self.affinity = [0] * len(self.cluster.nodes)
        """The size of jobs that each server is for; 0: any."""
        self.reopen(slots)

    @classmethod
    def of(cls, seating: SlotMemory | None, cluster: Cluster, usable: Bools | None, there: set[int]) -> "SlotMap":
        """As they were after the last answer, without the jobs that have ended and the GPUs that can no longer be had."""
        if seating is None:
            return cls(cluster, (), usable)
        columns = zip(seating.gpus, seating.foreign, seating.turn, seating.since_s, strict=True)
        slots = [Slot(gpus, foreign, turn, since_s) for gpus, foreign, turn, since_s in columns]
        for job, slot in zip(seating.job.tolist(), seating.slot.tolist(), strict=True):
            if job in there:
                slots[slot].jobs.append(job)
        kept = [slot for slot in slots if slot.jobs and (usable is None or usable[list(slot.gpus)].all())]
        return cls(cluster, kept, usable)

    def seating(
        self, waiting: Iterable[tuple[int, float]], balanced_s: float, refused: Iterable[tuple[int, float]] = ()
    ) -> SlotMemory:
        pairs = [(job, number) for number, slot in enumerate(self.slots) for job in slot.jobs]
        return SlotMemory(
            np.array([job for job, _ in pairs], dtype=np.int64),
            np.array([number for _, number in pairs], dtype=np.int64),
            tuple(slot.gpus for slot in self.slots),
            tuple(slot.foreign for slot in self.slots),
            tuple(slot.turn for slot in self.slots),
            tuple(slot.since_s for slot in self.slots),
            tuple(waiting),
            balanced_s,
            tuple(refused),
        )

    def follow(self, held: Mapping[int, tuple[int, ...]], tick: int) -> None:
        """Slots are where the plan has put their jobs, if a tactic or the placer chose other GPUs. Others of the slot stay where
        they sleep. If those GPUs were given away, they go along to a server for their size, or have no slot any more."""
        seated = {job for slot in self.slots for job in slot.jobs}
        new = {job: gpus for job, gpus in held.items() if job not in seated}
        if not new and all(held.get(job, slot.gpus) == slot.gpus for slot in self.slots for job in slot.jobs):
            return
        moved: list[tuple[Slot | None, Slot]] = []
        for slot in self.slots:
            away: dict[tuple[int, ...], list[int]] = {}
            for job in slot.jobs:
                if (gpus := held.get(job, slot.gpus)) != slot.gpus:
                    away.setdefault(gpus, []).append(job)
            for gpus, jobs in away.items():
                slot.jobs = [job for job in slot.jobs if job not in jobs]
                moved.append((slot, Slot(gpus, True, slot.turn, -FOREVER, jobs)))
        moved += [(None, Slot(gpus, True, tick, -FOREVER, [job])) for job, gpus in new.items()]
        settled = [slot for slot in self.slots if any(job in held for job in slot.jobs)]
        asleep = [slot for slot in self.slots if slot.jobs and slot not in settled]
        taken = {gpu for slot in settled for gpu in slot.gpus}
        found: list[tuple[Slot | None, Slot]] = []
        for home, slot in moved:
            if taken.isdisjoint(slot.gpus):
                taken.update(slot.gpus)
                found.append((home, slot))
                continue
            shared = next((each for each in (*settled, *(other for _, other in found)) if each.gpus == slot.gpus), None)
            if shared is not None:  # the two are partners
                shared.jobs[1:1] = slot.jobs
        stay = [slot for slot in asleep if taken.isdisjoint(slot.gpus)]
        self._begin([*settled, *stay])
        for home, slot in found:
            slot.foreign = not self._suits(slot)
            self.reopen([slot])
            if home in asleep and home not in stay and not slot.foreign and self.pool_of(slot) == self.pool_of(home):
                slot.jobs += home.jobs
                asleep.remove(home)

    def _suits(self, slot: Slot) -> bool:
        """Whether its servers are for jobs of its size, or can be, and are no more than it needs."""
        if self.spans_more(slot):
            return False
        nodes = self.nodes_of(slot)
        return all(self.affinity[node] == slot.width or len(self._free_on(node)) == self.node_gpus[node] for node in nodes)

    def spans_more(self, slot: Slot) -> bool:
        """Whether it has GPUs on more servers than it needs."""
        nodes = self.nodes_of(slot)
        return len(nodes) > 1 and len(nodes) > self._fewest(slot.width, self.pool_of(slot))

    def _fewest(self, width: int, pool: int) -> int:
        sizes = sorted((self.node_gpus[node] for node in self.cluster.pool_nodes[pool]), reverse=True)
        return int(np.searchsorted(np.cumsum(sizes), width)) + 1

    def open(self, width: int, pool: int, tick: int, now_s: float, own: bool = False, together: bool = False) -> Slot | None:
        """A new slot of free GPUs in a pool: on a server for jobs of this size, on one for any size, or, unless it has to be a
        server of its `own`, wherever enough are free; all `together`: on no more servers than it needs."""
        gpus = self._on_own_server(width, pool) or self._on_new_servers(width, pool)
        foreign = False
        if gpus is None and not own:
            gpus, foreign = self._anywhere(width, pool), True
            if gpus is not None and together and self.spans_more(Slot(gpus, True, tick, now_s)):
                return None
        if gpus is None:
            return None
        slot = Slot(gpus, foreign, tick, now_s if own else -FOREVER)
        self.reopen([slot])
        return slot

    def reopen(self, slots: Iterable[Slot]) -> None:
        """These slots are there again."""
        for slot in slots:
            self.slots.append(slot)
            self._take(slot)

    def shortest(self, width: int, pool: int) -> Slot | None:
        """The slot of this size that fewest jobs share."""
        fits = [s for s in self.slots if s.width == width and not s.foreign and self.pool_of(s) == pool]
        return min(fits, key=lambda slot: len(slot.jobs), default=None)

    def join(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Jobs that share GPUs sit in the same slot: that of the one whose turn it is."""
        slot_of = {job: slot for slot in self.slots for job in slot.jobs}
        for job, other in pairs:
            host, home = slot_of.get(job), slot_of.get(other)
            if host is None or home is None or host is home or host.jobs[0] != job or home.jobs[0] == other:
                continue
            home.jobs.remove(other)
            host.jobs.insert(1, other)
            slot_of[other] = host

    def close(self, slot: Slot) -> None:
        """Its GPUs are free. A server without slots is for any size again."""
        self.slots.remove(slot)
        self.free[list(slot.gpus)] = True  # those that cannot be had are in no slot
        for node in self.nodes_of(slot):
            if not any(node in self.nodes_of(other) for other in self.slots):
                self.affinity[node] = 0

    def pool_of(self, slot: Slot) -> int:
        return self.cluster.gpu_pool.item(slot.gpus[0])

    def nodes_of(self, slot: Slot) -> list[int]:
        return sorted(set(self.cluster.gpu_node[list(slot.gpus)].tolist()))

    def height(self, width: int, pool: int) -> float:
        """Jobs for each slot that its servers have room for."""
        jobs = sum(len(slot.jobs) for slot in self.slots if slot.width == width and self.pool_of(slot) == pool)
        return jobs / max(self.room(width, pool), 1e-9)

    def room(self, width: int, pool: int) -> int:
        """Slots that the servers for a size have room for."""
        mine = [n for n in self.cluster.pool_nodes[pool] if self.affinity[n] == width]
        gpus = [self.node_gpus[node] for node in mine]
        return sum(g // width for g in gpus) if width <= max(gpus, default=0) else sum(gpus) // width

    def _take(self, slot: Slot) -> None:
        self.free[list(slot.gpus)] = False
        if not slot.foreign:
            for node in self.nodes_of(slot):
                self.affinity[node] = slot.width

    def _free_on(self, node: int) -> list[int]:
        first, end = self.cluster.node_first[node], self.cluster.node_first[node + 1]
        return [int(first + gpu) for gpu in self.free[first:end].nonzero()[0]]

    def _on_own_server(self, width: int, pool: int) -> tuple[int, ...] | None:
        """The least loaded server for jobs of this size that has room."""
        found = [(node, self._free_on(node)) for node in self.cluster.pool_nodes[pool] if self.affinity[node] == width]
        fits = [free for _, free in found if len(free) >= width]
        return tuple(max(fits, key=len)[:width]) if fits else None

    def _on_new_servers(self, width: int, pool: int) -> tuple[int, ...] | None:
        """A server without jobs; for a job that is wider than any, as many as it takes."""
        empty = [node for node in self.cluster.pool_nodes[pool] if not self.affinity[node]]
        frees = [free for node in empty if len(free := self._free_on(node)) == self.node_gpus[node] > 0]
        large = [free for free in frees if len(free) >= width]
        if large:
            return tuple(min(large, key=len)[:width])
        if width <= max((self.node_gpus[node] for node in self.cluster.pool_nodes[pool]), default=0):
            return None
        return _first(width, sorted(frees, key=len, reverse=True))

    def _anywhere(self, width: int, pool: int) -> tuple[int, ...] | None:
        """The server with the fewest free GPUs that has enough; else as few servers as it takes."""
        frees = [free for node in self.cluster.pool_nodes[pool] if (free := self._free_on(node))]
        large = [free for free in frees if len(free) >= width]
        if large:
            return tuple(min(large, key=len)[:width])
        return _first(width, sorted(frees, key=len, reverse=True))


def _first(width: int, frees: Sequence[list[int]]) -> tuple[int, ...] | None:
    """So many GPUs of these lists, in their order."""
    found = [gpu for free in frees for gpu in free][:width]
    return tuple(sorted(found)) if len(found) == width else None
