"""Linear programs: both solvers against SciPy, and their errors when there is no answer."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from rota.errors import SolverError
from rota.solver.lp import FACES, Centre, Lp, Optimum, _highs, centre, patiently, solved, vertex


def program(seed: int, equal: int = 0, columns: int = 12, rows: int = 9) -> Lp:
    """A random program with a solution: rows are met by a point inside, and costs keep it from running away."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((rows, columns)) < 0.6, rng.normal(size=(rows, columns)), 0.0)
    inside = rng.random(columns)
    right = dense @ inside
    right[equal:] += rng.random(rows - equal)
    row, column = dense.nonzero()
    return Lp(rng.random(columns) - 0.1, *(a.astype(np.int64) for a in (row, column)), dense[row, column], right, equal)


def dense_of(lp: Lp) -> Any:
    return sp.csr_matrix((lp.value, (lp.row, lp.column)), shape=(len(lp.right), len(lp.cost))).toarray()


def by_scipy(lp: Lp) -> Any:
    dense = dense_of(lp)
    ties = {"A_eq": dense[: lp.equal], "b_eq": lp.right[: lp.equal]} if lp.equal else {}
    return linprog(lp.cost, A_ub=dense[lp.equal :], b_ub=lp.right[lp.equal :], method="highs", **ties)


@pytest.mark.parametrize("face", [*FACES, "patiently"])
@pytest.mark.parametrize("equal", [0, 3])
@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_scipys_and_its_duals_prove_it(seed: int, equal: int, face: str) -> None:
    lp = program(seed, equal)
    expected = by_scipy(lp)
    found = {**FACES, "patiently": patiently}[face](lp)
    if expected.status == 3:
        assert found is None
        return
    assert expected.status == 0 and found is not None
    assert found.value == pytest.approx(expected.fun, abs=1e-6)
    assert found.value == lp.cost @ found.x
    dense = dense_of(lp)
    slack = lp.right - dense @ found.x
    assert (found.x >= 0).all() and (slack[equal:] >= -1e-6).all() and slack[:equal] == pytest.approx(0, abs=1e-6)
    # A unit more on the right side of row i lowers the least cost by its dual.
    duals = np.concatenate((found.equal_duals, found.below_duals))
    assert (found.below_duals >= 0).all()
    assert -(duals @ lp.right) == pytest.approx(found.value, abs=1e-5)
    assert (lp.cost + duals @ dense >= -1e-5).all()
    assert found.below_duals * slack[equal:] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("face", [centre, vertex, patiently])
@pytest.mark.parametrize("equal", [0, 1])
def test_a_program_that_contradicts_itself_has_no_solution(face: Any, equal: int) -> None:
    # x >= 2 (or x + y = -1 with both at least 0), and x <= 1
    row, column = np.array([0, 1]), np.array([0, 0])
    lp = Lp(np.array([1.0]), row, column, np.array([-1.0, 1.0]), np.array([-2.0, 1.0]))
    if equal:
        lp = Lp(np.array([1.0, 1.0]), np.array([0, 0]), np.array([0, 1]), np.ones(2), np.array([-1.0]), 1)
    assert face(lp) is None


@pytest.mark.parametrize("face", [centre, vertex, patiently])
def test_a_program_without_an_end_has_no_solution(face: Any) -> None:
    lp = Lp(np.array([-1.0, 0.0]), np.array([0]), np.array([1]), np.array([1.0]), np.array([1.0]))
    assert face(lp) is None


def test_no_solution_is_an_error_that_says_of_what() -> None:
    with pytest.raises(SolverError, match="No solution was found for the seating plan") as raised:
        solved(None, "the seating plan")
    assert raised.value.hint
    known = Optimum(np.zeros(1), 0.0, np.zeros(0), np.zeros(0))
    assert solved(known, "x") is known


def test_the_centre_spreads_what_is_open_and_a_vertex_does_not() -> None:
    """Maximise x + y + z up to 1: any split is best."""
    lp = Lp(-np.ones(3), np.zeros(3, dtype=np.int64), np.arange(3), np.ones(3), np.array([1.0]))
    middle, corner = centre(lp), vertex(lp)
    assert middle is not None and corner is not None
    assert middle.x == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert sorted(corner.x.tolist()) == [0.0, 0.0, 1.0]


def test_duals_of_the_centre_are_positive_exactly_where_a_row_must_be_tight() -> None:
    """Two rows meet in the only optimum, but only one of them is needed to hold it there."""
    # max x: x <= 1, x + y <= 2 (y is free up to 1, so it can be slack)
    lp = Lp(np.array([-1.0, 0.0]), np.array([0, 1, 1]), np.array([0, 0, 1]), np.ones(3), np.array([1.0, 2.0]))
    found = centre(lp)
    assert found is not None
    assert found.below_duals == pytest.approx([1.0, 0.0], abs=1e-6)
    assert found.x[1] < 0.99, "the slack row is not tight"


def raising(seed: int) -> tuple[Lp, int]:
    """Maximise t with t * weight <= entry of a random vector, as in `Raise`: the last column has entries in the last rows."""
    rng = np.random.default_rng(seed)
    entries, columns = 5, 8
    vector = rng.random((entries, columns))
    row = np.concatenate((np.zeros(columns), np.repeat(np.arange(1, entries + 1), columns), np.arange(1, entries + 1)))
    column = np.concatenate((np.arange(columns), np.tile(np.arange(columns), entries), np.full(entries, columns)))
    value = np.concatenate((np.ones(columns), -vector.ravel(), np.ones(entries)))
    cost = np.append(np.zeros(columns), -1.0)
    right = np.append(1.0, np.zeros(entries))
    return Lp(cost, row.astype(np.int64), column.astype(np.int64), value, right), entries


@pytest.mark.parametrize("seed", range(8))
def test_solving_again_is_solving_afresh(seed: int) -> None:
    lp, entries = raising(seed)
    model = Centre(lp)
    assert model.solve() is not None
    rng = np.random.default_rng(seed + 100)
    for _ in range(4):
        weight, floor = rng.random(entries) + 0.1, rng.random(entries) * 0.1
        right = np.append(1.0, -floor)
        again = model.again(weight, right)
        fresh = Centre(Lp(lp.cost, lp.row, lp.column, np.concatenate((lp.value[:-entries], weight)), right)).solve()
        assert again is not None and fresh is not None
        assert again.value == pytest.approx(fresh.value, rel=1e-7)
        assert again.x == pytest.approx(fresh.x, abs=1e-5)
        assert again.below_duals == pytest.approx(fresh.below_duals, abs=1e-5)
        shown = model.current
        assert by_scipy(shown).fun == pytest.approx(again.value, abs=1e-7)


def test_a_weight_of_zero_keeps_its_place_for_the_next_time() -> None:
    lp, entries = raising(3)
    model = Centre(lp)
    model.solve()
    first = np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    some = model.again(first, lp.right)
    every = model.again(np.ones(entries), lp.right)
    fresh = Centre(lp).solve()
    assert some is not None and every is not None and fresh is not None
    assert every.value == pytest.approx(fresh.value, rel=1e-7) and some.value < every.value - 1e-3


def test_solving_again_what_cannot_be_met_is_none_and_does_no_harm() -> None:
    lp, entries = raising(1)
    model = Centre(lp)
    before = model.solve()
    assert model.again(np.ones(entries), np.append(1.0, np.full(entries, -100.0))) is None
    after = model.again(np.ones(entries), lp.right)
    assert before is not None and after is not None and after.value == pytest.approx(before.value, rel=1e-7)


def test_solving_again_leaves_the_program_that_was_given_alone() -> None:
    lp, entries = raising(2)
    right, value = lp.right.copy(), lp.value.copy()
    model = Centre(lp)
    model.again(np.full(entries, 3.0), np.append(2.0, np.zeros(entries)))
    assert (lp.right == right).all() and (lp.value == value).all()


def test_patience_reaches_programs_of_very_unequal_numbers() -> None:
    """Throughputs from 1e-3 to 1e5 steps per second, as real profiles have them."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        scale = 10.0 ** rng.uniform(-3, 5, size=6)
        dense = np.vstack((np.ones(6), rng.random((3, 6))))
        row, column = dense.nonzero()
        lp = Lp(-scale, row.astype(np.int64), column.astype(np.int64), dense[row, column], np.ones(4))
        found, expected = patiently(lp), by_scipy(lp)
        assert found is not None and found.value == pytest.approx(expected.fun, rel=1e-6)


def test_the_interior_point_of_last_resort_needs_no_crossover_to_be_right() -> None:
    for seed in range(8):
        lp = program(seed, equal=2)
        expected = by_scipy(lp)
        found = _highs(lp, solver="ipx", run_crossover="off")
        if expected.status == 0:
            assert found is not None and found.value == pytest.approx(expected.fun, abs=1e-5)
        else:
            assert found is None


def test_the_same_program_gives_the_same_bits() -> None:
    for face in (centre, vertex):
        first, second = face(program(5)), face(program(5))
        assert first is not None and second is not None
        assert first.x.tobytes() == second.x.tobytes() and first.below_duals.tobytes() == second.below_duals.tobytes()
