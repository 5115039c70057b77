"""Finish-time fairness (Themis, in Gavel's form, section 4.2), lexicographic."""

from dataclasses import dataclass

import numpy as np

from rota.model.allocation import Shares
from rota.model.needs import Needs
from rota.model.units import Floats, Ints
from rota.model.view import View
from rota.solver.effect import Effect
from rota.solver.program import Program
from rota.solver.targets import lowest_target

YEAR_SECONDS = 365 * 86400.0


@dataclass(frozen=True, slots=True, eq=False)
class PrivateWork:
    """Memory of the policy: what each job's private part of the cluster would have done so far."""

    ids: Ints
    private_seconds: Floats
    steps_left: Floats
    private_rate: Floats


@dataclass(frozen=True)
class FinishTimeFairness:
    """Minimise the largest rho: the time that a job takes, divided by the time that it would take with an exclusive 1/n of the
    cluster. Then minimise the next largest, and so on, so that a job that cannot be helped does not decide for the others."""

    type_aware: bool = True
    colocation: bool = False

    @property
    def needs(self) -> Needs:
        return Needs(colocation=self.colocation, several_types=not self.type_aware)

    def allocate(self, view: View) -> Shares:
        program = Program(view, by_job=True, type_aware=self.type_aware, colocation=self.colocation)
        who, jobs = program.who, view.jobs
        steps = jobs.steps_left[who.first]
        # A job without a known end is assumed to have a year left.
        steps = np.where(np.isfinite(steps), steps, YEAR_SECONDS * program.best_rate)
        steps = np.maximum(steps, program.best_rate)  # a job that is estimated to be done may still run: it gets one second
        private = program.equal_rate
        before = _private_seconds(view.memory, jobs.ids[who.first], steps, jobs.steps_done[who.first] / private)
        age = view.now_s - jobs.submitted_s[who.first]
        fair = np.maximum(before + steps / private, 1e-9)

        soonest = steps / (10 * program.best_rate)  # a need that no allocation can meet is capped

        def need(t: float) -> Floats:
            rate: Floats = steps / np.maximum(t * fair - age, np.maximum(soonest, 1e-9))
            return rate

        best_rho = (age + steps / program.best_rate) / fair
        found = lowest_target(program, need, best_rho)
        memory = PrivateWork(jobs.ids[who.first], before, steps, private)
        return found.shares(memory=memory, key="finish-time fairness")

    def objective(self, effect: Effect) -> float:
        """Largest rho."""
        jobs = effect.view.jobs
        before = _private_seconds(effect.view.memory, jobs.ids, jobs.steps_left, jobs.steps_done / effect.private_rate)
        age = effect.view.now_s - jobs.submitted_s
        rho = (age + jobs.steps_left / effect.rate) / (before + jobs.steps_left / effect.private_rate)
        return float(rho.max(initial=0.0))


def _private_seconds(memory: PrivateWork | None, ids: Ints, steps: Floats, otherwise: Floats) -> Floats:
    """Return the time that the private part would have needed for the work done so far. Jobs without memory use the present
    rate."""
    if memory is None or not len(memory.ids):
        return otherwise
    found = np.minimum(memory.ids.searchsorted(ids), len(memory.ids) - 1)
    known = memory.ids[found] == ids
    done = np.maximum(memory.steps_left[found] - steps, 0.0)
    return np.where(known, memory.private_seconds[found] + done / memory.private_rate[found], otherwise)
