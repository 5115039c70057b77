"""What PM-First and PAL have in common: who picks first, and whether a move pays."""

from dataclasses import dataclass

import numpy as np

from rota.model.floor import Floor, Request
from rota.model.units import Ints
from rota.placers.scored import Shelf

PAYS_WITHIN_SECONDS = 3600.0
"""A job moves only if the time it saves over this long is more than the move costs."""


@dataclass(frozen=True)
class Picky:
    """Applications that suffer most from slow GPUs pick first (class A before B); among equals, in the order of the policy."""

    sticky: bool = False
    """A running job keeps its GPUs; false: everything is placed anew at each decision, and who runs moves if that pays."""

    def keeps_together(self, request: Request) -> bool:
        return False

    def turn(self, floor: Floor, request: Request) -> tuple[int, ...]:
        """Who picks before whom: the smaller; among equals, in the order of the policy."""
        return (request.application,)

    def pick(self, shelf: Shelf, floor: Floor, request: Request) -> Ints:
        """GPUs for one request."""
        raise TypeError(f"{type(self).__name__} does not say which GPUs it prefers")

    def place(self, floor: Floor, requests: list[Request]) -> list[Ints]:
        shelves: dict[tuple[int, int], Shelf] = {}
        placed: dict[int, Ints] = {}
        for number in sorted(range(len(requests)), key=lambda n: self.turn(floor, requests[n])):
            request = requests[number]
            key = (request.pool, request.application)
            shelf = shelves.get(key)
            if shelf is None:
                shelf = shelves[key] = Shelf(floor, *key)
            found = self._wish(shelf, floor, request)
            if found is None:
                found = self.pick(shelf, floor, request)
            floor.available[found] = False
            for (pool, _), other in shelves.items():
                if pool == request.pool:
                    other.take(found)
            placed[number] = found
        return [placed[number] for number in range(len(requests))]

    def _wish(self, shelf: Shelf, floor: Floor, request: Request) -> Ints | None:
        """The allocation's hint where it can be had, or where the job is if going elsewhere would not pay."""
        if len(request.hint) == request.gpus and floor.available[list(request.hint)].all():
            return np.sort(np.array(request.hint, dtype=np.int64))
        now = request.current
        if now is None or request.move_seconds <= 0 or len(now) != request.gpus or not floor.available[now].all():
            return None
        if floor.cluster.gpu_pool[now[0]] != request.pool:
            return None
        better = self.pick(shelf, floor, request)
        gain = _pace(shelf, floor, request, now) / _pace(shelf, floor, request, better) - 1
        return now if gain * PAYS_WITHIN_SECONDS <= request.move_seconds else better


def _pace(shelf: Shelf, floor: Floor, request: Request, gpus: Ints) -> float:
    """How many times longer a step takes there."""
    return shelf.slowest(gpus) * request.penalty(floor.cluster.spanned(gpus))


def enough(found: Ints | None) -> Ints:
    """A granted job finds its GPUs: the mechanism counted them."""
    assert found is not None
    return found
