"""Goodput (in the spirit of Pollux, OSDI'21, and Sia, SOSP'23): elastic jobs get the sizes, accelerator types and batch sizes
with which all jobs together train fastest. Each job is measured against its slowest size."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rota.model.allocation import Assignment
from rota.model.needs import Needs
from rota.model.view import View
from rota.policies.checks import check_interval
from rota.solver.knapsack import choose
from rota.solver.size_table import BatchRule, SizeTable

RUNS = 2.0
"""A size is worth `2 - (goodput / slowest goodput) ** -fairness`: 1 for the slowest, and less than 2 for the fastest. No speed-up
of a job is therefore worth more than running another job. (Sia uses 1.1 here: jobs wait for the speed-ups of others.)"""
MIN_WORTH = 0.01
"""Minimum worth of an option. A change is worth at least this, since stopping the job would cost as much."""


@dataclass(frozen=True)
class Goodput:
    """Each job gets the size with which all jobs together train fastest, measured against their slowest sizes. The first GPUs of
    a job are worth most, and the cost of changing sizes counts."""

    interval_seconds: float = 60.0
    """Longest time between two choices of sizes, in seconds."""
    fairness: float = 0.5
    """How soon a job has enough GPUs. The larger, the less its speed-ups are worth."""
    batch: BatchRule = "best"
    """Which of the batch sizes that a job accepts to use: best, largest or asked."""
    needs: ClassVar[Needs] = Needs(elastic_jobs=True)

    def __post_init__(self) -> None:
        check_interval("goodput", self.interval_seconds)

    def allocate(self, view: View) -> Assignment:
        jobs, options = view.jobs, view.options
        kinds, kind = np.unique(jobs.kind, return_inverse=True)
        table = SizeTable.of(options, kinds, len(view.capacity), self.batch)
        at, pool, gpus = (table.option[kind] >= 0).nonzero()
        fits = gpus <= view.capacity[pool]
        at, pool, gpus = at[fits], pool[fits], gpus[fits]
        option, rate = table.option[kind[at], pool, gpus], table.rate[kind[at], pool, gpus]
        slowest = np.full(len(jobs), np.inf)
        np.minimum.at(slowest, at, rate)
        # Fraction of its time that a job keeps if it pays for two moves: when it started, and now.
        ran = jobs.run_seconds
        kept = (ran + 1e-9) / (ran + 2 * jobs.move_seconds + 1e-9)
        better = rate / slowest[at]
        now = jobs.option[at]
        moves = jobs.granted[at] & ((options.pool[now] != pool) | (options.gpus[now] != gpus))
        better *= np.where(moves, kept[at], 1.0)
        value = np.maximum(RUNS - np.maximum(better, 1e-6) ** -self.fairness, MIN_WORTH)
        chosen = choose(at, pool, gpus, value * jobs.weight[at], view.capacity, len(jobs))
        runs = (chosen >= 0).nonzero()[0]
        until_s = view.now_s + self.interval_seconds
        return Assignment(position=runs, option=option[chosen[runs]], until_s=until_s, key="goodput")
