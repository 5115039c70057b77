"""Candidates: the (job, option) pairs that an answer names, and what it may ask about its jobs to name them."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import TypeVar

import numpy as np

from rota.core.settings import Settings
from rota.core.state.records import NO_GPUS, Answer
from rota.core.state.state import State
from rota.model.allocation import Allocation, Candidates
from rota.model.lazy import lazy
from rota.model.options import Options
from rota.model.units import FOREVER, MILLI, Bools, Floats, Ints
from rota.model.view import keyed_rng

T = TypeVar("T")

NONE: AbstractSet[int] = frozenset()


class CandidateTable:
    """What an allocation may ask about its jobs (see `Candidacy`), gathered when asked."""

    def __init__(self, state: State, rows: Ints, settings: Settings) -> None:
        self._state = state
        self._settings = settings
        self.rows = rows
        self.upgrades = settings.upgrades
        self.types_stay = not settings.deficits_break_ties
        self.horizon_seconds = settings.horizon_seconds
        self.slice_seconds = settings.round_seconds or settings.slice_seconds
        self.kept_gpus: AbstractSet[int] = NONE
        """GPUs of jobs that the answer knows nothing of, which keep them."""

    def home(self, position: int, option: int) -> int:
        """The GPU that a job has a part of by this option, and may keep; -1: none."""
        if self.granted_option.item(position) != option:
            return -1
        gpu: int = self._state.jobs.desired[self._state.jobs.table.id.item(self.rows[position])].item(0)
        return gpu if self._state.usable()[0][gpu] else -1

    def room_at(self, gpu: int) -> int:
        """Thousandths of a GPU that jobs of this table may have: all but what jobs keep that the answer knows nothing of."""
        if gpu not in self.kept_gpus:
            return MILLI
        mine = set(self._state.jobs.table.id[self.rows].tolist())
        return MILLI - sum(size for job, size in self._state.machines.planned.parts.get(gpu, ()) if job not in mine)

    def __len__(self) -> int:
        return len(self.rows)

    @lazy
    def running(self) -> Bools:
        return self._state.jobs.table.using[self.rows] > 0

    @lazy
    def kind(self) -> Ints:
        return self._state.jobs.table.kind[self.rows]

    @lazy
    def granted_option(self) -> Ints:
        return self._state.jobs.table.option[self.rows]

    @property
    def options(self) -> Options:
        return self._state.knowledge.options

    @property
    def gpu_pool(self) -> Ints:
        return self._state.machines.cluster.gpu_pool

    @lazy
    def move_seconds(self) -> Floats:
        return self._state.jobs.table.move_seconds[self.rows]

    @lazy
    def steps_left(self) -> Floats:
        table, rows = self._state.jobs.table, self.rows
        done = table.steps_done[rows] + table.rate[rows] * self._since
        return np.maximum(table.steps_total[rows] - done, 0.0)

    @lazy
    def seconds_left(self) -> Floats:
        return self.steps_left / self._state.jobs.table.best_rate[self.rows]

    @lazy
    def received_seconds(self) -> Floats:
        table, rows = self._state.jobs.table, self.rows
        received = table.received[rows]
        received[np.arange(len(rows)), table.account[rows]] += self._since
        return received

    @lazy
    def deficit_seconds(self) -> Floats:
        return self._state.jobs.table.deficit[self.rows]

    @lazy
    def had_seconds(self) -> Floats:
        received = self.received_seconds
        if self._settings.deficits_break_ties:
            return received
        return received - self.deficit_seconds

    @lazy
    def slice_left_seconds(self) -> Floats:
        table, rows = self._state.jobs.table, self.rows
        if not self._settings.at_events:
            return np.zeros(len(rows))  # rounds are slices
        begun_s = table.slice_s[rows]
        begun_s = np.where(begun_s < FOREVER, begun_s, table.phase_s[rows])  # one that is starting has a whole slice before it
        return self.slice_seconds - np.where(table.option[rows] >= 0, self._state.now_s - begun_s, FOREVER)

    def memoised(self, owner: object, make: Callable[["CandidateTable"], T]) -> T:
        return self._state.question.memoised(owner, self.options, lambda: make(self))

    def pool_order(self, blind: bool) -> Ints:
        state = self._state
        if blind:
            return (
                keyed_rng(self._settings.seed, state.question.plans, 5)
                .random(len(state.machines.cluster.pools))
                .argsort()
                .argsort()
            )
        return state.knowledge.pool_rank(state.machines.cluster)

    @lazy
    def _since(self) -> Floats:
        table, rows = self._state.jobs.table, self.rows
        return np.where(table.using[rows] > 0, self._state.now_s - table.as_of_s[rows], 0.0)


def list_candidates(
    state: State, settings: Settings, allocation: Allocation, table: CandidateTable, alive: Bools | None
) -> tuple[Candidates, Ints]:
    """Who may run by which option, best first, and the GPUs of each pool that are there for them."""
    _, capacity = state.usable()
    candidates = allocation.candidates(table)
    if alive is not None:
        spoken_of = np.zeros(state.jobs.table.size, dtype=bool)
        spoken_of[table.rows[alive]] = True
        kept = _kept_gpus(state, state.jobs.rows[~spoken_of[state.jobs.rows]])
        capacity = capacity - np.bincount(state.machines.cluster.gpu_pool[kept], minlength=len(capacity))
        table.kept_gpus = set(kept.tolist())
        candidates = _with_alone(_living(candidates, alive), state.knowledge.options)
    if settings.steady and not state.question.fresh and not allocation.reusable:
        candidates = _going_on(candidates, table)
    if not settings.backfill:
        candidates.blocking = True
    return candidates, capacity


def jobs_of(state: State, answer: Answer) -> tuple[Ints, Bools | None]:
    """Rows of the jobs an answer speaks of, and which may still be scheduled (None: all, and there are no others)."""
    if state.jobs.version == answer.version:
        return state.jobs.rows, None
    known = state.jobs.table.id[: state.jobs.table.size]
    if not len(known):
        return np.zeros(len(answer.ids), dtype=np.int64), np.zeros(len(answer.ids), dtype=bool)
    found = np.minimum(known.searchsorted(answer.ids), len(known) - 1)
    return found, (known[found] == answer.ids) & state.jobs.table.schedulable[found]


def _kept_gpus(state: State, rows: Ints) -> Ints:
    """GPUs promised to jobs the answer knows nothing of: they keep what they have until the next answer."""
    granted = [state.jobs.desired[job] for job in state.jobs.table.id[rows[state.jobs.table.option[rows] >= 0]].tolist()]
    return np.unique(np.concatenate(granted)) if granted else NO_GPUS


def _going_on(candidates: Candidates, table: CandidateTable) -> Candidates:
    """Only those who run by the option they run by. Who has lost its partner runs alone, and goes on so."""
    option = table.options.best[table.kind[candidates.position]] if candidates.option is None else candidates.option
    granted = table.granted_option[candidates.position]
    stays = granted == option
    if table.options.shared:
        stays |= (granted >= 0) & (granted == table.options.alone[option])
    return Candidates(candidates.position[stays], granted[stays])


def _living(candidates: Candidates, alive: Bools) -> Candidates:
    stays = alive[candidates.position]
    option = None if candidates.option is None else candidates.option[stays]
    return Candidates(candidates.position[stays], option, candidates.blocking, candidates.reserve)


def _with_alone(candidates: Candidates, options: Options) -> Candidates:
    """Whose partner is no longer there may run alone, once all others had their turn."""
    option = candidates.option
    if option is None or not options.shared:
        return candidates
    shared = options.partner_kind[option] >= 0
    position = np.concatenate((candidates.position, candidates.position[shared]))
    option = np.concatenate((option, options.alone[option[shared]]))
    return Candidates(position, option, candidates.blocking, candidates.reserve)
