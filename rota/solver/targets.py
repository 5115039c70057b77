"""The lowest common target: the rates that jobs need shrink as a target t grows. Find the lowest t that all can meet at once.

Finish-time fairness is this: rho <= t needs a rate of steps / (t * fair time - age). For a given t it is a linear program, and
its duals give a lower bound on t: no target can be met at which the jobs would need more, at these prices, than there is. Solving
that bound for t is one step, and a handful of steps reach the true t from below.

A job that could not meet t even with its best rate gets that rate, so that it does not decide for the others. The jobs that
determine t then stay as they are, and the others continue to a lower t of their own, so that the result is lexicographic.
"""

from collections.abc import Callable

import numpy as np

from rota.model.units import Bools, Floats
from rota.solver.lp import solved
from rota.solver.program import Program, Solution
from rota.solver.raising import GIVE, Raise, RaiseResult

MAX_STEPS = 40
CLOSE = 1e-7

Need = Callable[[float], Floats]
"""Rates needed at a target; infinite if no rate is sufficient."""


def lowest_target(program: Program, need: Need, floor_t: Floats) -> Solution:
    """Return shares for the lowest t, and then lexicographically for the jobs that it does not bind. `floor_t` is the lowest t
    that each job could reach with its best rate. The value of the solution is the largest t that binds a job: the objective."""
    if not program.columns:
        return program.solve()
    model = Raise(program, program.rate)
    best = program.best_rate
    fixed = np.full(len(best), np.nan)
    first: RaiseResult | None = None
    last: RaiseResult | None = None
    start, value = float(floor_t.min()), 0.0
    while np.isnan(fixed).any():
        active = np.isnan(fixed)
        t, found, weight = _lowest(model, need, best, fixed, max(start, float(floor_t[active].min())))
        if found is None:
            break  # the solver gets no further: the remaining jobs keep the last answer
        last = found
        if first is None:
            # A job that cannot reach t has its best rate, and no lower target.
            first, value = found, max(t or 0.0, float(floor_t[weight >= best * (1 - CLOSE)].max(initial=0.0)))
        if t is None:
            break  # all remaining jobs have their best rate
        at_best = active & (weight >= best * (1 - CLOSE))
        stuck = found.stuck(active, weight) | at_best
        fixed[stuck] = np.minimum(weight[stuck], best[stuck])
    if last is None or first is None:
        solved(None, "the lowest common target")
    assert last is not None and first is not None
    return Solution(program, last.x, value, first.prices, (), first.time_duals, first.duals)


def _lowest(model: Raise, need: Need, best: Floats, fixed: Floats, t: float) -> tuple[float | None, RaiseResult | None, Floats]:
    active = np.isnan(fixed)
    floor = np.where(active, 0.0, np.nan_to_num(fixed) * (1 - GIVE))
    weight, found = best, None
    for _ in range(MAX_STEPS):
        weight = np.where(active, np.minimum(need(t), best), 0.0)
        tried = model.solve(weight, floor)
        if tried is None:
            return t, found, weight
        found = tried
        if found.t >= 1 - CLOSE:
            return (None if _all_best(weight, best, active) else t), found, weight
        higher = _bound(need, best, found.duals, active, weight, found.t, t)
        if higher <= t * (1 + 1e-12):
            return t, found, weight
        t = higher
    return t, found, weight


def _all_best(weight: Floats, best: Floats, active: Bools) -> bool:
    return bool((weight[active] >= best[active] * (1 - CLOSE)).all())


def _bound(need: Need, best: Floats, duals: Floats, active: Bools, weight: Floats, reached: float, t: float) -> float:
    """Return the t at which the jobs, at these duals, need no more than there is."""
    force = duals * active
    budget = reached * float(force @ weight)

    def short(at: float) -> bool:
        return float(force @ np.minimum(need(at), best)) > budget

    low, high = t, 2 * max(t, 1e-9)
    while short(high) and high < 1e18:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if short(middle) else (low, middle)
        if high - low <= 1e-13 * high:
            break
    return low
