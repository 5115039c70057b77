"""Free GPUs by how slow each is for a kind of application: what placers that look at variability pick from.

Slowness comes in a few levels (bins), so what is free is counted by level and node; no subset of GPUs is ever enumerated."""

import numpy as np

from rota.model.floor import Floor
from rota.model.units import Floats, Ints


class Shelf:
    """The free GPUs of one pool as one application class sees them."""

    def __init__(self, floor: Floor, pool: int, row: int) -> None:
        self.floor = floor
        self._nodes = np.array(floor.cluster.pool_nodes[pool])
        self._scores = floor.scores[row] if floor.scores is not None else np.ones(floor.cluster.gpus)
        mine = floor.cluster.gpu_pool == pool
        self.levels: Floats = np.unique(self._scores[mine])
        """Slowness of each level, best first."""
        self._level = np.searchsorted(self.levels, self._scores)
        self._pool = mine

    def free(self) -> Ints:
        """Free GPUs of the pool, by number."""
        free: Ints = (self.floor.available & self._pool).nonzero()[0]
        return free

    def counts(self, gpus: Ints) -> Ints:
        """How many of these GPUs each node has at each level: shape (levels, nodes)."""
        nodes = len(self.floor.cluster.nodes)
        cell = self._level[gpus] * nodes + self.floor.cluster.gpu_node[gpus]
        return np.bincount(cell, minlength=len(self.levels) * nodes).reshape(len(self.levels), nodes)

    def level(self, gpus: Ints) -> Ints:
        return self._level[gpus]

    def slowest(self, gpus: Ints) -> float:
        return float(self._scores[gpus].max())

    def best(self, gpus: Ints, count: int) -> Ints:
        """PM-First: the least slow of these; among equals, those on nodes whose number of them is nearest to what is wanted."""
        level, node = self._level[gpus], self.floor.cluster.gpu_node[gpus]
        same = self.counts(gpus)[level, node]
        order = np.lexsort((gpus, np.abs(same - count), level))
        return np.sort(gpus[order[:count]])

    def within(self, gpus: Ints, count: int, most: int) -> Ints | None:
        """On one node, none slower than level `most`: the node whose slowest is least slow, then the one with most of them."""
        gpus = gpus[self._level[gpus] <= most]
        have = np.cumsum(self.counts(gpus), axis=0)
        fits = have[-1] >= count
        if not fits.any():
            return None
        needs = np.where(fits, (have < count).sum(axis=0), len(self.levels))  # level of the slowest it must take
        node = int(np.lexsort((-have[-1], needs))[0])
        here = gpus[(self.floor.cluster.gpu_node[gpus] == node) & (self._level[gpus] <= needs[node])]
        found: Ints = here[:count]
        return found

    def few_nodes(self, gpus: Ints, count: int) -> Ints:
        """The least slow level that has enough; there as few nodes as possible, and as few racks: most free first, and the rest
        where it fits best."""
        have = np.cumsum(self.counts(gpus), axis=0)
        most = int((have.sum(axis=1) < count).sum())
        gpus = gpus[self._level[gpus] <= most]
        free = have[most]
        racks = self.floor.cluster.node_rack
        room = np.bincount(racks, weights=free, minlength=int(racks.max()) + 1)
        one = (room >= count).nonzero()[0]
        near = racks == one[np.argmin(room[one])] if len(one) else np.ones(len(free), dtype=bool)
        order = np.lexsort((-free, -room[racks], ~near))
        taken, left = [], count
        while left > 0:
            open_to = order[free[order] > 0]
            enough = open_to[(free[open_to] >= left) & near[open_to]]
            node = int(enough[np.argmin(free[enough])]) if len(enough) else int(open_to[0])
            here = gpus[self.floor.cluster.gpu_node[gpus] == node][:left]
            taken.append(here)
            left -= len(here)
            free = free.copy()
            free[node] = 0
        return np.sort(np.concatenate(taken))
