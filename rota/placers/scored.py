"""Free GPUs by how slow each is for a kind of application: what placers that look at variability pick from.

Slowness comes in a few levels (bins), so what is free is kept as counts by level and node; no subset of GPUs is ever enumerated,
and GPUs are only looked at on nodes that were chosen."""

import numpy as np

from rota.model.floor import Floor, Request
from rota.model.units import Floats, Ints
from rota.placers.close import few_nodes

AS_GOOD = 1.01
"""GPUs that are slower than others by less than this factor are as good: runs on the same GPU differ by more."""


class Shelf:
    """The free GPUs of one pool as one application class sees them."""

    def __init__(self, floor: Floor, pool: int, row: int) -> None:
        cluster = floor.cluster
        self._floor, self._pool = floor, pool
        self._scores = floor.scores[row] if floor.scores is not None else np.ones(cluster.gpus)
        self._exact = floor.exact[row] if floor.exact is not None else self._scores
        self._mine = mine = cluster.gpu_pool == pool
        self.levels: Floats = np.unique(self._scores[mine])
        """Slowness of each level, best first."""
        self._level = np.searchsorted(self.levels, self._scores)
        self._first = cluster.node_first.tolist()
        self.widest = int(cluster.node_gpus[cluster.node_pool == pool].max())
        """GPUs of the largest node."""
        self.levels_of_locality = len(cluster.domains)
        """Most that a gang can span."""
        free = (floor.available & mine).nonzero()[0]
        cell = self._level[free] * len(cluster.nodes) + cluster.gpu_node[free]
        shape = (len(self.levels), len(cluster.nodes))
        self._counts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)

    def take(self, gpus: Ints) -> None:
        """These are no longer free."""
        np.subtract.at(self._counts, (self._level[gpus], self._floor.cluster.gpu_node[gpus]), 1)

    def slowest(self, gpus: Ints) -> float:
        return float(self._scores[gpus].max())

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

    def close(self, request: Request) -> Ints | None:
        """For a gang that no node can hold: as far out as pays, no GPU slower than it must be there, few racks and few nodes.
        A gang waits for its slowest GPU, so exact scores count, but GPUs that are about as good are as good. None: there are not
        so many."""
        count, domains, nodes = request.gpus, self._floor.cluster.domains, self._floor.cluster.gpu_node
        free = (self._floor.available & self._mine).nonzero()[0]
        if len(free) < count:
            return None
        limits = [self._limit(free, count, span) for span in range(1, len(domains) + 1)]
        costs = [limit * request.penalty(span) for span, limit in enumerate(limits, 1)]
        span = int(np.argmin(costs)) + 1
        good = free[self._exact[free] <= limits[span - 1] * AS_GOOD]
        worst = np.zeros(len(domains[0]))
        np.maximum.at(worst, nodes[good], self._exact[good])
        found = few_nodes(domains, np.bincount(nodes[good], minlength=len(worst)), count, span, worst)
        assert found is not None
        parts = []
        for node, take in found:
            here = good[nodes[good] == node]
            parts.append(here if len(here) == take else here[np.argsort(self._exact[here], kind="stable")][:take])
        return np.sort(np.concatenate(parts))

    def _limit(self, free: Ints, count: int, span: int) -> float:
        """How slow the slowest of so many free GPUs is at least, if they span so many levels; infinite: no place has so many."""
        exact, domains = self._exact[free], self._floor.cluster.domains
        if span == len(domains):
            return float(np.partition(exact, count - 1)[count - 1])
        group = domains[span][self._floor.cluster.gpu_node[free]]
        order = np.lexsort((exact, group))
        size = np.bincount(group)
        last = np.cumsum(size) - size + count - 1
        return float(exact[order[last[size >= count]]].min(initial=np.inf))

    def _on(self, node: int, lowest: int, highest: int) -> Ints:
        """Free GPUs of a node at these levels, by number."""
        first, end = self._first[node], self._first[node + 1]
        level = self._level[first:end]
        free: Ints = (self._floor.available[first:end] & (level >= lowest) & (level <= highest)).nonzero()[0] + first
        return free
