"""Raising all together and water-filling, against one program per job that asks whether it can be raised further."""

from typing import Any

import numpy as np
import pytest

from rota.errors import SolverError
from rota.solver.filling import water_fill
from rota.solver.linear import least
from rota.solver.program import Program
from rota.solver.raising import Raise
from tests.solving import Question, assert_feasible, random_question

SEEDS = range(25)


def level_of(program: Program) -> Any:
    return program.rate * (program.gpus / program.average_type_rate)


def per_job(program: Program, per_claimant: Any) -> Any:
    return np.asarray(per_claimant)[program.who.of]


@pytest.mark.parametrize("colocation", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_worst_off_is_as_well_off_as_can_be(seed: int, colocation: bool) -> None:
    question = random_question(seed, colocation=colocation, weights=True)
    plain = question.plain(colocation)
    expected = plain.raised(plain.level() / question.view().jobs.weight[plain.runs][:, None])
    for by_job in (False, True):
        program = Program(question.view(), colocation=colocation, by_job=by_job)
        vector = level_of(program) / program.weight
        raised = Raise(program, vector).solve(np.ones(len(vector)), np.zeros(len(vector)))
        assert raised is not None and raised.t == pytest.approx(expected, rel=1e-5)
        program.maximise(least(vector))
        assert program.solve().value == pytest.approx(expected, rel=1e-5)
        assert program.solve("vertex").value == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("colocation", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("seed", SEEDS)
def test_water_filling_stops_each_job_exactly_where_it_must(seed: int, colocation: bool) -> None:
    question = random_question(seed, colocation=colocation, weights=True)
    plain, weight = question.plain(colocation), question.view().jobs.weight
    expected = plain.filled(plain.level(), lambda free: weight[plain.runs])
    for by_job in (False, True):
        program = Program(question.view(), colocation=colocation, by_job=by_job)
        found = water_fill(program, level_of(program), lambda _, weights=program.weight: weights)
        assert per_job(program, level_of(program).at(found.x)) == pytest.approx(expected, rel=2e-4), by_job
        assert found.value == pytest.approx((expected / weight[plain.runs]).min(), rel=1e-5)


def test_those_who_are_stuck_stay_and_the_others_go_on() -> None:
    """Three share the only V100; the two on P100s are not held back by them."""
    program = Program(Question((1, 2, 0), {"a": (1, 0, 0), "b": (0, 1, 0)}, ["a", "b", "a", "b", "a"]).view())
    found = water_fill(program, program.rate, lambda _: program.weight)
    assert per_job(program, program.rate.at(found.x)) == pytest.approx([1 / 3, 1, 1 / 3, 1, 1 / 3], abs=1e-5)
    assert found.value == pytest.approx(1 / 3, abs=1e-6)
    assert found.prices == pytest.approx([1 / 3, 0.0], abs=1e-5), "one more V100 is worth a third to each of three"


def test_an_entry_of_weight_zero_waits_for_its_turn_and_then_gets_it() -> None:
    question = Question((1, 0, 0), {"a": (1, 0, 0), "b": (1, 0, 0)}, ["a", "b"])
    program = Program(question.view())
    turns: list[list[bool]] = []

    def first_only(free: Any) -> Any:
        turns.append(free.tolist())
        return np.array([1.0, 0.0]) if free[0] else np.array([0.0, 1.0])

    found = water_fill(program, program.rate, first_only)
    assert program.rate.at(found.x) == pytest.approx([1.0, 0.0], abs=1e-5)
    assert turns[0] == [True, True]
    roomy = Program(Question((2, 0, 0), {"a": (1, 0, 0), "b": (1, 0, 0)}, ["a", "b"]).view())
    found = water_fill(roomy, roomy.rate, first_only)
    assert roomy.rate.at(found.x) == pytest.approx([1.0, 1.0], abs=1e-5)


def test_nobody_of_any_weight_is_no_answer_to_fall_over() -> None:
    program = Program(Question((1, 0, 0), {"a": (1, 0, 0)}, ["a"]).view())
    try:
        found = water_fill(program, program.rate, lambda free: np.zeros(len(free)))
    except SolverError as problem:
        assert problem.hint
    else:
        assert np.isfinite(found.x).all()


@pytest.mark.parametrize("seed", range(10))
def test_many_levels_are_all_found(seed: int) -> None:
    """A staircase: the more weight, the later a job is stuck; every job runs out of its own time."""
    rng = np.random.default_rng(seed)
    count = 12
    weights = np.sort(rng.uniform(0.05, 1.0, size=count))
    jobs = [{"profile": "a", "weight": float(w)} for w in weights]
    gpus = 7
    program = Program(Question((gpus, 0, 0), {"a": (1, 0, 0)}, jobs).view())
    found = water_fill(program, program.rate, lambda _: program.weight)
    got = np.sort(per_job(program, program.rate.at(found.x)))
    # In closed form: min(1, t * weight), with t so that all GPUs are used.
    low, high = 0.0, 1e3
    for _ in range(100):
        t = (low + high) / 2
        low, high = (t, high) if np.minimum(1.0, t * weights).sum() < gpus else (low, t)
    assert got == pytest.approx(np.minimum(1.0, low * weights), abs=1e-4)


def test_weights_far_apart_do_not_hide_the_light_ones() -> None:
    jobs = [{"profile": "a", "weight": w} for w in (1e-4, 1.0, 1e4)]
    program = Program(Question((2, 0, 0), {"a": (1, 0, 0)}, jobs).view())
    found = water_fill(program, program.rate, lambda _: program.weight)
    got = per_job(program, program.rate.at(found.x))
    assert got[2] == pytest.approx(1.0, abs=1e-4)
    assert got[1] == pytest.approx(1 - 1e-4, abs=1e-3) and got[1] > 0.99
    assert got.sum() == pytest.approx(2.0, abs=1e-3), "no GPU idles while somebody could use it"


@pytest.mark.parametrize("seed", range(10))
def test_who_is_called_stuck_is_exactly_who_cannot_be_raised(seed: int) -> None:
    question = random_question(seed)
    plain = question.plain()
    program = Program(question.view(), by_job=True)
    vector = level_of(program)
    ones = np.ones(len(vector))
    found = Raise(program, vector).solve(ones, 0 * ones)
    assert found is not None
    stuck = found.stuck(ones > 0, ones)
    dense = plain.level()
    floor = np.full(len(dense), found.t * (1 - 1e-7))
    truly = np.array([plain.most_of(dense, i, floor) <= found.t * (1 + 1e-4) for i in range(len(dense))])
    assert stuck.tolist() == truly.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_a_kept_model_solves_new_numbers_as_a_fresh_one_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = Program(random_question(seed).view(), by_job=True)
    vector = level_of(program)
    kept = Raise(program, vector)
    for _ in range(4):
        weight, floor = rng.uniform(0.2, 1, len(vector)), rng.uniform(0, 0.05, len(vector))
        one, two = kept.solve(weight, floor), Raise(program, vector).solve(weight, floor)
        assert (one is None) == (two is None)
        if one is not None and two is not None:
            assert one.t == pytest.approx(two.t, abs=1e-6) and one.x == pytest.approx(two.x, abs=1e-4)


def test_floors_that_cannot_be_met_are_none() -> None:
    program = Program(Question((1, 0, 0), {"a": (1, 0, 0)}, ["a", "a"]).view(), by_job=True)
    assert Raise(program, program.rate).solve(np.ones(2), np.full(2, 0.9)) is None


@pytest.mark.parametrize("policy", ["max-min-fairness:water_filling=true", "max-min-fairness:water_filling=true,colocation=true"])
@pytest.mark.parametrize("seed", range(8))
def test_filled_shares_can_be_had(seed: int, policy: str) -> None:
    _, effect = random_question(seed, colocation="colocation" in policy, weights=True).ask(policy)
    assert_feasible(effect)
