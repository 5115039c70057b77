"""Optimus (Peng et al., EuroSys'18): every job gets a GPU, and each further GPU goes to the job that it saves most time."""

import heapq
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rota.model.allocation import Assignment
from rota.model.needs import Needs
from rota.model.units import Ints
from rota.model.view import View
from rota.policies.checks import check_interval
from rota.solver.size_table import BatchRule, SizeTable


@dataclass(frozen=True, slots=True, eq=False)
class OptimusMemory:
    """Memory of the policy: when sizes were last chosen."""

    chosen_s: float


@dataclass(frozen=True)
class Optimus:
    """Every job gets its smallest size, and each further GPU goes where it saves most time. Between two choices sizes stay, and a
    new job gets its smallest size if GPUs are free. Needs predictions of what jobs have left."""

    interval_seconds: float = 600.0
    """Time between two choices of sizes, in seconds."""
    batch: BatchRule = "requested"
    """Which of the batch sizes that a job accepts to use: best, largest or asked."""
    needs: ClassVar[Needs] = Needs(predictions=True, elastic_jobs=True)

    def __post_init__(self) -> None:
        check_interval("optimus", self.interval_seconds)

    def allocate(self, view: View) -> Assignment:
        jobs = view.jobs
        kinds, kind = np.unique(jobs.kind, return_inverse=True)
        table = SizeTable.of(view.options, kinds, len(view.capacity), self.batch)
        memory: OptimusMemory | None = view.memory
        due = memory is None or view.now_s >= memory.chosen_s + self.interval_seconds
        chosen_s = view.now_s if due or memory is None else memory.chosen_s
        free = view.capacity.copy()
        found = np.full(len(jobs), -1, dtype=np.int64)
        if not due:
            found[jobs.granted] = jobs.option[jobs.granted]
            taken = found[found >= 0]
            free -= np.bincount(view.options.pool[taken], view.options.gpus[taken], len(free)).astype(np.int64)
        self._smallest(view, table, kind, found, free)
        if due:
            self._grow(view, table, kind, found, free)
        runs = (found >= 0).nonzero()[0]
        memory, until_s = OptimusMemory(chosen_s), chosen_s + self.interval_seconds
        return Assignment(position=runs, option=found[runs], until_s=until_s, memory=memory, key="marginal gain")

    def _smallest(self, view: View, table: SizeTable, kind: Ints, found: Ints, free: Ints) -> None:
        """Give each job without GPUs its smallest size, in order of submission, in the pool where it is fastest."""
        for at in (found < 0).nonzero()[0].tolist():
            if free.max(initial=0) < 1:
                return
            sizes = (table.option[kind[at]] >= 0) & (np.arange(table.option.shape[2]) <= free[:, None])
            pools = sizes.any(axis=1).nonzero()[0].tolist()
            least = {pool: int(sizes[pool].argmax()) for pool in pools}
            best = max(pools, key=lambda pool: (table.rate[kind[at], pool, least[pool]] / least[pool], -pool), default=-1)
            if best >= 0:
                found[at] = table.option[kind[at], best, least[best]]
                free[best] -= least[best]

    def _grow(self, view: View, table: SizeTable, kind: Ints, found: Ints, free: Ints) -> None:
        """Repeatedly give a larger size to the job that gains most per GPU."""
        options, left = view.options, view.predictions.steps_left if view.predictions is not None else view.jobs.steps_left
        heap: list[tuple[float, int, int]] = []

        def offer(at: int) -> None:
            pool, now = options.pool.item(found[at]), options.gpus.item(found[at])
            rates = table.rate[kind[at], pool]
            sizes = (rates[now + 1 : now + free[pool] + 1] > rates[now]).nonzero()[0] + now + 1
            if len(sizes):
                steps = left.item(at) if np.isfinite(left.item(at)) else 1.0
                gains = (steps / rates[now] - steps / rates[sizes]) / (sizes - now)
                best = int(gains.argmax())
                heapq.heappush(heap, (-gains.item(best), at, int(sizes[best])))

        for at in (found >= 0).nonzero()[0].tolist():
            offer(at)
        while heap:
            _, at, size = heapq.heappop(heap)
            pool, now = options.pool.item(found[at]), options.gpus.item(found[at])
            if size - now <= free[pool]:
                free[pool] -= size - now
                found[at] = table.option[kind[at], pool, size]
            offer(at)  # a still larger size, or a smaller one if this no longer fits
