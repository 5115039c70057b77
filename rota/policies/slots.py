"""Slots: GPUs on which jobs of one size take turns (Gandiva, OSDI'18, section 4.1). Only `gandiva` uses them.

A node belongs to the size of the first job that it gets. Jobs that take turns there then have the same number of GPUs, and no GPU
is left over. A job keeps its slot, and so resumes where it is parked. If a tactic moves a job, its slot moves too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rota.model.cluster import Cluster
from rota.model.units import FOREVER, Bools, Ints


@dataclass(frozen=True, slots=True, eq=False)
class SlotMemory:
    """Memory of the policy: the slot of each job, the order of turns, and how long other jobs have waited."""

    job: Ints
    """Jobs in slots. Those of one slot are together, and the one whose turn it is comes first."""
    slot: Ints
    """Slot of each job."""
    gpus: tuple[tuple[int, ...], ...]
    """GPUs of each slot."""
    foreign: tuple[bool, ...]
    """Whether each slot is on nodes for another size. No other job joins it there."""
    turn: tuple[int, ...]
    """Tick at which the present turn of each slot began."""
    since_s: tuple[float, ...]
    """Time at which each slot was given nodes that other jobs had; -inf if its GPUs were free."""
    waiting: tuple[tuple[int, float], ...]
    """Jobs without a slot, and the time since which they wait."""
    balanced_s: float
    """Time at which a node was last moved from one size to another."""
    refused: tuple[tuple[int, float], ...] = ()
    """Jobs that were not allowed to run on more nodes than they need, and when."""


@dataclass(slots=True, eq=False)
class Slot:
    """GPUs and the jobs that take turns on them. The first job has its turn now."""

    gpus: tuple[int, ...]
    foreign: bool
    turn: int
    since_s: float
    jobs: list[int] = field(default_factory=list)

    @property
    def width(self) -> int:
        return len(self.gpus)


class SlotMap:
    """Slots of a cluster, and the GPUs that are in none."""

    def __init__(self, cluster: Cluster, slots: Iterable[Slot] = (), usable: Bools | None = None) -> None:
        self.cluster = cluster
        self._usable = np.ones(cluster.gpus, dtype=bool) if usable is None else usable
        self.node_gpus: list[int] = cluster.count_by_node(self._usable).tolist()
        """Available GPUs of each node."""
        self._begin(slots)

    def _begin(self, slots: Iterable[Slot]) -> None:
        self.slots: list[Slot] = []
        self.free = self._usable.copy()
        self.affinity = [0] * len(self.cluster.nodes)
        """Size of jobs that each node is for; 0 for any."""
        self.reopen(slots)

    @classmethod
    def of(cls, seating: SlotMemory | None, cluster: Cluster, usable: Bools | None, there: set[int]) -> "SlotMap":
        """Return the slots of the last answer, without jobs that have ended and GPUs that are no longer available."""
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
        """Move slots to the GPUs where the plan has put their jobs, if a tactic or the placer chose others. The other jobs of a
        slot stay where they are parked. If those GPUs are taken, they follow to nodes for their size, or lose their slot."""
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
        parked = [slot for slot in self.slots if slot.jobs and slot not in settled]
        taken = {gpu for slot in settled for gpu in slot.gpus}
        found: list[tuple[Slot | None, Slot]] = []
        for home, slot in moved:
            if taken.isdisjoint(slot.gpus):
                taken.update(slot.gpus)
                found.append((home, slot))
                continue
            shared = next((each for each in (*settled, *(other for _, other in found)) if each.gpus == slot.gpus), None)
            if shared is not None:  # the two jobs are partners
                shared.jobs[1:1] = slot.jobs
        stay = [slot for slot in parked if taken.isdisjoint(slot.gpus)]
        self._begin([*settled, *stay])
        for home, slot in found:
            slot.foreign = not self._suits(slot)
            self.reopen([slot])
            if home in parked and home not in stay and not slot.foreign and self.pool_of(slot) == self.pool_of(home):
                slot.jobs += home.jobs
                parked.remove(home)

    def _suits(self, slot: Slot) -> bool:
        """Return whether the slot's nodes are for jobs of its size, or can be, and are no more than it needs."""
        if self.spans_more(slot):
            return False
        nodes = self.nodes_of(slot)
        return all(self.affinity[node] == slot.width or len(self._free_on(node)) == self.node_gpus[node] for node in nodes)

    def spans_more(self, slot: Slot) -> bool:
        """Return whether the slot has GPUs on more nodes than it needs."""
        nodes = self.nodes_of(slot)
        return len(nodes) > 1 and len(nodes) > self._fewest(slot.width, self.pool_of(slot))

    def _fewest(self, width: int, pool: int) -> int:
        sizes = sorted((self.node_gpus[node] for node in self.cluster.pool_nodes[pool]), reverse=True)
        return int(np.searchsorted(np.cumsum(sizes), width)) + 1

    def open(self, width: int, pool: int, tick: int, now_s: float, own: bool = False, together: bool = False) -> Slot | None:
        """Open a slot of free GPUs in a pool: on a node for jobs of this size, on a node for any size or, unless `own`, wherever
        enough GPUs are free. If `together`, the slot uses no more nodes than it needs. Return None if there is no room."""
        gpus = self._on_own_node(width, pool) or self._on_new_nodes(width, pool)
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
        """Add these slots, which were closed."""
        for slot in slots:
            self.slots.append(slot)
            self._take(slot)

    def shortest(self, width: int, pool: int) -> Slot | None:
        """Return the slot of this size that the fewest jobs share."""
        fits = [s for s in self.slots if s.width == width and not s.foreign and self.pool_of(s) == pool]
        return min(fits, key=lambda slot: len(slot.jobs), default=None)

    def join(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Put jobs that share GPUs into the same slot: that of the job whose turn it is."""
        slot_of = {job: slot for slot in self.slots for job in slot.jobs}
        for job, other in pairs:
            host, home = slot_of.get(job), slot_of.get(other)
            if host is None or home is None or host is home or host.jobs[0] != job or home.jobs[0] == other:
                continue
            home.jobs.remove(other)
            host.jobs.insert(1, other)
            slot_of[other] = host

    def close(self, slot: Slot) -> None:
        """Free the GPUs of a slot. A node without slots is for any size again."""
        self.slots.remove(slot)
        self.free[list(slot.gpus)] = True  # unavailable GPUs are in no slot
        for node in self.nodes_of(slot):
            if not any(node in self.nodes_of(other) for other in self.slots):
                self.affinity[node] = 0

    def pool_of(self, slot: Slot) -> int:
        return self.cluster.gpu_pool.item(slot.gpus[0])

    def nodes_of(self, slot: Slot) -> list[int]:
        return sorted(set(self.cluster.gpu_node[list(slot.gpus)].tolist()))

    def height(self, width: int, pool: int) -> float:
        """Return the jobs per slot that the nodes for a size have room for."""
        jobs = sum(len(slot.jobs) for slot in self.slots if slot.width == width and self.pool_of(slot) == pool)
        return jobs / max(self.room(width, pool), 1e-9)

    def room(self, width: int, pool: int) -> int:
        """Return how many slots the nodes for a size have room for."""
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

    def _on_own_node(self, width: int, pool: int) -> tuple[int, ...] | None:
        """Return GPUs of the least loaded node for jobs of this size that has room."""
        found = [(node, self._free_on(node)) for node in self.cluster.pool_nodes[pool] if self.affinity[node] == width]
        fits = [free for _, free in found if len(free) >= width]
        return tuple(max(fits, key=len)[:width]) if fits else None

    def _on_new_nodes(self, width: int, pool: int) -> tuple[int, ...] | None:
        """Return GPUs of a node without jobs, or of as many nodes as it takes if the job is larger than any node."""
        empty = [node for node in self.cluster.pool_nodes[pool] if not self.affinity[node]]
        frees = [free for node in empty if len(free := self._free_on(node)) == self.node_gpus[node] > 0]
        large = [free for free in frees if len(free) >= width]
        if large:
            return tuple(min(large, key=len)[:width])
        if width <= max((self.node_gpus[node] for node in self.cluster.pool_nodes[pool]), default=0):
            return None
        return _first(width, sorted(frees, key=len, reverse=True))

    def _anywhere(self, width: int, pool: int) -> tuple[int, ...] | None:
        """Return GPUs of the node with the fewest free GPUs that has enough, or else of as few nodes as possible."""
        frees = [free for node in self.cluster.pool_nodes[pool] if (free := self._free_on(node))]
        large = [free for free in frees if len(free) >= width]
        if large:
            return tuple(min(large, key=len)[:width])
        return _first(width, sorted(frees, key=len, reverse=True))


def _first(width: int, frees: Sequence[list[int]]) -> tuple[int, ...] | None:
    """Return the first GPUs of these lists, this many in all; None if there are too few."""
    found = [gpu for free in frees for gpu in free][:width]
    return tuple(sorted(found)) if len(found) == width else None
