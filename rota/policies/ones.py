"""ONES (Bian et al., SC'21): elastic batch sizes, chosen by an online evolutionary search."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rota.errors import OptionError
from rota.model.allocation import Assignment
from rota.model.needs import Needs
from rota.model.units import FOREVER, Bools, Floats, Ints
from rota.model.view import View
from rota.policies.checks import check_interval
from rota.policies.evolution import IDLE, Genes, Problem, Score, generation
from rota.solver.size_table import BatchRule, SizeTable


@dataclass(frozen=True, slots=True, eq=False)
class OnesMemory:
    """Memory of the policy: the population, and facts about each job."""

    rows: Ints
    """Population: for each schedule, the job on each GPU of the cluster; -1 if none."""
    ids: Ints
    """Jobs, sorted. The columns below follow their order."""
    most: Ints
    """GPUs that a job may hold. The number doubles each time that the job has them all."""
    resume: Ints
    """GPUs that a job may hold when it resumes. The number halves each time that the job is left out."""
    since_epoch: Floats
    """Epochs that a job had done when it was last started or resized."""


@dataclass(frozen=True)
class Ones:
    """Chooses the schedule with the largest sum of speed-ups, where jobs with little left count most. A job begins with few GPUs,
    and may hold twice as many each time that it has them all. A running job is changed at most once per epoch."""

    population: int = 16
    """Number of schedules that are kept from one generation to the next."""
    generations: int = 8
    """Number of generations per decision."""
    interval_seconds: float = 30.0
    """Longest time between two decisions, in seconds."""
    exchange: float = 0.5
    """Probability that a gene of two parents is exchanged."""
    evict: float = 0.3
    """Probability that a mutation stops a job."""
    epochs_before: float = 0.0
    """Epochs that a job trains before it may be predicted, stopped or grown."""
    epochs_between: float = 1.0
    """Minimum number of epochs between two changes of a running job."""
    first_gpus: int = 4
    """GPUs that a job may hold at first."""
    favour: float = 0.2
    """How strongly jobs with little left are favoured; 0 for not at all."""
    draws: bool = False
    """Draw the steps left from the predicted distribution in each generation, instead of using its mean."""
    score: Score = "speed-ups"
    """What to optimise: speed-ups, or gpu-seconds (the GPU time that the jobs of a schedule have left, as in the paper)."""
    batch: BatchRule = "best"
    """Batch size of each job: best (the fastest that it accepts), largest (keeps the requested examples per GPU, as in the paper)
    or asked (stays as requested)."""
    needs: ClassVar[Needs] = Needs(predictions=True, elastic_jobs=True, tactics="defragment,migrate")
    """The tactics replace the paper's order of genes: they reunite jobs whose GPUs are on several nodes."""

    def __post_init__(self) -> None:
        for names, least, most, problem in (
            (("population", "generations", "first_gpus"), 1, FOREVER, "must be 1 or more."),
            (("exchange", "evict"), 0, 1, "must be from 0 to 1."),
            (("epochs_before", "epochs_between", "favour"), 0, FOREVER, "must be 0 or more."),
        ):
            for name in names:
                value = getattr(self, name)
                if not least <= value <= most or value == FOREVER:
                    raise OptionError(problem, field=f"ones {name}", value=value, hint=f"ones:{name}={least}")
        check_interval("ones", self.interval_seconds)

    def allocate(self, view: View) -> Assignment:
        kinds, kind = np.unique(view.jobs.kind, return_inverse=True)
        table = SizeTable.of(view.options, kinds, len(view.capacity), self.batch)
        state = _State.of(view, table, kind, self.epochs_before, self.first_gpus)
        rng = view.rng()
        rows, chosen = state.parents(view, self.population, rng), Genes(state.gpus[None], state.pool[None])
        problem = state.problem(view, self.epochs_between, self.favour)
        for _ in range(self.generations):
            rows, chosen, _ = generation(
                problem, rows, state.steps_left(view, rng, self.draws), rng, self.exchange, self.evict, self.score
            )
        wanted = np.where(chosen.gpus[0] > 0, table.option[kind, chosen.pool[0], chosen.gpus[0]], -1)
        option = state.deploy(wanted, problem.pinned)
        runs = np.concatenate([((option >= 0) & mine).nonzero()[0] for mine in (state.granted, ~state.granted)])
        return Assignment(
            position=runs,
            option=option[runs],
            until_s=view.now_s + self.interval_seconds,
            memory=state.memory(view, rows),
            memory_in_snapshots=True,
            key="speed-ups" if self.score == "speed-ups" else "GPU time left",
        )


@dataclass(slots=True, eq=False)
class _State:
    """Jobs of a view, by position."""

    granted: Bools
    gpus: Ints
    """GPUs that each job has now."""
    pool: Ints
    option: Ints
    epochs: Floats
    since_epoch: Floats
    most: Ints
    resume: Ints
    limit: Ints
    executed: Bools
    floor: Ints
    rate: Floats

    @classmethod
    def of(cls, view: View, table: SizeTable, kind: Ints, epochs_before: float, first_gpus: int) -> "_State":
        jobs, options = view.jobs, view.options
        count, memory = len(jobs), view.memory
        seen = view.predictions
        epochs = seen.epochs if seen is not None else jobs.run_seconds / 60.0
        granted = jobs.granted
        option = np.where(granted, jobs.option, -1)
        gpus = np.where(granted, options.gpus[option], 0)
        pool = np.where(granted, options.pool[option], 0)
        most, resume, since_epoch = np.full(count, first_gpus), np.full(count, first_gpus), np.zeros(count)
        if memory is not None and len(memory.ids):
            at = memory.ids.searchsorted(jobs.ids).clip(max=len(memory.ids) - 1)
            known = memory.ids[at] == jobs.ids
            most[known], resume[known] = memory.most[at[known]], memory.resume[at[known]]
            since_epoch[known] = memory.since_epoch[at[known]]
        sizes = table.option[kind] >= 0
        floor = np.maximum.accumulate(np.where(sizes, np.arange(sizes.shape[2]), 0), axis=2)
        largest = floor.max(axis=(1, 2))
        executed = epochs >= epochs_before
        capacity = int(view.capacity.max(initial=1))
        most = np.maximum(most, gpus)
        grows = granted & executed & (gpus >= most)
        most = np.where(grows, np.minimum(2 * most, capacity), most)
        limit = np.where(granted, np.where(executed, np.minimum(most, largest), gpus), np.where(executed, resume, 0))
        state = cls(granted, gpus, pool, option, epochs, since_epoch, most, resume, limit, executed, floor, table.rate[kind])
        state._scale_down(view, capacity)
        return state

    def _scale_down(self, view: View, capacity: int) -> None:
        """Take some GPUs from the largest job, if it has half of all GPUs and has run longer than most."""
        may = self.granted & self.executed
        if not may.any():
            return
        largest = int(np.where(may, self.gpus, -1).argmax())
        if self.gpus[largest] < capacity // 2:
            return
        ran = view.jobs.run_seconds
        median = float(np.median(ran[ran > 0])) if (ran > 0).any() else 0.0
        if self.gpus[largest] > 1 and median > 0 and ran[largest] > median:
            fewer = max(int(2 * self.gpus[largest] / (ran[largest] / median + 1)), 1)
            self.limit[largest] = min(fewer + fewer % 2, self.gpus[largest]) if fewer > 1 else fewer

    def problem(self, view: View, epochs_between: float, favour: float) -> Problem:
        usable = _usable(view)
        return Problem.of(
            view.capacity,
            view.cluster.gpu_pool[usable],
            self.floor,
            self.rate,
            self.limit,
            np.maximum(self.most, self.limit) * (self.limit > 0),
            self.executed,
            self.granted & (self.epochs - self.since_epoch < epochs_between),
            Genes(self.gpus[None], self.pool[None]),
            np.lexsort((view.jobs.ids, self.pool, ~self.granted)),
            view.jobs.move_seconds,
            favour,
        )

    def parents(self, view: View, population: int, rng: np.random.Generator) -> Ints:
        """Return the last population without jobs that have ended, or random orders of the present jobs if there is none."""
        usable = _usable(view)
        memory = view.memory
        if memory is None or memory.rows.shape[1] != len(usable) or len(memory.rows) != population:
            found = np.full((population, int(usable.sum())), IDLE, dtype=np.int64)
            for row in found:
                some = rng.permutation(len(self.gpus))[: len(row)]
                row[: len(some)] = some
            return found
        rows = memory.rows[:, usable]
        ids = view.jobs.ids
        at = ids.searchsorted(rows).clip(max=max(len(ids) - 1, 0))
        return np.where(ids[at] == rows, at, IDLE) if len(ids) else np.full_like(rows, IDLE)

    def steps_left(self, view: View, rng: np.random.Generator, draws: bool) -> Floats:
        """Estimated steps that each job has left."""
        if view.predictions is not None:
            return view.predictions.drawn_left(rng) if draws else view.predictions.steps_left
        return np.where(np.isfinite(view.jobs.steps_left), view.jobs.steps_left, 1.0)

    def deploy(self, option: Ints, pinned: Bools) -> Ints:
        """Return the option of each job; -1 if none. A pinned job keeps its own. A waiting job that is left out again may hold
        half as many GPUs when it resumes. A stopped job may hold as many as before."""
        option = np.where(pinned, self.option, option)
        if (option != self.option).any():
            left_out = ~self.granted & (option < 0) & self.executed
            self.resume = np.where(left_out, np.maximum(self.resume // 2, 1), self.resume)
            self.most = np.where(left_out, self.resume, self.most)
            self.resume = np.where(self.granted & (option < 0), self.most, self.resume)
        self.since_epoch = np.where((option >= 0) & (option != self.option), self.epochs, self.since_epoch)
        return option

    def memory(self, view: View, rows: Ints) -> OnesMemory:
        usable = _usable(view)
        ids = view.jobs.ids
        whole = np.full((len(rows), len(usable)), IDLE, dtype=np.int64)
        whole[:, usable] = np.where(rows >= 0, ids[rows], IDLE) if len(ids) else IDLE
        return OnesMemory(whole, ids, self.most, self.resume, self.since_epoch)


def _usable(view: View) -> Bools:
    return view.usable if view.usable is not None else np.ones(view.cluster.gpus, dtype=bool)
