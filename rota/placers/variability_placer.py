"""What PM-First and PAL share: which request chooses first, and whether a move pays."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rota.model.needs import Needs
from rota.model.placement_view import PlacementRequest, PlacementView
from rota.model.units import Ints
from rota.placers.scored import FreeGpus

PAYS_WITHIN_SECONDS = 3600.0
"""A job moves only if it saves more time within this length than the move costs, in seconds."""


@dataclass(frozen=True)
class VariabilityPlacer:
    """Requests of applications that suffer most from slow GPUs choose first (class A before B), and equal ones in the policy's
    order."""

    sticky: bool = False
    """Whether a running job keeps its GPUs. If false, all jobs are placed again at each decision, and running jobs move if that
    pays."""
    needs: ClassVar[Needs] = Needs(gpu_scores=True)

    def keeps_together(self, request: PlacementRequest) -> bool:
        return False

    @property
    def spares(self) -> bool:
        """Whether a job loses its GPUs to another only if that pays for both. If not, each request takes the best GPUs at its
        turn."""
        return False

    def turn(self, view: PlacementView, request: PlacementRequest) -> tuple[int, ...]:
        """Return a sort key: smaller requests choose first, and equal ones in the policy's order."""
        return (request.application_class,)

    def pick(self, free_gpus: FreeGpus, view: PlacementView, request: PlacementRequest) -> Ints:
        """Return GPUs for one request."""
        raise TypeError(f"{type(self).__name__} must implement pick")

    def place(self, view: PlacementView, requests: list[PlacementRequest]) -> list[Ints]:
        """Place requests one by one. A job for which moving has a cost stays unless a move pays."""
        order = sorted(range(len(requests)), key=lambda number: self.turn(view, requests[number]))
        homes = _current_gpus(view, requests, order)
        place = self._spare if homes and self.spares else self._plain
        placed = place(view, requests, order, homes)
        return [placed[number] for number in range(len(requests))]

    def _plain(
        self, view: PlacementView, requests: list[PlacementRequest], order: list[int], homes: dict[int, Ints]
    ) -> dict[int, Ints]:
        """Place requests so that an earlier one may take the GPUs of later ones."""
        side, placed = _Side(view), {}
        for number in order:
            request, home = requests[number], homes.get(number)
            found = self.pick(side.free_gpus(request), view, request)
            if home is not None and view.available[home].all():
                here, there = (_slowdown(side.free_gpus(request), view, request, gpus) for gpus in (home, found))
                found = home if (here / there - 1) * PAYS_WITHIN_SECONDS <= request.move_seconds else found
            side.mark(request.pool, found, free=False)
            placed[number] = found
        return placed

    def _spare(
        self, view: PlacementView, requests: list[PlacementRequest], order: list[int], homes: dict[int, Ints]
    ) -> dict[int, Ints]:
        """Place requests so that a job loses its GPUs only if that pays for both. Two views are kept: `every` includes the
        present GPUs of jobs whose turn is still to come, `calm` leaves them out."""
        owner = np.full(view.cluster.gpus, -1, dtype=np.int64)
        for number, place in homes.items():
            owner[place] = number
        every, calm, placed = _Side(view), _Side(replace(view, available=view.available & (owner < 0))), {}
        for number in order:
            request, home = requests[number], homes.get(number)
            best = self.pick(every.free_gpus(request), view, request)
            if home is not None:
                del homes[number]
                owner[home] = -1
                if not _pays(every.free_gpus(request), view, request, home, best):
                    every.mark(request.pool, home, free=False)
                    placed[number] = home
                    continue  # it stays, as most jobs do
                calm.mark(request.pool, home, free=True)
            choices = [self.pick(calm.free_gpus(request), calm.view, request), best]
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
    """A placement view with its free GPUs by pool and application class."""

    def __init__(self, view: PlacementView) -> None:
        self.view = view
        self._free_gpus: dict[tuple[int, int], FreeGpus] = {}

    def free_gpus(self, request: PlacementRequest) -> FreeGpus:
        key = (request.pool, request.application_class)
        if key not in self._free_gpus:
            self._free_gpus[key] = FreeGpus(self.view, *key)
        return self._free_gpus[key]

    def mark(self, pool: int, gpus: Ints, *, free: bool) -> None:
        self.view.available[gpus] = free
        for (where, _), free_gpus in self._free_gpus.items():
            if where == pool:
                free_gpus.mark(gpus, free)


def _pays(free_gpus: FreeGpus, view: PlacementView, request: PlacementRequest, home: Ints, best: Ints) -> bool:
    """Return whether moving to the best GPUs would pay if no other job had to move."""
    gain = 1 - _exact_slowdown(free_gpus, view, request, best) / _exact_slowdown(free_gpus, view, request, home)
    return gain * PAYS_WITHIN_SECONDS > request.move_seconds


def _cheapest(
    choices: list[Ints], home: Ints | None, side: _Side, requests: list[PlacementRequest], number: int, owner: Ints
) -> Ints:
    """Return the GPUs that lose the least time within an hour: by being slower than the fastest choice, by moving, and by making
    others move. The first of equals wins."""
    request, free_gpus = requests[number], side.free_gpus(requests[number])
    slowdowns = [_exact_slowdown(free_gpus, side.view, request, gpus) for gpus in choices]
    losses = []
    for gpus, slowdown in zip(choices, slowdowns, strict=True):
        moves = [requests[other].move_seconds for other in _owners(owner, gpus)]
        moves += [request.move_seconds] if home is not None and gpus is not home else []
        losses.append(PAYS_WITHIN_SECONDS * (1 - min(slowdowns) / slowdown) + sum(moves))
    return choices[int(np.argmin(losses))]


def _owners(owner: Ints, gpus: Ints) -> list[int]:
    found = owner[gpus]
    return [int(each) for each in np.unique(found[found >= 0])]


def _current_gpus(view: PlacementView, requests: list[PlacementRequest], order: list[int]) -> dict[int, Ints]:
    """Return the GPUs of each job that may keep them and for which moving has a cost. A GPU belongs to one job at most: the job
    that holds it comes before a job that is parked on its node."""
    homes: dict[int, Ints] = {}
    taken = np.zeros(view.cluster.gpus, dtype=bool)
    for parked in (False, True):
        for number in order:
            request = requests[number]
            now = request.current
            if now is None or request.parked != parked or request.move_seconds <= 0 or len(now) != request.gpus:
                continue
            if view.cluster.gpu_pool[now[0]] == request.pool and view.available[now].all() and not taken[now].any():
                homes[number] = now
                taken[now] = True
    return homes


def _exact_slowdown(free_gpus: FreeGpus, view: PlacementView, request: PlacementRequest, gpus: Ints) -> float:
    return free_gpus.slowest_exactly(gpus) * request.penalty(view.cluster.spanned(gpus))


def _slowdown(free_gpus: FreeGpus, view: PlacementView, request: PlacementRequest, gpus: Ints) -> float:
    """Return the factor by which a step takes longer on these GPUs."""
    return free_gpus.slowest(gpus) * request.penalty(view.cluster.spanned(gpus))


def enough(found: Ints | None) -> Ints:
    """Return the GPUs of a granted job. There are always enough, since the planner has counted them."""
    assert found is not None
    return found
