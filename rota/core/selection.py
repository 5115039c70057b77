"""How the core draws from an answer who may run, where the answer leaves that open. A value, set once."""

from dataclasses import dataclass

import numpy as np

from rota.model.allocation import Allocation
from rota.model.units import FOREVER, Floats

MAX_DEFICIT_SLICES = 10.0
"""A job can be owed at most this many slices by earlier shares, or owe them, so that old debts don't decide for hours."""


LOST = 0.004
"""The part of its time that a job loses to moves which are made only so that all get their shares, if it should run half of the
time or more. If it should run less, it loses more, so that none waits too long for its turn."""

MAX_LOST_FRACTION = 0.02
"""The most that it loses by that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRules:
    """The defaults are Rota's own way. Presets of other simulators have theirs."""

    deficits_break_ties: bool = False
    """As in Gavel: shares are drawn by time received since they were answered, and what earlier ones owe only breaks ties.
    Otherwise it counts as time not received, so that answers may follow each other quickly."""
    steady: bool = False
    """Between two answers of a policy that ranks, running jobs go on and no other job starts."""
    upgrades: bool = False
    """A running job that no policy would suspend for another may still move to a faster type, if that pays."""
    backfill: bool = True
    """Others may run while one that comes before them does not fit; if not, no job overtakes, whatever the policy says."""

    def lasts(self, allocation: Allocation) -> bool:
        """Whether an answer may be drawn from again, as long as nothing happens."""
        return allocation.reusable or self.steady

    def only_goes_on(self, allocation: Allocation) -> bool:
        """Whether a later draw from an answer only lets running jobs go on."""
        return self.steady and not allocation.reusable

    def had_seconds(self, received: Floats, deficit: Floats) -> Floats:
        """What jobs have had, given the time they received and the time that earlier shares owe them."""
        return received if self.deficits_break_ties else received - deficit

    def max_deficit_seconds(self, turn_seconds: float) -> float:
        """The most that a job can be owed, or owe. What only breaks ties has no limit."""
        return FOREVER if self.deficits_break_ties else MAX_DEFICIT_SLICES * turn_seconds

    def margin_seconds(self, move_seconds: Floats, share: Floats, horizon_seconds: float) -> Floats:
        """How much further behind another job must be to take the place of one that runs, given the price of moving that, and
        the part of the time that it should run. Two jobs that take turns run for twice their margin each: so long that only the
        part above is lost, but no longer than the horizon over which a move must pay for itself."""
        lost = np.clip(LOST * 0.5 / np.maximum(share, LOST), LOST, MAX_LOST_FRACTION)
        return np.minimum(move_seconds / (2 * lost), horizon_seconds / 2)

    @property
    def saves_moves(self) -> bool:
        """Shares are met over a longer time where moves cost something. Gavel's are met slice by slice."""
        return not self.deficits_break_ties

    @property
    def types_stay(self) -> bool:
        """Where all have GPUs, an answer that is blind to types moves no job from one to another."""
        return not self.deficits_break_ties
