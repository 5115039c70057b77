"""Water-filling: raise all entries together. Entries that cannot be raised further stay, and the others continue.

Gavel finds the stuck entries with a mixed-integer program. That is not necessary: if each of two jobs can be raised alone, the
average of both solutions raises both, so there is one largest set that can be raised. In an interior solution exactly the jobs
outside it have positive duals.

If entries wait for their turn, such as jobs of a tenant that runs them in order, most of a long queue gets nothing. Two shortcuts
avoid a program for each of them: an entry that is like one that got nothing gets nothing too, and a single program finds out
whether any entry can still rise.
"""

from collections.abc import Callable

import numpy as np

from rota.model.units import Bools, Floats
from rota.solver.linear import Linear
from rota.solver.lp import solved
from rota.solver.program import Program, Solution
from rota.solver.raising import GIVE, Raise, RaiseResult

NOTHING = 1e-9
"""Relative rise below which an entry has not risen."""


def water_fill(program: Program, vector: Linear, weigh: Callable[[Bools], Floats]) -> Solution:
    """Return the lexicographic max-min of `vector` over weights. `weigh` returns the weight of each entry, given the entries that
    may still rise; an entry with weight 0 waits for a later turn. Prices are those of the first rise, of the smallest share."""
    count = len(vector)
    if not program.columns:
        return program.solve()
    model = Raise(program, vector)
    level, free = np.zeros(count), np.ones(count, dtype=bool)
    first: RaiseResult | None = None
    last: RaiseResult | None = None
    value = 0.0
    while free.any():
        weight = np.where(free, weigh(free), 0.0)
        active = free & (weight > 0)
        if not active.any():
            break
        scale = float(weight.max())
        found = model.solve(weight / scale, level * (1 - GIVE))
        if found is None:
            break
        last = found
        level = level + np.where(active, max(found.t, 0.0) * weight / scale, 0.0)
        if first is None:
            first, value = found, float((level[active] / weight[active]).min())
        stuck = found.stuck(active, weight)
        free &= ~stuck
        if found.t * weight.max() / scale <= NOTHING * max(level.max(), 1.0):
            free &= ~_like(program, stuck & (level <= 0), free & (weight <= 0) & (level <= 0))
            if not _room(program, found) or not free.any() or not model.can_rise(free, level):
                break
    if last is None or first is None:
        solved(None, "water-filling")
    assert last is not None and first is not None
    return Solution(program, last.x, value, first.prices, (), first.time_duals, first.duals)


def _like(program: Program, stuck: Bools, waiting: Bools) -> Bools:
    """Return the waiting entries that are like one that has nothing and cannot get anything: neither can they. Otherwise a queue
    in which no job fits would take a program for every job in it."""
    who = program.who
    none = {(int(who.kind[i]), float(who.members[i])) for i in stuck.nonzero()[0]}
    alike = np.zeros(len(waiting), dtype=bool)
    at = waiting.nonzero()[0]
    alike[at] = [(int(who.kind[i]), float(who.members[i])) in none for i in at]
    return alike


def _room(program: Program, found: RaiseResult) -> bool:
    """Return whether any GPU is left over. If none is, no entry can rise."""
    used = program.gpus_used.at(found.x)
    return bool((used < program.view.capacity * (1 - 1e-6)).any())
