"""Free GPUs by how slow each is for a kind of application: what placers that look at variability pick from.

Slowness comes in a few levels (bins), so what is free is kept as counts by level and node; no subset of GPUs is ever enumerated,
and GPUs are only looked at on nodes that were chosen."""

from functools import cached_property

import numpy as np

from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Floats, Ints
from rota.placers.close import few_nodes

AS_GOOD = 1.01
"""GPUs that are slower than others by less than this factor are as good: runs on the same GPU differ by more."""

MUCH_BETTER = 1.25
"""Those that are faster by this factor are worth having though others hold the gang up: these may only be suspects."""


class FreeGpus:
    """The free GPUs of one pool as one application class sees them."""

    def __init__(self, floor: PlacementView, pool: int, row: int) -> None:
        cluster = floor.cluster
        self._floor, self._pool = floor, pool
        self._scores = floor.scores[row] if floor.scores is not None else np.ones(cluster.gpus)
        self._exact = floor.exact[row] if floor.exact is not None else self._scores
        mine = cluster.gpu_pool == pool
        self.levels: Floats = np.unique(self._scores[mine])
        """Slowness of each level, best first."""
        self._level = np.searchsorted(self.levels, self._scores)
        self._first = cluster.node_first.tolist()
        self.widest = int(cluster.node_gpus[cluster.node_pool == pool].max())
        """GPUs of the largest node."""
        self.levels_of_locality = len(cluster.domains)
        """Most that a gang can span."""
        self._taken = 0
        """So many of the least slow are surely not free."""
        free = (floor.available & mine).nonzero()[0]
        cell = self._level[free] * len(cluster.nodes) + cluster.gpu_node[free]
        shape = (len(self.levels), len(cluster.nodes))
        self._counts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)

    def mark(self, gpus: Ints, free: bool) -> None:
        """These are free from now on, or no longer."""
        self._taken = 0 if free else self._taken
        np.add.at(self._counts, (self._level[gpus], self._floor.cluster.gpu_node[gpus]), 1 if free else -1)

    def slowest(self, gpus: Ints) -> float:
        return float(self._scores[gpus].max())

    def slowest_exactly(self, gpus: Ints) -> float:
        return float(self._exact[gpus].max())

    def best(self, count: int, most: int | None = None) -> Ints | None:
        """PM-First: the least slow, none beyond level `most`; among equals, those on nodes whose number of them is nearest to
        what is wanted. None: there are not so many."""
        counts = self._counts if most is None else self._counts[: most + 1]
        if int(counts.sum()) < count:
            return None
        found: list[Ints] = []
        left = count
        for level, row in enumerate(counts):
            # No node has more than the widest has, so nothing is nearer than that.
            for far in range(max(count - self.widest, 0), max(count, self.widest)):
                if not left:
                    break
                near = row == count + far
                if 0 < count - far <= self.widest:
                    near |= row == count - far
                nodes = near.nonzero()[0]
                for node in nodes[: 1 + int(row[nodes].cumsum().searchsorted(left))].tolist():
                    here = self._on(node, level, level)[:left]
                    found.append(here)
                    left -= len(here)
        return np.sort(np.concatenate(found))

    def within(self, count: int, most: int) -> Ints | None:
        """On one node, none slower than level `most`: the node whose slowest is least slow, then the one with most of them."""
        total = self._counts[: most + 1].sum(axis=0)
        have = np.zeros_like(total)
        for level in range(most + 1):
            have = have + self._counts[level]
            fits = (have >= count).nonzero()[0]
            if len(fits):
                node = int(fits[np.argmax(total[fits])])
                return self._on(node, 0, level)[:count]
        return None

    def inside(self, count: int, most: int, span: int) -> Ints | None:
        """Across `span` levels of locality at most, none slower than level `most`, on few nodes. None: no place has so many."""
        found = few_nodes(self._floor.cluster.domains, self._counts[: most + 1].sum(axis=0), count, span)
        if found is None:
            return None
        return np.sort(np.concatenate([self._on(node, 0, most)[:take] for node, take in found]))

    def close(self, request: PlacementRequest) -> Ints | None:
        """For a gang that no node can hold: as far out as pays, no GPU slower than it must be there, few racks and few nodes.
        A gang waits for its slowest GPU, so exact scores count, but GPUs that are about as good are as good. None: there are not
        so many."""
        count, cluster, available = request.gpus, self._floor.cluster, self._floor.available
        order, exact, node = self._by_slowness
        span = len(cluster.domains)
        free = self._least_slow(count)
        if free is None:
            return None
        limit = float(exact[free[count - 1]])
        if span > 1:
            every = order[available[order]]
            limits = [*(self._limit(every, count, inside) for inside in range(1, span)), limit]
            span = int(np.argmin([each * request.penalty(levels) for levels, each in enumerate(limits, 1)])) + 1
            limit = limits[span - 1]
            free = available[order].nonzero()[0]
        limit *= AS_GOOD
        sure = order[:0]
        if span == len(cluster.domains) and exact[free[0]] * MUCH_BETTER <= limit:
            # It needs some that are much slower than others: no more of them than it must.
            sure = order[free[: free.searchsorted(exact.searchsorted(limit / MUCH_BETTER, side="right"))]]
        good = node[free[len(sure) : free.searchsorted(exact.searchsorted(limit, side="right"))]]
        found = few_nodes(cluster.domains, np.bincount(good, minlength=len(cluster.nodes)), count - len(sure), span)
        assert found is not None
        parts = [sure]
        for place, take in found:
            first, end = self._first[place], self._first[place + 1]
            here = available[first:end] & (self._exact[first:end] <= limit)
            if len(sure):
                here &= self._exact[first:end] > limit / MUCH_BETTER
            parts.append((here.nonzero()[0] + first)[:take])
        return np.sort(np.concatenate(parts))

    def _least_slow(self, count: int) -> Ints | None:
        """Places in the order of slowness of the free GPUs that are as good as the best so many. Looks only as far as it must."""
        order, exact, _ = self._by_slowness
        size = 4 * count + 256
        while True:
            end = self._taken + size
            free: Ints = self._floor.available[order[self._taken : end]].nonzero()[0] + self._taken
            if len(free) >= count:
                reach = int(exact.searchsorted(exact[free[count - 1]] * AS_GOOD, side="right"))
                if reach <= end:
                    self._taken = int(free[0])
                    return free[: free.searchsorted(reach)]
                size = reach - self._taken
            elif end >= len(order):
                return None
            else:
                size *= 4

    @cached_property
    def _by_slowness(self) -> tuple[Ints, Floats, Ints]:
        """GPUs of the pool, the least slow first, with their scores and nodes."""
        mine = (self._floor.cluster.gpu_pool == self._pool).nonzero()[0]
        order = mine[np.argsort(self._exact[mine], kind="stable")]
        return order, self._exact[order], self._floor.cluster.gpu_node[order]

    def _limit(self, free: Ints, count: int, span: int) -> float:
        """How slow the slowest of so many free GPUs, sorted by slowness, is at least in one group of this level of locality;
        infinite: none has so many."""
        group = self._floor.cluster.domains[span][self._floor.cluster.gpu_node[free]]
        order = np.argsort(group, kind="stable")
        size = np.bincount(group)
        last = np.cumsum(size) - size + count - 1
        return float(self._exact[free[order[last[size >= count]]]].min(initial=np.inf))

    def _on(self, node: int, lowest: int, highest: int) -> Ints:
        """Free GPUs of a node at these levels, by number."""
        first, end = self._first[node], self._first[node + 1]
        level = self._level[first:end]
        free: Ints = (self._floor.available[first:end] & (level >= lowest) & (level <= highest)).nonzero()[0] + first
        return free
