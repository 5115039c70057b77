"""Goodput (in the spirit of Pollux, OSDI'21, and Sia, SOSP'23): elastic jobs get the sizes, types of GPUs and batch sizes at
which they all train fastest, each measured by its own slowest size."""

from dataclasses import dataclass

import numpy as np

from rota.model.allocation import Assignment
from rota.model.view import View
from rota.solver.knapsack import choose
from rota.solver.size_table import BatchRule, SizeTable, check_interval


@dataclass(frozen=True)
class Goodput:
    """Every job gets one size or waits. A size is worth `1.1 - (goodput / least goodput) ** -fairness`: the first GPUs of a job
    are worth most, and a job that runs at all is worth more than any other that runs faster. A job that would have to be stopped
    for another size counts as if that cost it the same part of its time again."""

    interval_seconds: float = 60.0
    fairness: float = 0.5
    batch: BatchRule = "best"

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
        ran = jobs.run_seconds
        kept = ran / (ran + 2 * jobs.move_seconds + 1e-9)
        better = rate / slowest[at]
        better *= np.where(jobs.granted[at] & (jobs.option[at] != option), kept[at], 1.0)
        value = 1.1 - np.maximum(better, 1e-6) ** -self.fairness
        chosen = choose(at, pool, gpus, value * jobs.weight[at], view.capacity, len(jobs))
        runs = (chosen >= 0).nonzero()[0]
        until_s = view.now_s + self.interval_seconds
        return Assignment(position=runs, option=option[chosen[runs]], until_s=until_s, key="goodput")
