"""Max-min fairness over effective throughput: Gavel's LAS (section 4.1)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rota.model.allocation import Shares
from rota.model.needs import Needs
from rota.model.view import View
from rota.solver.effect import Effect
from rota.solver.filling import water_fill
from rota.solver.linear import least
from rota.solver.program import Program


@dataclass(frozen=True)
class MaxMinFairness:
    """The job that is worst off gets as much as possible, measured against a GPU of average type and divided by its weight."""

    type_aware: bool = True
    """Use how fast each job is on each type. If false, all types count the same."""
    colocation: bool = False
    """Let two jobs share GPUs if together they do more."""
    water_filling: bool = False
    """When the worst-off job cannot be helped further, continue with the others (lexicographic)."""
    face: Literal["centre", "vertex"] = "centre"
    """Which of the best answers to use: the centre of them, or a vertex that uses few options."""

    @property
    def needs(self) -> Needs:
        return Needs(colocation=self.colocation, several_types=not self.type_aware)

    def allocate(self, view: View) -> Shares:
        program = Program(view, type_aware=self.type_aware, colocation=self.colocation)
        level = program.rate * (program.gpus / program.average_type_rate)
        if self.water_filling:
            solution = water_fill(program, level, lambda _: program.weight)
        else:
            program.maximise(least(level / program.weight))
            solution = program.solve(self.face)
        return solution.shares(key="share")

    def objective(self, effect: Effect) -> float:
        """Smallest normalised throughput over weight."""
        jobs = effect.view.jobs
        return float((effect.rate * jobs.gpus / effect.average_type_rate / jobs.weight).min(initial=np.inf))
