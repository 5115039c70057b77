"""What PM-First and PAL have in common: who picks first, and whether a move pays."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rota.model.needs import Needs
from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.scored import FreeGpus

PAYS_WITHIN_SECONDS = 3600.0
"""A job moves only if the time it saves over this long is more than the move costs."""


@dataclass(frozen=True)
class Picky:
    """Applications that suffer most from slow GPUs pick first (class A before B); among equals, in the order of the policy."""

    sticky: bool = False
    """A running job keeps its GPUs; false: everything is placed anew at each decision, and who runs moves if that pays."""
    needs: ClassVar[Needs] = Needs(gpu_scores=True)

    def keeps_together(self, request: PlacementRequest) -> bool:
        return False

    @property
    def spares(self) -> bool:
        """Nobody is driven from its place unless that pays. If not, whoever picks first takes what is best for it."""
        return False

    def turn(self, floor: PlacementView, request: PlacementRequest) -> tuple[int, ...]:
        """Who picks before whom: the smaller; among equals, in the order of the policy."""
        return (request.application_class,)

    def pick(self, free_gpus: FreeGpus, floor: PlacementView, request: PlacementRequest) -> Ints:
        """GPUs for one request."""
        raise TypeError(f"{type(self).__name__} does not say which GPUs it prefers")

    def place(self, floor: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        """One by one, in turn. A job that pays for moving stays where it is unless a move pays."""
        order = sorted(range(len(requests)), key=lambda number: self.turn(floor, requests[number]))
        homes = _homes(floor, requests, order)
        place = self._spare if homes and self.spares else self._plain
        placed = place(floor, requests, order, homes)
        return [placed[number] for number in range(len(requests))]

    def _plain(
        self, floor: PlacementView, requests: list[PlacementRequest], order: list[int], homes: dict[int, Ints]
    ) -> dict[int, Ints]:
        """Whoever picks first may drive others from their places."""
        side, placed = _Side(floor), {}
        for number in order:
            request, home = requests[number], homes.get(number)
            found = self.pick(side.free_gpus(request), floor, request)
            if home is not None and floor.available[home].all():
                here, there = (_pace(side.free_gpus(request), floor, request, gpus) for gpus in (home, found))
                found = home if (here / there - 1) * PAYS_WITHIN_SECONDS <= request.move_seconds else found
            side.mark(request.pool, found, free=False)
            placed[number] = found
        return placed

    def _spare(
        self, floor: PlacementView, requests: list[PlacementRequest], order: list[int], homes: dict[int, Ints]
    ) -> dict[int, Ints]:
        """Nobody is driven from its place unless that pays for both. Two sides of the floor: with the places of those whose turn
        is still to come, and without."""
        owner = np.full(floor.cluster.gpus, -1, dtype=np.int64)
        for number, place in homes.items():
            owner[place] = number
        every, calm, placed = _Side(floor), _Side(replace(floor, available=floor.available & (owner < 0))), {}
        for number in order:
            request, home = requests[number], homes.get(number)
            best = self.pick(every.free_gpus(request), floor, request)
            if home is not None:
                del homes[number]
                owner[home] = -1
                if not _pays(every.free_gpus(request), floor, request, home, best):
                    every.mark(request.pool, home, free=False)
                    placed[number] = home
                    continue  # it stays, as most do
                calm.mark(request.pool, home, free=True)
            choices = [self.pick(calm.free_gpus(request), calm.floor, request), best]
            found = _cheapest([home, *choices] if home is not None else choices, home, every, requests, number, owner)
            for other in _owners(owner, found):
                left = homes.pop(other)
                owner[left] = -1
                calm.mark(requests[other].pool, left, free=True)
            every.mark(request.pool, found, free=False)
            calm.mark(request.pool, found, free=False)
            placed[number] = found
        return placed


class _Side:
    """A floor with its free GPUs by pool and application class."""

    def __init__(self, floor: PlacementView) -> None:
        self.floor = floor
        self._free_gpus: dict[tuple[int, int], FreeGpus] = {}

    def free_gpus(self, request: PlacementRequest) -> FreeGpus:
        key = (request.pool, request.application_class)
        if key not in self._free_gpus:
            self._free_gpus[key] = FreeGpus(self.floor, *key)
        return self._free_gpus[key]

    def mark(self, pool: int, gpus: Ints, *, free: bool) -> None:
        self.floor.available[gpus] = free
        for (where, _), free_gpus in self._free_gpus.items():
            if where == pool:
                free_gpus.mark(gpus, free)


def _pays(free_gpus: FreeGpus, floor: PlacementView, request: PlacementRequest, home: Ints, best: Ints) -> bool:
    """Whether a move to the best there is would pay, if it drove nobody away."""
    gain = 1 - _exact_pace(free_gpus, floor, request, best) / _exact_pace(free_gpus, floor, request, home)
    return gain * PAYS_WITHIN_SECONDS > request.move_seconds


def _cheapest(
    choices: list[Ints], home: Ints | None, side: _Side, requests: list[PlacementRequest], number: int, owner: Ints
) -> Ints:
    """What loses least within an hour: by being slower than the fastest of them, by moving, and by driving others away. Of equal
    ones the first."""
    request, free_gpus = requests[number], side.free_gpus(requests[number])
    paces = [_exact_pace(free_gpus, side.floor, request, gpus) for gpus in choices]
    losses = []
    for gpus, pace in zip(choices, paces, strict=True):
        moves = [requests[other].move_seconds for other in _owners(owner, gpus)]
        moves += [request.move_seconds] if home is not None and gpus is not home else []
        losses.append(PAYS_WITHIN_SECONDS * (1 - min(paces) / pace) + sum(moves))
    return choices[int(np.argmin(losses))]


def _owners(owner: Ints, gpus: Ints) -> list[int]:
    found = owner[gpus]
    return [int(each) for each in np.unique(found[found >= 0])]


def _homes(floor: PlacementView, requests: list[PlacementRequest], order: list[int]) -> dict[int, Ints]:
    """The GPUs of each job that pays for leaving its own and may keep them. A GPU is the home of one job: one that holds it comes
    before one that sleeps on its node."""
    homes: dict[int, Ints] = {}
    taken = np.zeros(floor.cluster.gpus, dtype=bool)
    for parked in (False, True):
        for number in order:
            request = requests[number]
            now = request.current
            if now is None or request.parked != parked or request.move_seconds <= 0 or len(now) != request.gpus:
                continue
            if floor.cluster.gpu_pool[now[0]] == request.pool and floor.available[now].all() and not taken[now].any():
                homes[number] = now
                taken[now] = True
    return homes


def _exact_pace(free_gpus: FreeGpus, floor: PlacementView, request: PlacementRequest, gpus: Ints) -> float:
    return free_gpus.slowest_exactly(gpus) * request.penalty(floor.cluster.spanned(gpus))


def _pace(free_gpus: FreeGpus, floor: PlacementView, request: PlacementRequest, gpus: Ints) -> float:
    """How many times longer a step takes there."""
    return free_gpus.slowest(gpus) * request.penalty(floor.cluster.spanned(gpus))


def enough(found: Ints | None) -> Ints:
    """A granted job finds its GPUs: the mechanism counted them."""
    assert found is not None
    return found
