"""Free GPUs by how slow each is for an application class. Placers that consider variability choose from them.

Slowness has a few levels (bins), and free GPUs are counted by level and node. Subsets of GPUs are never enumerated, and single
GPUs are looked at only on nodes that were chosen.
"""

from functools import cached_property

import numpy as np

from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Floats, Ints
from rota.placers.close import few_nodes

AS_GOOD = 1.01
"""Factor of slowness within which GPUs count as equally good, since runs on the same GPU differ by more."""

MUCH_BETTER = 1.25
"""Factor of slowness from which faster GPUs are taken even if others hold the gang up, so that slow GPUs are avoided as far as
possible."""


class FreeGpus:
    """Free GPUs of one pool, as one application class sees them."""

    def __init__(self, view: PlacementView, pool: int, row: int) -> None:
        cluster = view.cluster
        self._floor, self._pool = view, pool
        self._scores = view.scores[row] if view.scores is not None else np.ones(cluster.gpus)
        self._exact = view.exact[row] if view.exact is not None else self._scores
        mine = cluster.gpu_pool == pool
        self.levels: Floats = np.unique(self._scores[mine])
        """Slowness of each level, best first."""
        self._level = np.searchsorted(self.levels, self._scores)
        self._first = cluster.node_first.tolist()
        self.widest = int(cluster.node_gpus[cluster.node_pool == pool].max())
        """Number of GPUs of the largest node."""
        self.levels_of_locality = len(cluster.domains)
        """Number of levels of locality that a gang can span."""
        self._taken = 0
        """Number of the least slow GPUs that are certainly not free."""
        free = (view.available & mine).nonzero()[0]
        cell = self._level[free] * len(cluster.nodes) + cluster.gpu_node[free]
        shape = (len(self.levels), len(cluster.nodes))
        self._counts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)

    def mark(self, gpus: Ints, free: bool) -> None:
        """Mark these GPUs as free, or as no longer free."""
        self._taken = 0 if free else self._taken
        np.add.at(self._counts, (self._level[gpus], self._floor.cluster.gpu_node[gpus]), 1 if free else -1)

    def slowest(self, gpus: Ints) -> float:
        return float(self._scores[gpus].max())

    def slowest_exactly(self, gpus: Ints) -> float:
        return float(self._exact[gpus].max())

    def best(self, count: int, max_level: int | None = None) -> Ints | None:
        """Return the least slow GPUs, none above level `max_level` (PM-First); None if there are too few. Among equals, GPUs come
        from nodes whose number of them is nearest to `count`."""
        counts = self._counts if max_level is None else self._counts[: max_level + 1]
        if int(counts.sum()) < count:
            return None
        found: list[Ints] = []
        left = count
        for level, row in enumerate(counts):
            # no node has more GPUs than the largest, so nothing is nearer
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

    def within(self, count: int, max_level: int) -> Ints | None:
        """Return GPUs on one node, none above level `max_level`; None if no node has enough. The node is the one whose slowest
        GPU is least slow, and of equals the one with the most such GPUs."""
        total = self._counts[: max_level + 1].sum(axis=0)
        have = np.zeros_like(total)
        for level in range(max_level + 1):
            have = have + self._counts[level]
            fits = (have >= count).nonzero()[0]
            if len(fits):
                node = int(fits[np.argmax(total[fits])])
                return self._on(node, 0, level)[:count]
        return None

    def inside(self, count: int, max_level: int, span: int) -> Ints | None:
        """Return GPUs across at most `span` levels of locality, none above level `max_level`, on few nodes; None if no group has
        enough."""
        found = few_nodes(self._floor.cluster.domains, self._counts[: max_level + 1].sum(axis=0), count, span)
        if found is None:
            return None
        return np.sort(np.concatenate([self._on(node, 0, max_level)[:take] for node, take in found]))

    def close(self, request: PlacementRequest) -> Ints | None:
        """Return GPUs for a gang that is larger than any node: across as many levels as pays, on few racks and nodes, and no GPU
        slower than necessary. A gang waits for its slowest GPU, so exact scores count, but GPUs within AS_GOOD are equally good.
        None if there are too few."""
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
            # The gang needs some GPUs that are much slower than others: it takes no more of them than necessary.
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
        """Return positions, in order of slowness, of the free GPUs that are as good as the best `count`. Looks only as far as
        necessary."""
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
        """GPUs of the pool, least slow first, with their scores and nodes."""
        mine = (self._floor.cluster.gpu_pool == self._pool).nonzero()[0]
        order = mine[np.argsort(self._exact[mine], kind="stable")]
        return order, self._exact[order], self._floor.cluster.gpu_node[order]

    def _limit(self, free: Ints, count: int, span: int) -> float:
        """Return the lowest possible score of the slowest of this many GPUs within one group of this level of locality; infinite
        if no group has enough. `free` is sorted by slowness."""
        group = self._floor.cluster.domains[span][self._floor.cluster.gpu_node[free]]
        order = np.argsort(group, kind="stable")
        size = np.bincount(group)
        last = np.cumsum(size) - size + count - 1
        return float(self._exact[free[order[last[size >= count]]]].min(initial=np.inf))

    def _on(self, node: int, lowest: int, highest: int) -> Ints:
        """Return the free GPUs of a node at these levels, by number."""
        first, end = self._first[node], self._first[node + 1]
        level = self._level[first:end]
        free: Ints = (self._floor.available[first:end] & (level >= lowest) & (level <= highest)).nonzero()[0] + first
        return free
