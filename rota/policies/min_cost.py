"""The most steps per dollar, optionally with deadlines (Gavel, section 4.2)."""

from dataclasses import dataclass

import numpy as np

from rota.model.allocation import Shares
from rota.model.needs import Needs
from rota.model.units import Bools, Floats
from rota.model.view import View
from rota.solver.effect import Effect
from rota.solver.program import Program

SHORT = 1e-6
"""Largest shortfall of a rate at which its deadline still counts as met, as a fraction."""


@dataclass(frozen=True)
class MinCost:
    """Maximise throughput over price. Prices are the cluster's, or list prices by type."""

    slo: bool = False
    """Give jobs with a deadline at least the rate that they need. A deadline that cannot be met is dropped, with a note to the
    owner."""
    idle: bool = False
    """Let GPUs idle instead of running a job where it is expensive: cheaper and slower. If false, idle GPUs run any job."""
    type_aware: bool = True
    colocation: bool = False

    @property
    def needs(self) -> Needs:
        return Needs(colocation=self.colocation, several_types=not self.type_aware, deadlines=self.slo)

    def allocate(self, view: View) -> Shares:
        program = Program(view, by_job=self.slo, by_weight=False, type_aware=self.type_aware, colocation=self.colocation)
        notes: dict[int, str] = {}
        if self.slo and program.columns:
            left_s = program.of(view.jobs.deadline_s) - view.now_s
            bound = np.isfinite(left_s) & (left_s > 0) & np.isfinite(program.of(view.jobs.steps_left))
            need = np.where(bound, program.of(view.jobs.steps_left), 0.0) / np.where(bound, left_s, 1.0)
            short = _cannot_meet(view, program, need)
            kept = ((need > 0) & ~short).nonzero()[0]
            program.subject_to(program.rate[kept] >= need[kept] * (1 - SHORT))
            late = short | ((left_s <= 0) & (program.of(view.jobs.steps_left) > 0))
            for claimant in late.nonzero()[0].tolist():
                notes[int(program.who.first[claimant])] = _note(left_s[claimant], need[claimant], program.best_rate[claimant])
        program.maximise(program.members @ program.rate_per_dollar)
        return program.solve().shares(key="steps per dollar", notes=notes, strict=self.idle)

    def objective(self, effect: Effect) -> float:
        """Steps per second over dollars per hour, summed over all jobs."""
        return float(effect.rate_per_dollar.sum())


def _cannot_meet(view: View, program: Program, need: Floats) -> Bools:
    """Return which deadlines to give up so that the others can be met: those that no allocation could meet and then, while not
    all can be met together, the one that would be missed by most."""
    short = need > program.best_rate * (1 + SHORT)
    while True:
        needed = ((need > 0) & ~short).nonzero()[0]
        if not len(needed):
            return short
        trial = Program(view, by_job=True, by_weight=False, type_aware=program.type_aware, colocation=program.packs)
        part = trial.rate[needed] / need[needed]
        trial.subject_to(part <= 1.0)  # more than it needs for one job does not help another
        trial.maximise(part.sum())
        met = part.at(trial.solve("vertex").x)
        if met.min() >= 1 - SHORT:
            return short
        short[needed[np.argmin(met)]] = True


def _note(left_s: float, need: float, best: float) -> str:
    if left_s <= 0:
        return "Its deadline has passed."
    if need > best:
        return f"Its deadline cannot be met: it needs {need:.3g} steps/s, and its fastest option gives {best:.3g}."
    return f"Its deadline cannot be met together with the others': it needs {need:.3g} steps/s."
