"""Gang search: jobs wait rather than be scattered (`wait_for_place`). The mechanism does this; a placer makes no job wait.

Those who are granted GPUs take their places in the order of the policy. One that the placer would keep together waits if there is
no place for it on as few nodes as it needs, as far as they are in service; what it would have had goes to those behind it, unless
nobody may overtake. Running jobs keep their places, but for a job that comes before them and has no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from rota.core.plan import pairing
from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.fill import Grants, SplitGpu
from rota.core.plan.order import Candidates
from rota.core.settings import Settings
from rota.core.state.state import State
from rota.model.placement_view import PlacementRequest, PlacementView, Placer
from rota.model.units import MILLI, Bools, Ints


@dataclass(eq=False)
class Places:
    """Who found a place, and who waits for one."""

    grants: Grants
    gpus: dict[int, Ints] = field(default_factory=dict)
    """Position -> GPUs, of those who are to start."""
    fragmented: tuple[int, ...] = ()
    """Kinds of jobs that GPUs enough are free for, but not together."""


class GangSearch:
    """Grants with the places they need. Where one finds none, it is granted to those who come after it."""

    def __init__(
        self,
        state: State,
        settings: Settings,
        placer: Placer,
        candidates: Candidates,
        table: CandidateTable,
        grants: Grants,
        alive: Bools | None,
        hints: Mapping[int, tuple[int, ...]],
        settled: Mapping[int, tuple[int, Ints]] = MappingProxyType({}),
    ) -> None:
        """`settled`: position -> option and GPUs, of those whose place is found already."""
        self._hints, self._settled = hints, settled
        self._state, self._placer, self._table = state, placer, table
        options, self._position = table.options, candidates.position
        self._way: Ints = options.best[table.kind[self._position]] if candidates.option is None else candidates.option
        self._blocking, self._reserve = candidates.blocking, candidates.reserve
        self._option, self._left = grants.option.copy(), grants.left.copy()
        self._jobs: list[int] = state.jobs.table.id[table.rows].tolist()
        self._order: list[int] = []
        self._gpus: dict[int, Ints] = {}
        self._refused: set[tuple[int, int]] = set()
        """(kind, option) of those who found no place. Every place that is found makes fewer, so none of them gets one later."""
        usable, _ = state.usable()
        living = range(len(self._jobs)) if alive is None else alive.nonzero()[0].tolist()
        free = usable & pairing.released(state, [self._jobs[at] for at in living if self._jobs[at] in state.jobs.desired])
        self._floor = PlacementView(
            state.machines.cluster,
            free,
            state.machines.observed.free,
            settings.seed,
            state.question.decision,
            *pairing.scores(state),
        )
        self._split = grants.split
        for split in self._split:
            if split.gpu >= 0:
                self._floor.available[split.gpu] = False
        self._granted: list[int] = grants.position.tolist()
        self._behind = np.zeros(len(free), dtype=bool)
        """GPUs of running jobs whose turn is still to come."""
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
            if self._takes_part(position) or self._stays(position, option) or self._starts(position, option):
                continue
            self._give_up(position, option)
            if self._otherwise(position) or not self._blocking:
                continue
            for later in self._granted[number + 1 :]:
                if not self._takes_part(later) and not self._stays(later, int(self._option[later])):
                    self._give_up(later, int(self._option[later]))
            break
        if self._refused:
            self._go_on()
        for split in self._split:
            self._place_parts(split)
        order = np.array(self._order, dtype=np.int64)
        waiting = {int(kind) for kind in self._table.kind[self._option < 0]}
        fragmented = tuple(sorted({kind for kind, _ in self._refused} & waiting))
        return Places(Grants(order, self._option, self._left, split=self._split), self._gpus, fragmented)

    def _takes_part(self, position: int) -> bool:
        """A part of a GPU is never scattered: those who take one are placed when all gangs are."""
        if self._table.options.milligpus[self._option[position]] >= MILLI:
            return False
        self._order.append(position)
        return True

    def _place_parts(self, split: SplitGpu) -> None:
        """Jobs that take parts of one GPU: where some of them have theirs already, or on one that the placer picks."""
        state, gpus = self._state, np.array([split.gpu], dtype=np.int64)
        if split.gpu < 0:
            job = self._jobs[split.members[0]]
            request = pairing.ask(state, job, split.pool, 1, state.jobs.table.move_seconds.item(state.jobs.row[job]))
            gpus = self._ask(request, self._floor.available & (state.machines.cluster.gpu_pool == split.pool))
            self._floor.available[gpus] = False
        for position in split.members:
            if self._table.current_gpu(position, int(self._option[position])) != gpus.item(0):
                self._gpus[position] = gpus

    def _has(self, position: int, option: int) -> bool:
        return self._table.granted_option.item(position) == option

    def _stays(self, position: int, option: int) -> bool:
        """It keeps the GPUs that it has by this option, unless a job before it took them."""
        if not self._has(position, option):
            return False
        gpus = self._state.jobs.desired[self._jobs[position]]
        self._behind[gpus] = False
        if not self._floor.available[gpus].all():
            return False
        self._take(position, option, gpus)
        return True

    def _starts(self, position: int, option: int) -> bool:
        """Take a place for it if there is one. A place that drives no job away comes first."""
        key = (self._table.kind.item(position), option)
        if key in self._refused:
            return False
        state, job = self._state, self._jobs[position]
        pool, need = int(state.knowledge.options.pool[option]), int(state.knowledge.options.gpus[option])
        request = pairing.ask(state, job, pool, need, state.jobs.table.move_seconds.item(state.jobs.row[job]))
        hint = list(self._hints.get(position, ()))
        for room in (self._floor.available & ~self._behind, self._floor.available):
            if hint and room[hint].all():
                gpus: Ints | None = np.array(sorted(hint), dtype=np.int64)
            else:
                gpus = self._place(request, room & (state.machines.cluster.gpu_pool == pool))
            if gpus is not None:
                self._take(position, option, gpus)
                self._gpus[position] = gpus
                return True
        self._refused.add(key)
        return False

    def _place(self, request: PlacementRequest, room: Bools) -> Ints | None:
        """GPUs that the placer picks. None: there are not so many, or it would keep them together and no such place is there. If
        one is, the placer may still have its reasons to take another."""
        if int(room.sum()) < request.gpus:
            return None
        if not self._placer.keeps_together(request):
            return self._ask(request, room)
        state, fewest = self._state, self._state.fewest_nodes(request.pool, request.gpus)
        nodes = _whole(state.machines.cluster.count_by_node(room), request.gpus, fewest)
        if nodes is None:
            return None
        gpus = self._ask(request, room)
        if len(state.machines.nodes_of(gpus)) <= fewest:
            return gpus
        together = self._ask(request, room & np.isin(state.machines.cluster.gpu_node, nodes))
        return together if len(state.machines.nodes_of(together)) <= fewest else gpus

    def _ask(self, request: PlacementRequest, room: Bools) -> Ints:
        before = self._floor.available
        self._floor.available = room.copy()
        (gpus,) = self._placer.place(self._floor, [request])
        self._floor.available = before
        return gpus

    def _take(self, position: int, option: int, gpus: Ints) -> None:
        self._floor.available[gpus] = False
        self._option[position] = option
        self._order.append(position)

    def _give_up(self, position: int, option: int) -> None:
        self._left[self._state.knowledge.options.pool[option]] += self._state.knowledge.options.milligpus[option]
        self._option[position] = -1

    def _otherwise(self, position: int) -> bool:
        """Whether it finds a place by another option that it may run by."""
        for option in self._way[self._position == position].tolist():
            if self._fits(option) and self._starts(position, option):
                self._left[self._state.knowledge.options.pool[option]] -= self._state.knowledge.options.milligpus[option]
                return True
        return False

    def _fits(self, option: int) -> bool:
        return bool(self._state.knowledge.options.milligpus[option] <= self._left[self._state.knowledge.options.pool[option]])

    def _go_on(self) -> None:
        """What is left goes to those behind, first to jobs that hold it already and would have been suspended for nothing."""
        options, table = self._table.options, self._table
        pool, need, kind = options.pool[self._way], options.milligpus[self._way], table.kind[self._position]
        has = table.granted_option[self._position] == self._way
        for at in (has & (need >= MILLI) & (self._option[self._position] < 0)).nonzero()[0].tolist():
            position, option = int(self._position[at]), int(self._way[at])
            if self._option[position] < 0 and self._fits(option) and self._stays(position, option):
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
            if self._starts(int(self._position[at]), int(self._way[at])):
                self._left[pool[at]] -= need[at]
            else:  # and with it all that are like it
                open_to &= (kind != kind[at]) | (self._way != self._way[at])


def _whole(room: Ints, gpus: int, nodes: int) -> Ints | None:
    """Nodes among which a gang finds a place on so few; None: there is none."""
    if nodes == 1:
        found: Ints = (room >= gpus).nonzero()[0]
        return found if len(found) else None
    emptiest = np.argsort(-room, kind="stable")[:nodes]
    return emptiest if int(room[emptiest].sum()) >= gpus else None
