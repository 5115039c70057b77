"""Places: jobs that would rather wait than be scattered. An option of the mechanism (`wait_for_place`): placers make nobody wait.

Those who are granted GPUs take their places in the order of the policy: the placer says which GPUs, and if it wants them close
together and they lie on more nodes than they must, the job waits for now. What it would have had goes to those behind it, unless
nobody may overtake. Running jobs keep their places, but for a job that comes before them and has no other.
"""

from dataclasses import dataclass, field

import numpy as np

from rota.core import units
from rota.core.ledger import Ledger
from rota.core.mechanism import Grants, Table
from rota.core.settings import Settings
from rota.model.allocation import Candidates
from rota.model.floor import Floor, Placer, Request
from rota.model.units import MILLI, Bools, Ints


@dataclass(eq=False)
class Places:
    """Who found a place, and who waits for one."""

    grants: Grants
    gpus: dict[int, Ints] = field(default_factory=dict)
    """Position -> GPUs, of those who are to start."""
    fragmented: tuple[int, ...] = ()
    """Jobs that GPUs enough are free for, but not together."""


def find_places(
    state: Ledger, settings: Settings, placer: Placer, candidates: Candidates, table: Table, grants: Grants
) -> Places:
    """Grants with the places they need. Where one finds none, it is granted to those who come after it."""
    return _Search(state, settings, placer, table, grants).run(candidates)


class _Search:
    def __init__(self, state: Ledger, settings: Settings, placer: Placer, table: Table, grants: Grants) -> None:
        self._state, self._placer, self._table = state, placer, table
        self._option, self._left = grants.option.copy(), grants.left.copy()
        self._jobs: list[int] = state.jobs.id[table.rows].tolist()
        self._order: list[int] = []
        self._gpus: dict[int, Ints] = {}
        self._fragmented: list[int] = []
        self._hopeless: set[tuple[int, int]] = set()
        """(pool, GPUs) that have no place together. Every place that is found makes fewer, so they get none later either."""
        usable, _ = state.usable()
        free = usable & units.released(state, [job for job in self._jobs if job in state.desired])
        self._floor = Floor(state.cluster, free, state.gpu_job < 0, settings.seed, state.decision, *units.scores(state))
        self._granted: list[int] = grants.position.tolist()
        self._behind = np.zeros(len(free), dtype=bool)
        """GPUs of running jobs whose turn is still to come."""
        for position in self._granted:
            if self._has(position, int(self._option[position])):
                self._behind[state.desired[self._jobs[position]]] = True

    def run(self, candidates: Candidates) -> Places:
        for number, position in enumerate(self._granted):
            option = int(self._option[position])
            if self._stays(position, option) or self._starts(position, option):
                continue
            self._give_up(position, option)
            if candidates.blocking:
                for later in self._granted[number + 1 :]:
                    if not self._stays(later, int(self._option[later])):
                        self._give_up(later, int(self._option[later]))
                break
        if self._fragmented:
            self._go_on(candidates, may_start=not (candidates.blocking or candidates.reserve))
        order = np.array(self._order, dtype=np.int64)
        return Places(Grants(order, self._option, self._left), self._gpus, tuple(self._fragmented))

    def _has(self, position: int, option: int) -> bool:
        return self._table.granted_option.item(position) == option

    def _stays(self, position: int, option: int) -> bool:
        """It has GPUs by this option, and nobody before it took them: it keeps them."""
        if not self._has(position, option):
            return False
        gpus = self._state.desired[self._jobs[position]]
        self._behind[gpus] = False
        if not self._floor.available[gpus].all():
            return False
        self._take(position, option, gpus)
        return True

    def _starts(self, position: int, option: int) -> bool:
        """Whether there is a place for it; then it has it. One that drives nobody away comes first."""
        state, job, cluster = self._state, self._jobs[position], self._state.cluster
        pool, need = int(state.options.pool[option]), int(state.options.milligpus[option]) // MILLI
        request = units.ask(state, job, pool, need, state.jobs.move_seconds.item(state.row[job]), ())
        close = self._placer.keeps_together(request)
        if not (close and (pool, need) in self._hopeless):
            for spared in (self._behind, None):
                gpus = self._place(request, spared)
                if gpus is not None and (not close or len(state.nodes_of(gpus)) <= cluster.fewest_nodes(pool, need)):
                    self._take(position, option, gpus)
                    self._gpus[position] = gpus
                    return True
            self._hopeless.add((pool, need))
        self._fragmented.append(job)
        return False

    def _place(self, request: Request, spared: Bools | None) -> Ints | None:
        """GPUs that the placer picks, without those that are spared; None: there are not so many."""
        before = self._floor.available
        room = before.copy() if spared is None else before & ~spared
        if int((room & (self._state.cluster.gpu_pool == request.pool)).sum()) < request.gpus:
            return None
        self._floor.available = room
        (gpus,) = self._placer.place(self._floor, [request])
        self._floor.available = before
        return gpus

    def _take(self, position: int, option: int, gpus: Ints) -> None:
        self._floor.available[gpus] = False
        self._option[position] = option
        self._order.append(position)

    def _give_up(self, position: int, option: int) -> None:
        self._left[self._state.options.pool[option]] += self._state.options.milligpus[option]
        self._option[position] = -1

    def _go_on(self, candidates: Candidates, may_start: bool) -> None:
        """What is left goes to those behind: first of all to who has it already and was to give it up in vain."""
        options, position = self._table.options, candidates.position
        option = options.best[self._table.kind[position]] if candidates.option is None else candidates.option
        refused = set(self._fragmented)
        waits = [each for each in zip(position.tolist(), option.tolist(), strict=True) if self._option[each[0]] < 0]
        for at, way in sorted(waits, key=lambda each: not self._has(*each)):
            pool, need = int(options.pool[way]), int(options.milligpus[way])
            if self._option[at] >= 0 or need > self._left[pool] or self._jobs[at] in refused:
                continue
            if self._stays(at, way) or (may_start and self._starts(at, way)):
                self._left[pool] -= need
                if self._left.max() < MILLI:
                    break
