"""Raises many entries at once: finds the largest t such that every entry of a vector reaches its floor plus t times its weight.

Max-min, makespan, water-filling and finish-time fairness are this program with different weights, so its model is built once and
solved again with new numbers.
"""

from dataclasses import dataclass

import numpy as np

from rota.model.units import Bools, Floats
from rota.solver.linear import Linear
from rota.solver.lp import Centre, Lp, patiently, vertex
from rota.solver.program import Program

MIN_DUAL = 1e-4
"""Fraction of the average dual below which a row is not tight. An interior point method leaves small duals everywhere."""

GIVE = 1e-7
"""Relative amount by which floors may be missed, so that the next program has an interior."""


ENOUGH = 1e-6
"""Relative rise below which entries have only reached their floors."""


@dataclass(frozen=True, slots=True, eq=False)
class RaiseResult:
    """The largest rise, the entries that stopped it, and the shares."""

    t: float
    x: Floats
    duals: Floats
    """Weight of each entry in what stopped the rise: positive exactly for entries that cannot be raised further."""
    prices: Floats
    """Value of one more GPU of each pool."""
    time_duals: Floats

    def stuck(self, among: Bools, weight: Floats) -> Bools:
        """Return which of these entries cannot be raised further, alone or together."""
        force = self.duals * weight * among
        if not force.any():
            return among.copy()
        stuck: Bools = among & (force >= np.minimum(MIN_DUAL * force.sum() / max(int(among.sum()), 1), force.max()))
        return stuck


class Raise:
    """The program for one vector, kept between solves."""

    def __init__(self, program: Program, vector: Linear) -> None:
        self.program, self.vector = program, vector
        self._model: Centre | None = None
        self._rows = program.rows(program._limits, -vector)

    def solve(self, weight: Floats, floor: Floats) -> RaiseResult | None:
        """Solve for the largest t. Return None if the floors cannot be met."""
        row, column, value, right, equal = self._rows
        count, columns = len(self.vector), self.program.columns
        right = right.copy()
        right[-count:] -= floor  # t * weight - entry <= -floor
        if self._model is None:
            here = np.arange(len(right) - count, len(right))
            cost = np.zeros(columns + 1)
            cost[-1] = -1.0
            entries = np.concatenate((row, here)), np.concatenate((column, np.full(count, columns)))
            self._model = Centre(Lp(cost, *entries, np.concatenate((value, weight)), right, equal))
            found = self._model.solve()
        else:
            found = self._model.again(weight, right)
        if found is None:
            found = patiently(self._model.current)
        if found is None:
            return None
        claimants, pools = self.program.who.count, len(self.program.view.capacity)
        return RaiseResult(
            float(found.x[-1]),
            found.x[:-1],
            found.below_duals[-count:],
            found.below_duals[claimants : claimants + pools],
            found.below_duals[:claimants],
        )

    def can_rise(self, among: Bools, level: Floats) -> bool:
        """Return whether any of these entries can rise above its level while all others keep theirs. The program maximises their
        sum."""
        row, column, value, right, equal = self._rows
        right = right.copy()
        right[-len(level) :] -= level * (1 - GIVE)
        wanted = among[self.vector.row]
        worth = np.where(wanted, self.vector.value, 0.0)
        cost = -np.bincount(self.vector.column, weights=worth, minlength=self.program.columns).astype(np.float64)
        found = vertex(Lp(cost, row, column, value, right, equal))
        if found is None:
            return True
        rise = (self.vector.at(found.x) - level)[among]
        return bool((rise > ENOUGH * max(float(level.max()), 1.0)).any())
