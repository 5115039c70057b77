"""PM-First (PAL, SC'24): the GPUs that are least slow for the job's application class, wherever they are."""

from dataclasses import dataclass

from rota.model.floor import Floor, Request
from rota.model.units import Ints
from rota.placers.picky import Picky, enough
from rota.placers.scored import Shelf


@dataclass(frozen=True)
class PmFirst(Picky):
    """Variability first, locality not at all."""

    def pick(self, shelf: Shelf, floor: Floor, request: Request) -> Ints:
        return enough(shelf.best(request.gpus))
