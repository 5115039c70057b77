"""Programs over kinds, with and without shared GPUs, against one column for every job and every pair of jobs."""

from typing import Any

import numpy as np
import pytest

from rota.core.state.accounts import time_shares
from rota.solver.filling import water_fill
from rota.solver.linear import least
from rota.solver.program import Program
from tests.solving import Question, assert_feasible, random_question

SEEDS = range(30)


def objective_of(program: Program, name: str) -> Any:
    if name == "sum":
        return program.members @ program.rate
    return least(program.rate * (program.gpus / program.average_type_rate) / program.weight)


@pytest.mark.parametrize("weights", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("seed", SEEDS)
def test_shared_columns_reach_the_optimum_of_all_pairs(seed: int, weights: bool) -> None:
    """Weights make several claimants of a kind, whose sides are columns of their own."""
    question = random_question(seed, colocation=True, weights=weights)
    plain, view = question.plain(colocation=True), question.view()
    best = plain.best(plain.rate.sum(axis=0))
    assert best is not None
    expected = {"sum": best[0], "least": plain.raised(plain.level() / view.jobs.weight[:, None])}
    for name, by_job in (("sum", False), ("least", False), ("sum", True), ("least", True)):
        program = Program(view, colocation=True, by_job=by_job)
        program.maximise(objective_of(program, name))
        found = program.solve()
        assert found.value == pytest.approx(expected[name], rel=1e-5), (name, by_job)
        answer = found.shares()
        assert answer.fault(question.table) == ""
        share: Any = time_shares(answer, question.table.options, question.table.kind)
        assert_feasible(effect_of(question, share))


def effect_of(question: Question, share: Any) -> Any:
    from rota.solver.effect import Effect

    return Effect(question.view(), share)


@pytest.mark.parametrize("colocation", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("seed", SEEDS)
def test_kinds_together_are_jobs_one_by_one(seed: int, colocation: bool) -> None:
    """The same objective; and where the optimum is unique, the same GPU time of each kind in each pool."""
    question = random_question(seed, colocation=colocation)
    view = question.view()
    values, used, filled = [], [], []
    for by_job in (False, True):
        program = Program(view, colocation=colocation, by_job=by_job)
        program.maximise(objective_of(program, "sum"))
        found = program.solve()
        values.append(found.value)
        share: Any = time_shares(found.shares(), question.table.options, question.table.kind)
        rows = view.options.by_share_column[view.jobs.kind]
        used.append(np.bincount(rows[rows >= 0], weights=share[rows >= 0], minlength=len(view.options)))
        again = Program(view, colocation=colocation, by_job=by_job)
        level = again.rate * (again.gpus / again.average_type_rate)
        filled.append(level.at(water_fill(again, level, lambda _, p=again: p.weight).x)[again.who.of])
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    assert used[0] == pytest.approx(used[1], abs=1e-2)
    assert filled[0] == pytest.approx(filled[1], rel=2e-4)


TWINS = {("a", "a"): ((0.9, 0.9),) * 3}


@pytest.mark.parametrize("how", [{}, {"by_job": True}, {"apart": np.array([5])}])
def test_the_only_one_of_its_kind_never_shares_with_itself(how: Any) -> None:
    program = Program(Question((1, 0, 0), {"a": (1, 0, 0)}, ["a"], pairs=TWINS).view(), colocation=True, **how)
    program.maximise(program.rate.sum())
    found = program.solve()
    assert found.value == pytest.approx(1.0, abs=1e-6)
    beside = program.view.options.partner_kind[program.option] >= 0
    assert found.by_side[beside] == pytest.approx(0.0, abs=1e-6)


def test_two_of_a_kind_share() -> None:
    for how in ({}, {"by_job": True}):
        program = Program(Question((1, 0, 0), {"a": (1, 0, 0)}, ["a", "a"], pairs=TWINS).view(), colocation=True, **how)
        program.maximise(program.rate.sum() if how else program.members @ program.rate)
        assert program.solve().value == pytest.approx(1.8, abs=1e-5)


def test_a_heavy_one_among_many_of_its_kind_shares_only_while_there_are_others() -> None:
    """Job 0 has a claim of its own; two are of the same kind. On one GPU of two there are three jobs to pair up."""
    jobs = [{"profile": "a", "weight": 9.0}, "a", "a"]
    question = Question((2, 0, 0), {"a": (1, 0, 0)}, jobs, pairs=TWINS)
    program = Program(question.view(), colocation=True)
    heavy = int(np.argmax(program.weight))
    shared = (program.view.options.partner_kind[program.option] >= 0) & (program.claimant == heavy)
    x = np.zeros(program.columns)
    x[program._column[shared]] = 1.0  # all its time beside others, who are never there
    row, column, value, right, equal = program.rows([])
    used = np.bincount(row, weights=value * x[column], minlength=len(right))
    assert (used[equal:] > right[equal:] + 1e-6).any(), "some row forbids it"


def test_a_kind_nobody_of_which_is_here_is_nobodys_partner() -> None:
    """Kinds stay known after their jobs have gone: here `b` is known and `usable` has no room for its gang."""
    rates = {"a": (1, 0, 0), "b": (1, 0, 0)}
    jobs = [{"profile": "a", "gpus": 2}, {"profile": "b", "gpus": 2}, {"profile": "a", "gpus": 1}]
    question = Question((2, 0, 0), rates, jobs, pairs={("a", "b"): ((0.9, 0.9),) * 3}, usable=(1, 0, 0))
    program = Program(question.view(), colocation=True)
    program.maximise(program.members @ program.rate)
    assert program.solve().value == pytest.approx(1.0, abs=1e-6)


def test_both_sides_count_each_their_own_rate_and_the_gpu_once() -> None:
    pairs = {("a", "b"): ((0.75, 2.0),) * 3}
    question = Question((1, 0, 0), {"a": (1, 0, 0), "b": (4, 0, 0)}, ["a", "b"], pairs=pairs)
    program = Program(question.view(), colocation=True)
    assert program.columns == 3, "two alone, and one for both sides together"
    x = np.where(program.view.options.partner_kind[program.option] >= 0, 1.0, 0.0)
    x = np.array([x[program._column == column].max() for column in range(program.columns)])
    assert program.rate.at(x) == pytest.approx([0.75, 2.0])
    assert program.gpus_used.at(x) == pytest.approx([1.0])
    assert program.time.at(x) == pytest.approx([1.0, 1.0])


def test_sides_of_unequal_numbers_are_in_proportion() -> None:
    """Three of kind a beside one of kind b: each of the three is there a third of the time at most."""
    pairs = {("a", "b"): ((1.0, 1.0),) * 3}
    question = Question((4, 0, 0), {"a": (1, 0, 0), "b": (1, 0, 0)}, ["a", "b", "a", "a"], pairs=pairs)
    program = Program(question.view(), colocation=True)
    program.maximise((program.members * 0.0 + 1.0) @ program.rate)
    program.minimise(program.gpus_used.sum())
    found = program.solve()
    assert program.gpus_used.at(found.x).sum() == pytest.approx(3.0, abs=1e-3)
    share: Any = time_shares(found.shares(), question.table.options, question.table.kind)
    assert_feasible(effect_of(question, share), tolerance=1e-4)
