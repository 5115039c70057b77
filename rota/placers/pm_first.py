"""PM-First (PAL, SC'24): the GPUs that are least slow for the job's application class, wherever they are."""

from dataclasses import dataclass

from rota.model.floor import Floor, Request
from rota.model.units import Ints
from rota.placers.picky import Picky, enough
from rota.placers.scored import FreeGpus


@dataclass(frozen=True)
class PmFirst(Picky):
    """Variability first, locality not at all."""

    def pick(self, free_gpus: FreeGpus, floor: Floor, request: Request) -> Ints:
        return enough(free_gpus.best(request.gpus))
