"""Minimum makespan (Gavel, section 4.2): all jobs done as early as possible."""

from dataclasses import dataclass

import numpy as np

from rota.model.allocation import Shares
from rota.model.needs import Needs
from rota.model.view import View
from rota.solver.effect import Effect
from rota.solver.linear import least
from rota.solver.program import Program

NEARLY_DONE = 1e-4
"""Minimum time left of a job, as a fraction of the longest one's."""


@dataclass(frozen=True)
class Makespan:
    """Minimises the time at which the last job ends. GPUs that this leaves go to the jobs that end soonest."""

    type_aware: bool = True
    colocation: bool = False

    @property
    def needs(self) -> Needs:
        return Needs(colocation=self.colocation, several_types=not self.type_aware)

    def allocate(self, view: View) -> Shares:
        program = Program(view, by_job=True, type_aware=self.type_aware, colocation=self.colocation)
        left = program.of(view.jobs.steps_left)
        known = np.isfinite(left)
        seconds = np.where(known, left / program.best_rate, 0.0)
        # A job that is almost done cannot be the last. Counting it as a little longer keeps the numbers in a safe range.
        seconds = np.maximum(seconds, max(NEARLY_DONE * float(seconds.max(initial=0.0)), 1.0))
        typical = float(np.median(seconds[known])) if known.any() else 1.0
        speed = program.rate * np.where(known, typical / np.maximum(seconds * program.best_rate, 1e-300), 0.0)
        if known.any():
            program.maximise(least(speed[known.nonzero()[0]]))
        program.maximise(speed.sum() if known.any() else program.rate.sum())
        return program.solve().shares(key="makespan")

    def objective(self, effect: Effect) -> float:
        """Seconds until the last job ends."""
        return float((effect.view.jobs.steps_left / effect.rate).max(initial=0.0))
