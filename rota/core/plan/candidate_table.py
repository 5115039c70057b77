"""The candidate table: what the mechanism knows of the jobs that an answer speaks of."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import TypeVar

import numpy as np

from rota.core.plan.pinned import protected, starts_cost
from rota.core.settings import Settings
from rota.core.state.state import State
from rota.model.lazy import lazy
from rota.model.options import Options
from rota.model.units import FOREVER, MILLI, Bools, Floats, Ints
from rota.model.view import keyed_rng

T = TypeVar("T")

NONE: AbstractSet[int] = frozenset()

SLOWED = 0.01
"""Relative loss of speed below which a job does not count as slowed."""


class CandidateTable:
    """What the mechanism knows of the jobs of an answer, one entry per position, gathered when asked."""

    def __init__(self, state: State, rows: Ints, settings: Settings) -> None:
        self._state = state
        self._settings = settings
        self.rows = rows
        self.options: Options = state.beliefs.options
        self.starts_cost = starts_cost(state)
        """Whether starting a job costs anything, so that jobs can be protected."""
        self.alive: Bools | None = None
        """Which of the jobs may be scheduled; None: all."""
        self.kept_gpus: AbstractSet[int] = NONE
        """GPUs of jobs that are not part of the answer, which keep them."""

    @property
    def moves_are_free(self) -> bool:
        """Whether nothing is gained by fewer moves, or the selection rules do not count them."""
        return not (self._state.beliefs.costs.move_seconds and self._settings.selection.saves_moves)

    @property
    def upgrades(self) -> bool:
        """Whether a job that no other may suspend may still move to faster GPUs."""
        return self._settings.selection.upgrades

    @property
    def types_stay(self) -> bool:
        """Whether an answer that is blind to types moves no job to another type while all jobs have GPUs."""
        return self._settings.selection.types_stay

    @property
    def horizon_seconds(self) -> float:
        """Time within which a move must pay for itself, in seconds."""
        return self._settings.horizon_seconds

    @property
    def slice_seconds(self) -> float:
        """Length of a turn, in seconds."""
        return self._settings.decide.turn_seconds

    def current_gpu(self, position: int, option: int) -> int:
        """The GPU that a job has a part of by this option, and may keep; -1: none."""
        if self.granted_option.item(position) != option:
            return -1
        gpu: int = self._state.jobs.desired[self._state.jobs.table.id.item(self.rows[position])].item(0)
        return gpu if self._state.usable()[0][gpu] else -1

    def room_at(self, gpu: int) -> int:
        """Thousandths of a GPU that jobs of this table may have: all but what jobs keep that the answer knows nothing of."""
        if gpu not in self.kept_gpus:
            return MILLI
        mine = set(self._state.jobs.table.id[self.rows if self.alive is None else self.rows[self.alive]].tolist())
        return MILLI - sum(size for job, size in self._state.nodes.planned.gpu_fractions.get(gpu, ()) if job not in mine)

    def kept_fractional_gpus(self) -> list[int]:
        """Kept GPUs of which jobs have parts only, in order: what is left of them is there for others."""
        state, usable = self._state, self._state.usable()[0]
        parts = {gpu: state.nodes.planned.gpu_fractions.get(gpu, ()) for gpu in sorted(self.kept_gpus)}
        return [
            gpu for gpu, held in parts.items() if held and usable[gpu] and all(state.jobs.specs[job].gpus < 1 for job, _ in held)
        ]

    def __len__(self) -> int:
        return len(self.rows)

    @lazy
    def running(self) -> Bools:
        """Whether the processes of each job are known to run."""
        return self._state.jobs.table.gpus_in_use[self.rows] > 0

    @lazy
    def kind(self) -> Ints:
        return self._state.jobs.table.kind[self.rows]

    @lazy
    def granted_option(self) -> Ints:
        """The option each job was last granted, -1: none."""
        return self._state.jobs.table.option[self.rows]

    @property
    def gpu_pool(self) -> Ints:
        """The pool of each GPU of the cluster."""
        return self._state.nodes.cluster.gpu_pool

    @lazy
    def move_seconds(self) -> Floats:
        """The price of moving: what stopping here and starting elsewhere would cost each job."""
        return self._state.jobs.table.move_seconds[self.rows]

    @lazy
    def priority(self) -> Ints:
        return self._state.jobs.table.priority[self.rows].astype(np.int64)

    @lazy
    def protected(self) -> Bools:
        """Jobs that keep what they have because they were started a short while ago (`pinned.py`)."""
        return protected(self._state, self.rows) if self.starts_cost else np.zeros(len(self.rows), dtype=bool)

    @lazy
    def resize_seconds(self) -> Floats:
        """The price of another size on the same nodes; infinite: the job has to be stopped for that."""
        return self._state.jobs.table.resize_seconds[self.rows]

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
        """Time each job got by each option of its kind since the shares in force were answered: shape (jobs, accounts)."""
        return self._state.received_seconds(self.rows, self._since)

    @lazy
    def deficit_seconds(self) -> Floats:
        """Time each job was owed, by account, when they were answered: what earlier shares promised less what it got."""
        return self._state.jobs.table.deficit[self.rows]

    @lazy
    def had_seconds(self) -> Floats:
        """What each job got, less what earlier shares still owe."""
        return self._settings.selection.had_seconds(self.received_seconds, self.deficit_seconds)

    @property
    def shares_seconds(self) -> float:
        """How long the shares in force have been so."""
        return self._state.now_s - self._state.cycle.shares_s

    def margin_seconds(self, share: Floats) -> Floats:
        """How much further behind another job must be to take the place of one that runs, given how much each should run. One
        that has never run need not wait for that."""
        share = np.where(self.never_ran, 1.0, share)
        return self._settings.selection.margin_seconds(self.move_seconds, share, self.horizon_seconds)

    @lazy
    def never_ran(self) -> Bools:
        return np.isnan(self._state.jobs.table.first_run_s[self.rows])

    @lazy
    def slowed(self) -> Bools:
        """Jobs that run slower than their option says, as their GPUs are far apart or slow: to stay there is not worth much."""
        usual = np.where(self.granted_option >= 0, self.options.rate[self.granted_option], 0.0)
        return self.running & (self._state.jobs.table.rate[self.rows] < usual * (1 - SLOWED))

    @property
    def rounds_are_slices(self) -> bool:
        """Whether every slice is over when the next decision is made."""
        return not self._settings.decide.at_events

    @lazy
    def slice_left_seconds(self) -> Floats:
        """How long each granted job keeps its GPUs in this slice."""
        table, rows = self._state.jobs.table, self.rows
        begun_s = table.slice_start_s[rows]
        begun_s = np.where(begun_s < FOREVER, begun_s, table.phase_s[rows])  # one that is starting has a whole slice before it
        return self.slice_seconds - np.where(table.option[rows] >= 0, self._state.now_s - begun_s, FOREVER)

    def memoised(self, owner: object, make: Callable[["CandidateTable"], T]) -> T:
        """What `make` answers for this table, made once as long as the answer and the options are the same."""
        return self._state.cycle.memoised(owner, self.options, lambda: make(self))

    def pool_order(self, type_agnostic: bool) -> Ints:
        """Rank of each pool in the order they are filled: fastest type first, or in a random order, new each time."""
        state = self._state
        if type_agnostic:
            return keyed_rng(self._settings.seed, state.cycle.plans, 5).random(len(state.nodes.cluster.pools)).argsort().argsort()
        return state.beliefs.pool_rank(state.nodes.cluster)

    @lazy
    def _since(self) -> Floats:
        table, rows = self._state.jobs.table, self.rows
        return np.where(table.gpus_in_use[rows] > 0, self._state.now_s - table.as_of_s[rows], 0.0)
