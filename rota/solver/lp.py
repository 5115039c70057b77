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

from rota.errors import SolverFailed
from rota.model.units import Floats

_GOOD = ("Solved", "AlmostSolved")


@dataclass(frozen=True, slots=True, eq=False)
class Lp:
    """Minimise cost @ x subject to equal @ x == equal_to, below @ x <= below_by, x >= 0."""

    cost: Floats
    equal: sp.csr_array
    equal_to: Floats
    below: sp.csr_array
    below_by: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """Where a program ends. Duals are what a unit more on the right is worth: never negative for `below`."""

    x: Floats
    value: float
    equal_duals: Floats
    below_duals: Floats


class Centre:
    """One program for Clarabel, kept so that it can be solved again with other numbers in the same places."""

    def __init__(self, lp: Lp) -> None:
        self._rows = len(lp.equal_to), len(lp.below_by)
        count = len(lp.cost)
        cones = [clarabel.ZeroConeT(self._rows[0])] if self._rows[0] else []
        cones.append(clarabel.NonnegativeConeT(self._rows[1] + count))
        self._matrix, self._right = self._stack(lp)
        self._solver = clarabel.DefaultSolver(
            sp.csc_matrix((count, count)), lp.cost, self._matrix, self._right, cones, _settings()
        )
        self._lp = lp

    @staticmethod
    def _stack(lp: Lp) -> tuple[Any, Floats]:
        count = len(lp.cost)
        parts = [lp.equal, lp.below] if len(lp.equal_to) else [lp.below]
        matrix = sp.vstack([*parts, -sp.eye_array(count, format="csr")], format="csc")
        return sp.csc_matrix(matrix), np.concatenate((lp.equal_to, lp.below_by, np.zeros(count)))

    def solve(self) -> Optimum | None:
        """None: there is no solution, or none was found."""
        found = self._solver.solve()
        if str(found.status) not in _GOOD:
            return None
        x, duals = np.maximum(np.array(found.x), 0.0), np.array(found.z)
        equal, below = self._rows
        return Optimum(x, float(self._lp.cost @ x), -duals[:equal], np.maximum(duals[equal : equal + below], 0.0))

    def again(self, lp: Lp) -> Optimum | None:
        """Solve with the numbers of another program of the same shape."""
        matrix, right = self._stack(lp)
        self._solver.update(q=lp.cost, A=matrix, b=right)
        self._lp = lp
        return self.solve()


def _settings() -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.presolve_enable = False  # a solver that dropped rows could not be given new numbers
    settings.input_sparse_dropzeros = False
    return settings


def centre(lp: Lp) -> Optimum | None:
    """A point in the middle of the optimal face. HiGHS's interior point is asked where Clarabel does not get there."""
    found = Centre(lp).solve()
    return found if found is not None else _highs(lp, solver="ipx", run_crossover="off")


def vertex(lp: Lp) -> Optimum | None:
    """A corner of the optimal face."""
    return _highs(lp, solver="simplex")


def _highs(lp: Lp, **options: str) -> Optimum | None:
    model = highspy.HighsLp()
    matrix = sp.csc_array(sp.vstack([lp.equal, lp.below], format="csc"))
    count, rows = len(lp.cost), matrix.shape[0]
    model.num_col_, model.num_row_ = count, rows
    model.col_cost_, model.col_lower_ = lp.cost, np.zeros(count)
    model.col_upper_ = np.full(count, highspy.kHighsInf)
    model.row_lower_ = np.concatenate((lp.equal_to, np.full(len(lp.below_by), -highspy.kHighsInf)))
    model.row_upper_ = np.concatenate((lp.equal_to, lp.below_by))
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.passModel(model)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal and "ipx" not in options.values():
        return None
    solution = highs.getSolution()
    x = np.maximum(np.array(solution.col_value), 0.0)
    if len(x) != count or highs.getInfo().max_primal_infeasibility > 1e-6:
        return None
    duals, equal = -np.array(solution.row_dual), len(lp.equal_to)
    return Optimum(x, float(lp.cost @ x), duals[:equal], np.maximum(duals[equal:], 0.0))


FACES = {"centre": centre, "vertex": vertex}


def solved(found: Optimum | None, what: str) -> Optimum:
    """The optimum, or an error that says what had none."""
    if found is None:
        raise SolverFailed(f"No solution of {what} was found.", hint="constraints that contradict each other? take one out")
    return found
