"""Goodput (in the spirit of Pollux, OSDI'21, and Sia, SOSP'23): elastic jobs get the sizes, types of GPUs and batch sizes at
which they all train fastest, each measured by its own slowest size."""

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
"""A size is worth `2 - (goodput / least goodput) ** -fairness`: 1 if it is the slowest, and less than 2 however fast it is. So no
speed-up of a job is worth more than that another runs at all. (Sia has 1.1 here: jobs wait for the speed-ups of others.)"""
LEAST = 0.01
"""A change is worth a little at least, for stopping the job would cost as much."""


@dataclass(frozen=True)
class Goodput:
    """Each job gets the size at which all of them train fastest, against their slowest sizes. The first GPUs of a job are worth
    most, and what a change of size costs counts."""

    interval_seconds: float = 60.0
    """Sizes are chosen anew at least so often."""
    fairness: float = 0.5
    """How soon a job has enough: the larger, the less its speed-ups are worth."""
    batch: BatchRule = "best"
    """Of the batch sizes that a job accepts on so many GPUs: best, largest or asked."""
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
        # The part of its time that a job keeps if it pays for a move twice: when it started, and now.
        ran = jobs.run_seconds
        kept = (ran + 1e-9) / (ran + 2 * jobs.move_seconds + 1e-9)
        better = rate / slowest[at]
        now = jobs.option[at]
        moves = jobs.granted[at] & ((options.pool[now] != pool) | (options.gpus[now] != gpus))
        better *= np.where(moves, kept[at], 1.0)
        value = np.maximum(RUNS - np.maximum(better, 1e-6) ** -self.fairness, LEAST)
        chosen = choose(at, pool, gpus, value * jobs.weight[at], view.capacity, len(jobs))
        runs = (chosen >= 0).nonzero()[0]
        until_s = view.now_s + self.interval_seconds
        return Assignment(position=runs, option=option[chosen[runs]], until_s=until_s, key="goodput")
