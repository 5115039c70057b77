"""PM-First (PAL, SC'24): the GPUs that are least slow for the job's application class, wherever they are."""

from dataclasses import dataclass

from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.scored import FreeGpus
from rota.placers.variability_placer import VariabilityPlacer, enough


@dataclass(frozen=True)
class PmFirst(VariabilityPlacer):
    """Chooses GPUs by variability only, and ignores locality."""

    def pick(self, free_gpus: FreeGpus, view: PlacementView, request: PlacementRequest) -> Ints:
        return enough(free_gpus.best(request.gpus))
