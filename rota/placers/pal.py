"""PAL (SC'24): locality and variability together. The cheapest of: one node and no GPU slower than v, or several nodes and the
penalty for that, over all levels v of slowness."""

from dataclasses import dataclass

import numpy as np

from rota.model.floor import Floor, Request
from rota.model.units import Ints
from rota.placers.picky import Picky, enough
from rota.placers.scored import Shelf


@dataclass(frozen=True)
class Pal(Picky):
    """Pack, unless what is slow about the only packed choice costs more than spreading."""

    wide: bool = True
    """Jobs wider than a node span few nodes and few racks; if not, they take the least slow GPUs wherever they are."""

    def pick(self, shelf: Shelf, floor: Floor, request: Request) -> Ints:
        count, levels = request.gpus, len(shelf.levels)
        if count == 1 or (count > shelf.widest and not self.wide):
            return enough(shelf.best(count))
        if count > shelf.widest:
            return shelf.few_nodes(count)
        cost = np.concatenate((shelf.levels, shelf.levels * request.spread_penalty))
        for entry in np.argsort(cost, kind="stable").tolist():  # of equal costs, one node comes before several
            found = shelf.within(count, entry) if entry < levels else shelf.best(count, entry - levels)
            if found is not None:
                return found
        return enough(shelf.best(count))
