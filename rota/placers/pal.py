"""PAL (SC'24): locality and variability together. The cheapest of: one node and no GPU slower than v, or several nodes, or racks,
and the penalty for that, over all levels v of slowness."""

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

    def keeps_together(self, request: Request) -> bool:
        return True

    def pick(self, shelf: Shelf, floor: Floor, request: Request) -> Ints:
        count = request.gpus
        wide = count > shelf.widest
        if count == 1 or (wide and not self.wide):
            return enough(shelf.best(count))
        spans = range(int(wide), len(floor.cluster.domains) + 1)
        cost = np.concatenate([shelf.levels * request.penalty(span) for span in spans])
        for entry in np.argsort(cost, kind="stable").tolist():  # of equal costs, one node comes before several
            span, most = divmod(entry, len(shelf.levels))
            found = self._over(shelf, count, spans[span], most, wide)
            if found is not None:
                return found
        return enough(shelf.best(count))

    def _over(self, shelf: Shelf, count: int, span: int, most: int, wide: bool) -> Ints | None:
        """Across so many levels of locality and no GPU slower than `most`, if there are so many."""
        if span == 0:
            return shelf.within(count, most)
        return shelf.close(count, most, span) if wide or span < shelf.levels_of_locality else shelf.best(count, most)
