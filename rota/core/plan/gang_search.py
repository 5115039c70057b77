"""Gang search: jobs wait rather than be scattered (`wait_for_locality`). The planner does this; a placer makes no job wait.

Jobs with a grant take their places in the order of the policy. A job that the placer would keep together waits if it finds no
place on as few nodes as it needs, of those in service. Its GPUs go to the jobs behind it, unless no job may overtake. Running
jobs keep their places, except for a job that comes before them and has no other place.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from rota.core.plan.choose_gpus import request_for
from rota.core.plan.draft import Draft, Places, released
from rota.core.plan.fill import Grants, SplitGpu
from rota.core.plan.order import Candidates
from rota.model.placement_view import PlacementRequest
from rota.model.units import MILLI, Bools, Ints


class GangSearch:
    """Find places for the grants of a draft. A grant without a place goes to the jobs behind it."""

    def __init__(
        self, draft: Draft, candidates: Candidates, grants: Grants, settled: Mapping[int, tuple[int, Ints]] = MappingProxyType({})
    ) -> None:
        """`settled`: option and GPUs, by position, of jobs whose place is found already."""
        state, table = draft.state, draft.table
        self._hints, self._settled = draft.hints, settled
        self._state, self._placer, self._table = state, draft.placer, table
        options, self._position = table.options, candidates.position
        self._way: Ints = options.best[table.kind[self._position]] if candidates.option is None else candidates.option
        self._blocking, self._reserve = candidates.blocking, candidates.reserve
        self.limits = None if draft.limits is None else draft.limits.copy()
        """What is left of the limits of groups; None if there are none."""
        self._option, self._left = grants.option.copy(), grants.left.copy()
        self._jobs: list[int] = state.jobs.table.id[table.rows].tolist()
        self._order: list[int] = []
        self._gpus: dict[int, Ints] = {}
        self._refused: set[tuple[int, int]] = set()
        """(kind, option) of jobs that found no place. Every place taken leaves fewer, so that none of them finds one later."""
        usable, _ = state.usable()
        living = range(len(self._jobs)) if draft.alive is None else draft.alive.nonzero()[0].tolist()
        free = usable & released(state, [self._jobs[at] for at in living])
        self._view = draft.placement_view(free)
        self._access, self._classes = draft.access, draft.places.classes
        self._split = grants.split
        for split in self._split:
            if split.gpu >= 0:
                self._view.available[split.gpu] = False
        self._granted: list[int] = grants.position.tolist()
        self._behind = np.zeros(len(free), dtype=bool)
        """GPUs of running jobs that come later in the order."""
        for position in self._granted:
            option = int(self._option[position])
            if position not in settled and self._has(position, option) and table.options.milligpus[option] >= MILLI:
                self._behind[state.jobs.desired[self._jobs[position]]] = True

    def run(self) -> Places:
        for position, (option, gpus) in self._settled.items():
            if self._option[position] < 0:
                self._left[self._table.options.pool[option]] -= self._table.options.milligpus[option]
            self._take(position, option, gpus)
            self._gpus[position] = gpus
        for number, position in enumerate(self._granted):
            if position in self._settled:
                continue
            option = int(self._option[position])
            if self._takes_fraction(position) or self._stays(position, option) or self._starts(position, option):
                continue
            self._give_up(position, option)
            if self._otherwise(position) or not self._blocking:
                continue
            for later in self._granted[number + 1 :]:
                if not self._takes_fraction(later) and not self._stays(later, int(self._option[later])):
                    self._give_up(later, int(self._option[later]))
            break
        if self._refused:
            self._go_on()
        for split in self._split:
            self._place_fractions(split)
        order = np.array(self._order, dtype=np.int64)
        waiting = {int(kind) for kind in self._table.kind[self._option < 0]}
        fragmented = tuple(sorted({kind for kind, _ in self._refused} & waiting))
        return Places(Grants(order, self._option, self._left, split=self._split), self._gpus, fragmented, self._classes)

    def _takes_fraction(self, position: int) -> bool:
        """Defer a job that takes a fraction of a GPU: it cannot be scattered, so it is placed after all gangs."""
        if self._table.options.milligpus[self._option[position]] >= MILLI:
            return False
        self._order.append(position)
        return True

    def _place_fractions(self, split: SplitGpu) -> None:
        """Place jobs that take fractions of one GPU: on the GPU that some of them have, or on one that the placer picks."""
        state, gpus = self._state, np.array([split.gpu], dtype=np.int64)
        if split.gpu < 0:
            job = self._jobs[split.members[0]]
            request = request_for(state, job, split.pool, 1, state.jobs.table.move_seconds.item(state.jobs.row[job]))
            room = self._view.available & (state.nodes.cluster.gpu_pool == split.pool)
            if self._access is not None:
                mine = room & (self._access.gpu_class == split.gpu_class)
                room = mine if mine.any() else room & self._access.mask(job)
                if not room.any():
                    self._wait(split)
                    return
            gpus = self._ask(request, room)
            self._view.available[gpus] = False
        for position in split.members:
            if self._table.current_gpu(position, int(self._option[position])) != gpus.item(0):
                self._gpus[position] = gpus

    def _wait(self, split: SplitGpu) -> None:
        """Let jobs that would take fractions of one GPU wait: there is none for them."""
        for position in split.members:
            self._order.remove(position)
            self._option[position] = -1
        split.members.clear()

    def _has(self, position: int, option: int) -> bool:
        return self._table.granted_option.item(position) == option

    def _stays(self, position: int, option: int) -> bool:
        """Keep the GPUs that a job has by this option, unless a job before it took them."""
        if not self._has(position, option):
            return False
        gpus = self._state.jobs.desired[self._jobs[position]]
        self._behind[gpus] = False
        if not self._view.available[gpus].all():
            return False
        if self._access is not None and not self._access.may_keep(self._jobs[position]):
            return False
        self._take(position, option, gpus)
        return True

    def _starts(self, position: int, option: int) -> bool:
        """Take a place for a job if there is one. A place that displaces no job comes first."""
        key = (self._table.kind.item(position), option)
        if key in self._refused and self._access is None:
            return False
        state, job = self._state, self._jobs[position]
        pool, need = int(state.beliefs.options.pool[option]), int(state.beliefs.options.gpus[option])
        request = request_for(state, job, pool, need, state.jobs.table.move_seconds.item(state.jobs.row[job]))
        hint = list(self._hints.get(position, ()))
        for room in self._rooms(position):
            if hint and room[hint].all():
                gpus: Ints | None = np.array(sorted(hint), dtype=np.int64)
            else:
                gpus = self._place(request, room & (state.nodes.cluster.gpu_pool == pool))
            if gpus is not None:
                self._take(position, option, gpus)
                self._gpus[position] = gpus
                return True
        self._refused.add(key)
        return False

    def _rooms(self, position: int) -> Iterator[Bools]:
        """Yield the GPUs among which a job looks for a place, one after the other."""
        if self._access is None:
            yield self._view.available & ~self._behind
            yield self._view.available
            return
        may = self._access.mask(self._jobs[position])
        mine = may & np.isin(self._access.gpu_class, list(self._classes.get(position, ())))
        for mask in (mine, may):
            yield self._view.available & ~self._behind & mask
            yield self._view.available & mask

    def _place(self, request: PlacementRequest, room: Bools) -> Ints | None:
        """GPUs that the placer picks. None: too few are free, or the placer would keep them together and cannot. If it could, it
        may still prefer others."""
        if int(room.sum()) < request.gpus:
            return None
        if not self._placer.keeps_together(request):
            return self._ask(request, room)
        state, fewest = self._state, self._state.fewest_nodes(request.pool, request.gpus)
        nodes = _whole(state.nodes.cluster.count_by_node(room), request.gpus, fewest)
        if nodes is None:
            return None
        gpus = self._ask(request, room)
        if len(state.nodes.nodes_of(gpus)) <= fewest:
            return gpus
        together = self._ask(request, room & np.isin(state.nodes.cluster.gpu_node, nodes))
        return together if len(state.nodes.nodes_of(together)) <= fewest else gpus

    def _ask(self, request: PlacementRequest, room: Bools) -> Ints:
        before = self._view.available
        self._view.available = room.copy()
        (gpus,) = self._placer.place(self._view, [request])
        self._view.available = before
        return gpus

    def _take(self, position: int, option: int, gpus: Ints) -> None:
        self._view.available[gpus] = False
        if self.limits is not None and self._option[position] < 0:
            self.limits.take(self._jobs[position], self._table.options.milligpus.item(option))
        self._option[position] = option
        self._order.append(position)

    def _give_up(self, position: int, option: int) -> None:
        if self.limits is not None:
            self.limits.give_back(self._jobs[position], self._table.options.milligpus.item(option))
        self._left[self._state.beliefs.options.pool[option]] += self._state.beliefs.options.milligpus[option]
        self._option[position] = -1

    def _otherwise(self, position: int) -> bool:
        """Whether a job finds a place by another of its options."""
        for option in self._way[self._position == position].tolist():
            if self._fits(position, option) and self._starts(position, option):
                self._left[self._state.beliefs.options.pool[option]] -= self._state.beliefs.options.milligpus[option]
                return True
        return False

    def _fits(self, position: int, option: int) -> bool:
        if self.limits is not None and not self.limits.fits(self._jobs[position], self._table.options.milligpus.item(option)):
            return False
        return bool(self._state.beliefs.options.milligpus[option] <= self._left[self._state.beliefs.options.pool[option]])

    def _go_on(self) -> None:
        """Grant what is left to the jobs behind, first to jobs that hold it already and would be suspended for nothing."""
        options, table = self._table.options, self._table
        pool, need, kind = options.pool[self._way], options.milligpus[self._way], table.kind[self._position]
        has = table.granted_option[self._position] == self._way
        for at in (has & (need >= MILLI) & (self._option[self._position] < 0)).nonzero()[0].tolist():
            position, option = int(self._position[at]), int(self._way[at])
            if self._option[position] < 0 and self._fits(position, option) and self._stays(position, option):
                self._left[pool[at]] -= need[at]
        if self._blocking or self._reserve:
            return
        open_to = ~has & (need >= MILLI)
        while True:
            open_to &= (self._option[self._position] < 0) & (need <= self._left[pool])
            waiting = open_to.nonzero()[0]
            if not len(waiting):
                return
            at = int(waiting[0])
            if self.limits is not None and not self._fits(int(self._position[at]), int(self._way[at])):
                open_to[at] = False
                continue
            if self._starts(int(self._position[at]), int(self._way[at])):
                self._left[pool[at]] -= need[at]
            else:  # and with it all that are like it
                open_to &= (kind != kind[at]) | (self._way != self._way[at])


def _whole(room: Ints, gpus: int, nodes: int) -> Ints | None:
    """Nodes among which a gang finds a place on this many nodes. None: there are none."""
    if nodes == 1:
        found: Ints = (room >= gpus).nonzero()[0]
        return found if len(found) else None
    emptiest = np.argsort(-room, kind="stable")[:nodes]
    return emptiest if int(room[emptiest].sum()) >= gpus else None
