"""Linear programs as arrays: Clarabel for the middle of the optimal face, HiGHS for a corner of it.

An interior point without crossover stops near the analytic centre of the optimal face: slack is spread over all who can use it,
equal jobs get equal shares, and duals are strictly complementary (a row has a positive dual exactly if it must be tight). A
simplex vertex is as optimal and uses as few ways to run as possible, so fewer jobs move. Which of them is a choice of policies.
"""

from dataclasses import dataclass
from typing import Any

import clarabel  # type: ignore[import-untyped]
import highspy
import numpy as np
import scipy.sparse as sp

from rota.errors import SolverError
from rota.model.units import Floats, Ints

TIGHT, LOOSE = 1e-8, 1e-5
"""How near to the optimum, relative: for an objective, and for what only chooses among its solutions."""

FEASIBLE = 1e-6
"""Rows may be broken by this much."""

_GOOD = ("Solved", "AlmostSolved")


@dataclass(frozen=True, slots=True, eq=False)
class Lp:
    """Minimise cost @ x subject to x >= 0 and rows of a matrix, given as triplets: the first `equal` rows must equal `right`, the
    others may not be above it."""

    cost: Floats
    row: Ints
    column: Ints
    value: Floats
    right: Floats
    equal: int = 0
    free: int = 0
    """So many of the last columns may be negative."""


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """Where a program ends. Duals are what a unit more on the right is worth: never negative for `below`."""

    x: Floats
    value: float
    equal_duals: Floats
    below_duals: Floats


class Centre:
    """One program for Clarabel, kept so that it can be solved again with other numbers in the same places."""

    def __init__(self, lp: Lp, gap: float = TIGHT, careful: bool = False) -> None:
        count, rows = len(lp.cost), len(lp.right)
        every = np.arange(count - lp.free)
        # x >= 0 as rows of their own, after the others.
        entries = (np.concatenate((lp.value, np.full(len(every), -1.0))), (_both(lp.row, rows + every), _both(lp.column, every)))
        self.matrix = sp.csc_matrix(entries, shape=(rows + len(every), count))
        self.right = np.concatenate((lp.right, np.zeros(len(every))))
        self.lp = lp
        cones = [clarabel.ZeroConeT(lp.equal)] if lp.equal else []
        cones.append(clarabel.NonnegativeConeT(rows - lp.equal + len(every)))
        self._solver = clarabel.DefaultSolver(
            sp.csc_matrix((count, count)), lp.cost, self.matrix, self.right, cones, _settings(gap, careful)
        )

    def solve(self) -> Optimum | None:
        """None: there is no solution, or none was found."""
        found = self._solver.solve()
        if str(found.status) not in _GOOD:
            return None
        x, duals = _above(np.array(found.x), self.lp.free), np.array(found.z)
        if not self._holds(x):
            return None
        equal, rows = self.lp.equal, len(self.lp.right)
        return Optimum(x, float(self.lp.cost @ x), duals[:equal], np.maximum(duals[equal:rows], 0.0))

    def _holds(self, x: Floats) -> bool:
        """Whether the rows are kept: a solver that gave up near the end says that it almost solved it."""
        equal, rows = self.lp.equal, len(self.lp.right)
        over = (self.matrix @ x)[:rows] - self.right[:rows]
        over[:equal] = np.abs(over[:equal])
        return bool((over <= FEASIBLE * np.maximum(np.abs(self.right[:rows]), 1.0)).all())

    def again(self, last_column: Floats, right: Floats) -> Optimum | None:
        """Solve with another last column, in the rows where it had entries, and another right side."""
        end = len(self.matrix.data) - 1  # the very last entry keeps the variable from being negative
        self.matrix.data[end - len(last_column) : end] = last_column
        self.right[: len(right)] = right
        self._solver.update(A=self.matrix, b=self.right)
        return self.solve()

    @property
    def current(self) -> Lp:
        """The program with the numbers of the last solve."""
        whole = self.matrix.tocoo()
        rows = len(self.lp.right)
        kept = whole.row < rows
        entries = whole.row[kept].astype(np.int64), whole.col[kept].astype(np.int64), whole.data[kept]
        return Lp(self.lp.cost, *entries, self.right[:rows].copy(), self.lp.equal, self.lp.free)


def _both(a: Ints, b: Ints) -> Ints:
    return np.concatenate((a, b))


def _settings(gap: float, careful: bool) -> Any:
    settings = clarabel.DefaultSettings()
    settings.tol_gap_abs = settings.tol_gap_rel = gap
    settings.verbose = False
    settings.max_threads = 1
    settings.iterative_refinement_enable = careful  # without it a step takes two thirds of the time, and most programs need none
    settings.presolve_enable = False  # a solver that dropped rows could not be given new numbers
    settings.input_sparse_dropzeros = False
    return settings


def centre(lp: Lp, gap: float = TIGHT) -> Optimum | None:
    """A point in the middle of the optimal face. HiGHS's interior point is asked where Clarabel does not get there."""
    found = Centre(lp, gap).solve()
    return found if found is not None else patiently(lp)


def patiently(lp: Lp) -> Optimum | None:
    """The same, for programs that are hard on the numbers; also the proof that there is no solution."""
    found = Centre(lp, careful=True).solve()
    return found if found is not None else _highs(lp, solver="ipx", run_crossover="off")


def vertex(lp: Lp, gap: float = TIGHT) -> Optimum | None:
    """A corner of the optimal face."""
    return _highs(lp, solver="simplex")


def _highs(lp: Lp, **options: str) -> Optimum | None:
    count, rows = len(lp.cost), len(lp.right)
    matrix = sp.csc_matrix((lp.value, (lp.row, lp.column)), shape=(rows, count))
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = count, rows
    model.col_cost_ = lp.cost
    model.col_lower_ = np.where(np.arange(count) < count - lp.free, 0.0, -highspy.kHighsInf)
    model.col_upper_ = np.full(count, highspy.kHighsInf)
    model.row_lower_ = np.where(np.arange(rows) < lp.equal, lp.right, -highspy.kHighsInf)
    model.row_upper_ = lp.right
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.passModel(model)
    highs.run()
    status, good = highs.getModelStatus(), highspy.HighsModelStatus
    # Without crossover an interior point that is near enough is all that can be had.
    if status != good.kOptimal and not ("ipx" in options.values() and status == good.kUnknown):
        return None
    solution = highs.getSolution()
    x = _above(np.array(solution.col_value), lp.free)
    if len(x) != count or highs.getInfo().max_primal_infeasibility > FEASIBLE:
        return None
    duals = -np.array(solution.row_dual)
    return Optimum(x, float(lp.cost @ x), duals[: lp.equal], np.maximum(duals[lp.equal :], 0.0))


def _above(x: Floats, free: int) -> Floats:
    """What rounding left below 0 is 0, but for columns that may be."""
    bound = len(x) - free
    x[:bound] = np.maximum(x[:bound], 0.0)
    return x


FACES = {"centre": centre, "vertex": vertex}


def solved(found: Optimum | None, what: str) -> Optimum:
    """The optimum, or an error that says what had none."""
    if found is None:
        raise SolverError(f"No solution of {what} was found.", hint="constraints that contradict each other? take one out")
    return found
