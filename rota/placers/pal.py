"""PAL (SC'24): locality and variability together. It compares one node with several nodes and racks, at all levels v of slowness.
The cost is v times the locality penalty, and the cheapest choice wins."""

from dataclasses import dataclass

import numpy as np

from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.scored import FreeGpus
from rota.placers.variability_placer import VariabilityPlacer, enough


@dataclass(frozen=True)
class Pal(VariabilityPlacer):
    """Packs a job on one node, unless the slow GPUs of the only such choice cost more than spreading."""

    wide: bool = True
    """Whether jobs that are larger than a node get the least slow GPUs by exact score, in few racks and on few nodes, after the
    jobs that fit on a node. If false, they get the least slow GPUs by level, anywhere, at their turn."""

    @property
    def spares(self) -> bool:
        return self.wide

    def keeps_together(self, request: PlacementRequest) -> bool:
        return True

    def turn(self, view: PlacementView, request: PlacementRequest) -> tuple[int, ...]:
        if not self.wide:
            return super().turn(view, request)
        # Jobs that fit on a node need one; larger jobs never do; a single GPU fits anywhere.
        narrow = 1 < request.gpus <= view.cluster.widest[request.pool]
        return (request.application_class, 0 if narrow else 1 if request.gpus > 1 else 2)

    def pick(self, free_gpus: FreeGpus, view: PlacementView, request: PlacementRequest) -> Ints:
        count = request.gpus
        wide = count > free_gpus.widest
        if count == 1 or (wide and not self.wide):
            return enough(free_gpus.best(count))
        if wide:
            return enough(free_gpus.close(request))
        spans = range(len(view.cluster.domains) + 1)
        cost = np.concatenate([free_gpus.levels * request.penalty(span) for span in spans])
        for entry in np.argsort(cost, kind="stable").tolist():  # of equal costs, one node comes before several
            span, max_level = divmod(entry, len(free_gpus.levels))
            found = self._over(free_gpus, count, span, max_level)
            if found is not None:
                return found
        return enough(free_gpus.best(count))

    def _over(self, free_gpus: FreeGpus, count: int, span: int, max_level: int) -> Ints | None:
        """Return GPUs across this many levels of locality, none above level `max_level`; None if there are too few."""
        if span == 0:
            return free_gpus.within(count, max_level)
        if span < free_gpus.levels_of_locality:
            return free_gpus.inside(count, max_level, span)
        return free_gpus.best(count, max_level)
