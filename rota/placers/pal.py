"""PAL (SC'24): locality and variability together. The cheapest of: one node and no GPU slower than v, or several nodes and the
penalty for that, over all levels v of slowness."""

from dataclasses import dataclass

import numpy as np

from rota.model.floor import Floor, Request
from rota.model.units import Ints
from rota.placers.picky import Picky
from rota.placers.scored import Shelf


@dataclass(frozen=True)
class Pal(Picky):
    """Pack, unless what is slow about the only packed choice costs more than spreading."""

    wide: bool = True
    """Jobs wider than a node span few nodes and few racks; if not, they take the least slow GPUs wherever they are."""

    def pick(self, shelf: Shelf, floor: Floor, request: Request, free: Ints) -> Ints:
        count = request.gpus
        widest = int(floor.cluster.node_gpus[floor.cluster.node_pool == request.pool].max())
        if count == 1:
            return shelf.best(free, count)
        if count > widest:
            return shelf.few_nodes(free, count) if self.wide else shelf.best(free, count)
        levels = np.arange(len(shelf.levels))
        cost = np.concatenate((shelf.levels, shelf.levels * request.spread_penalty))
        across = np.concatenate((levels < 0, levels >= 0))
        for entry in np.lexsort((across, cost)).tolist():
            most = int(levels[entry % len(levels)])
            if not across[entry]:
                found = shelf.within(free, count, most)
                if found is not None:
                    return found
            else:
                candidates = free[shelf.level(free) <= most]
                if len(candidates) >= count:
                    return shelf.best(candidates, count)
        return shelf.best(free, count)
