"""PAL (SC'24): locality and variability together. The cheapest of: one node and no GPU slower than v, or several nodes, or racks,
and the penalty for that, over all levels v of slowness."""

from dataclasses import dataclass

import numpy as np

from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.scored import FreeGpus
from rota.placers.variability_placer import Picky, enough


@dataclass(frozen=True)
class Pal(Picky):
    """Pack, unless what is slow about the only packed choice costs more than spreading."""

    wide: bool = True
    """Jobs wider than a node take the GPUs that are exactly the least slow, in few racks and on few nodes, once those who fit on
    a node have theirs; if not, they take the least slow by level, wherever they are and whenever their turn is."""

    @property
    def spares(self) -> bool:
        return self.wide

    def keeps_together(self, request: PlacementRequest) -> bool:
        return True

    def turn(self, floor: PlacementView, request: PlacementRequest) -> tuple[int, ...]:
        if not self.wide:
            return super().turn(floor, request)
        # One node is all to those who fit on one, and nothing to those who never do; a single GPU fits anywhere.
        narrow = 1 < request.gpus <= floor.cluster.widest[request.pool]
        return (request.application_class, 0 if narrow else 1 if request.gpus > 1 else 2)

    def pick(self, free_gpus: FreeGpus, floor: PlacementView, request: PlacementRequest) -> Ints:
        count = request.gpus
        wide = count > free_gpus.widest
        if count == 1 or (wide and not self.wide):
            return enough(free_gpus.best(count))
        if wide:
            return enough(free_gpus.close(request))
        spans = range(len(floor.cluster.domains) + 1)
        cost = np.concatenate([free_gpus.levels * request.penalty(span) for span in spans])
        for entry in np.argsort(cost, kind="stable").tolist():  # of equal costs, one node comes before several
            span, most = divmod(entry, len(free_gpus.levels))
            found = self._over(free_gpus, count, span, most)
            if found is not None:
                return found
        return enough(free_gpus.best(count))

    def _over(self, free_gpus: FreeGpus, count: int, span: int, most: int) -> Ints | None:
        """Across so many levels of locality and no GPU slower than `most`, if there are so many."""
        if span == 0:
            return free_gpus.within(count, most)
        return free_gpus.inside(count, most, span) if span < free_gpus.levels_of_locality else free_gpus.best(count, most)
