"""The most steps per second, summed over all jobs."""

from dataclasses import dataclass
from typing import Literal

from rota.model.allocation import Shares
from rota.model.needs import Needs
from rota.model.view import View
from rota.solver.effect import Effect
from rota.solver.program import Program


@dataclass(frozen=True)
class MaxThroughput:
    """Maximise the sum of effective throughputs. Jobs with small steps win, since fairness does not count."""

    type_aware: bool = True
    colocation: bool = False
    face: Literal["centre", "vertex"] = "centre"

    @property
    def needs(self) -> Needs:
        return Needs(colocation=self.colocation, several_types=not self.type_aware)

    def allocate(self, view: View) -> Shares:
        program = Program(view, by_weight=False, type_aware=self.type_aware, colocation=self.colocation)
        program.maximise(program.members @ program.rate)
        return program.solve(self.face).shares(key="throughput")

    def objective(self, effect: Effect) -> float:
        """Steps per second of all jobs."""
        return float(effect.rate.sum())
