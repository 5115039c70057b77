"""Linear programs as arrays: Clarabel for the centre of the optimal face, HiGHS for a vertex.

An interior point method without crossover stops near the analytic centre of the optimal face. Slack is then spread over all jobs
that can use it, equal jobs get equal shares, and duals are strictly complementary (a row has a positive dual exactly if it must
be tight). A simplex vertex is equally optimal and uses as few options as possible, so that fewer jobs move. Policies choose
between the two.
"""

from dataclasses import dataclass
from typing import Any

import clarabel  # type: ignore[import-untyped]
import numpy as np

from rota.errors import SolverError
from rota.model.units import Floats, Ints
from rota.solver.column_matrix import ColumnMatrix

TIGHT, LOOSE = 1e-8, 1e-5
"""Relative distance from the optimum: for an objective, and for one that only chooses among its solutions."""

FEASIBLE = 1e-6
"""Amount by which rows may be violated."""

_GOOD = ("Solved", "AlmostSolved")


@dataclass(frozen=True, slots=True, eq=False)
class Lp:
    """Minimise cost @ x subject to x >= 0 and the rows of a matrix, given as triplets. The first `equal` rows must equal `right`,
    and the others must be at most `right`."""

    cost: Floats
    row: Ints
    column: Ints
    value: Floats
    right: Floats
    equal: int = 0
    free: int = 0
    """Number of columns, at the end, that may be negative."""


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """Solution of a program. A dual is the value of one more unit on the right side; `below_duals` are never negative."""

    x: Floats
    value: float
    equal_duals: Floats
    below_duals: Floats


class Centre:
    """A program for Clarabel that can be solved again with other numbers in the same positions."""

    def __init__(self, lp: Lp, gap: float = TIGHT, careful: bool = False) -> None:
        count, rows = len(lp.cost), len(lp.right)
        every = np.arange(count - lp.free)
        # x >= 0 as separate rows, after the others
        entries = _both(lp.row, rows + every), _both(lp.column, every), np.concatenate((lp.value, np.full(len(every), -1.0)))
        self.matrix = ColumnMatrix.of(*entries, shape=(rows + len(every), count))
        self.right = np.concatenate((lp.right, np.zeros(len(every))))
        self.lp = lp
        cones = [clarabel.ZeroConeT(lp.equal)] if lp.equal else []
        cones.append(clarabel.NonnegativeConeT(rows - lp.equal + len(every)))
        self._solver = clarabel.DefaultSolver(
            _no_entries(count), lp.cost, self.matrix, self.right, cones, _settings(gap, careful)
        )

    def solve(self) -> Optimum | None:
        """Solve the program. Return None if there is no solution, or none was found."""
        found = self._solver.solve()
        if str(found.status) not in _GOOD:
            return None
        x, duals = _above(np.array(found.x), self.lp.free), np.array(found.z)
        if not self._holds(x):
            return None
        equal, rows = self.lp.equal, len(self.lp.right)
        return Optimum(x, float(self.lp.cost @ x), duals[:equal], np.maximum(duals[equal:rows], 0.0))

    def _holds(self, x: Floats) -> bool:
        """Return whether the rows hold. A solver that gives up near the end reports "AlmostSolved"."""
        equal, rows = self.lp.equal, len(self.lp.right)
        over = (self.matrix @ x)[:rows] - self.right[:rows]
        over[:equal] = np.abs(over[:equal])
        return bool((over <= FEASIBLE * np.maximum(np.abs(self.right[:rows]), 1.0)).all())

    def again(self, last_column: Floats, right: Floats) -> Optimum | None:
        """Solve again with other values in the last column, where it had entries, and another right side."""
        end = len(self.matrix.data) - 1  # the very last entry keeps the variable from being negative
        self.matrix.data[end - len(last_column) : end] = last_column
        self.right[: len(right)] = right
        self._solver.update(A=self.matrix, b=self.right)
        return self.solve()

    @property
    def current(self) -> Lp:
        """The program with the numbers of the last solve."""
        whole, rows = self.matrix, len(self.lp.right)
        kept = whole.indices < rows
        entries = whole.indices[kept], whole.column[kept], whole.data[kept]
        return Lp(self.lp.cost, *entries, self.right[:rows].copy(), self.lp.equal, self.lp.free)


def _both(a: Ints, b: Ints) -> Ints:
    return np.concatenate((a, b))


def _no_entries(count: int) -> ColumnMatrix:
    """Return a square matrix of zeros: the objective has no quadratic part."""
    none = np.empty(0, dtype=np.int64)
    return ColumnMatrix(np.empty(0), none, np.zeros(count + 1, dtype=np.int64), (count, count))


def _settings(gap: float, careful: bool) -> Any:
    settings = clarabel.DefaultSettings()
    settings.tol_gap_abs = settings.tol_gap_rel = gap
    settings.verbose = False
    settings.max_threads = 1
    settings.iterative_refinement_enable = careful  # without it a step takes two thirds of the time
    settings.presolve_enable = False  # a solver that dropped rows could not be given new numbers
    settings.input_sparse_dropzeros = False
    return settings


def centre(lp: Lp, gap: float = TIGHT) -> Optimum | None:
    """Return a point near the centre of the optimal face. If Clarabel fails, the interior point method of HiGHS is tried."""
    found = Centre(lp, gap).solve()
    return found if found is not None else patiently(lp)


def patiently(lp: Lp) -> Optimum | None:
    """Return the same for a numerically difficult program, or None as the proof that there is no solution."""
    found = Centre(lp, careful=True).solve()
    return found if found is not None else _highs(lp, solver="ipx", run_crossover="off")


def vertex(lp: Lp, gap: float = TIGHT) -> Optimum | None:
    """Return a vertex of the optimal face."""
    return _highs(lp, solver="simplex")


def _highs(lp: Lp, **options: str) -> Optimum | None:
    import highspy

    count, rows = len(lp.cost), len(lp.right)
    matrix = ColumnMatrix.of(lp.row, lp.column, lp.value, shape=(rows, count))
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
    # Without crossover, an interior point that is near enough is the best result.
    if status != good.kOptimal and not ("ipx" in options.values() and status == good.kUnknown):
        return None
    solution = highs.getSolution()
    x = _above(np.array(solution.col_value), lp.free)
    if len(x) != count or highs.getInfo().max_primal_infeasibility > FEASIBLE:
        return None
    duals = -np.array(solution.row_dual)
    return Optimum(x, float(lp.cost @ x), duals[: lp.equal], np.maximum(duals[lp.equal :], 0.0))


def _above(x: Floats, free: int) -> Floats:
    """Set entries that rounding left below 0 to 0, except in columns that may be negative."""
    bound = len(x) - free
    x[:bound] = np.maximum(x[:bound], 0.0)
    return x


FACES = {"centre": centre, "vertex": vertex}


def solved(found: Optimum | None, what: str) -> Optimum:
    """Return the optimum. Raise SolverError if there is none."""
    if found is None:
        raise SolverError(
            f"No solution was found for {what}.", hint="check for constraints that contradict each other, and remove one"
        )
    return found
