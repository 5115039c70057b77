"""Programs: the arithmetic, how objectives and constraints add up, and unusual views."""

from typing import Any

import numpy as np
import pytest

from rota.compose.registry import make_policy
from rota.core.state.accounts import time_shares
from rota.errors import OptionError, SolverError
from rota.solver.linear import Linear, greatest, least
from rota.solver.program import Program
from tests.solving import Question, assert_feasible

RATES = {"a": (2, 1, 0.5), "b": (3, 2, 1), "c": (10, 1, 0.1)}
ABC = ("a", "b", "c")


def ask(jobs: Any = ABC, counts: Any = (1, 1, 1), **options: Any) -> Program:
    how = {name: options.pop(name) for name in ("by_job", "by_weight", "apart", "type_aware", "colocation") if name in options}
    return Program(Question(counts, RATES, jobs, **options).view(), **how)


# Arithmetic ---------------------------------------------------------------------------------------------------------------


class Dense:
    """The same vector as a matrix and an offset."""

    def __init__(self, linear: Linear, columns: int) -> None:
        self.matrix = np.zeros((len(linear), columns))
        np.add.at(self.matrix, (linear.row, linear.column), linear.value)
        self.offset = linear.offset

    def at(self, x: Any) -> Any:
        return self.matrix @ x + self.offset


def random_linear(rng: np.random.Generator, rows: int, columns: int) -> Linear:
    count = 3 * rows  # with entries that repeat
    return Linear(
        rng.integers(rows, size=count), rng.integers(columns, size=count), rng.normal(size=count), rng.normal(size=rows)
    )


@pytest.mark.parametrize("seed", range(10))
def test_vectors_add_up_like_matrices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, two, x = random_linear(rng, 4, 6), random_linear(rng, 4, 6), rng.normal(size=6)
    by, weights = rng.normal(size=4), rng.normal(size=4)
    a, b = Dense(one, 6).at(x), Dense(two, 6).at(x)
    for made, expected in (
        (one, a),
        (one + two, a + b),
        (one - two, a - b),
        (-one, -a),
        (one * 3, 3 * a),
        (3 * one, 3 * a),
        (by * one, by * a),
        (one * by, by * a),
        (one / by, a / by),
        (one / 4, a / 4),
        (one + 2, a + 2),
        (2 + one, a + 2),
        (by + one, by + a),
        (one - by, a - by),
        (by - one, by - a),
        (1 - one, 1 - a),
        (weights @ one, [weights @ a]),
        (one.sum(), [a.sum()]),
        (one[np.array([2, 0])], a[[2, 0]]),
        (one[np.array([], dtype=np.int64)], []),
        ((one <= two).over, a - b),
        ((one >= by).over, by - a),
        ((one <= 1).over, a - 1),
        ((one >= 1).over, 1 - a),
    ):
        assert isinstance(made, Linear)
        assert made.at(x) == pytest.approx(np.asarray(expected)), made
        assert len(made) == len(np.asarray(expected))
    assert one.at(x) == pytest.approx(a), "nothing above changed it"


def test_a_list_of_numbers_is_as_good_as_an_array() -> None:
    program = ask()
    x = np.ones(program.columns)
    assert ([1, 2, 3] * program.rate).at(x) == pytest.approx(np.array([1, 2, 3]) * program.rate.at(x))
    assert (program.rate - [1, 2, 3]).at(x) == pytest.approx(program.rate.at(x) - [1, 2, 3])
    assert ([1, 2, 3] @ program.rate).at(x) == pytest.approx([np.array([1, 2, 3]) @ program.rate.at(x)])


# What objectives are made of ---------------------------------------------------------------------------------------------


def test_the_vectors_say_what_they_are_called() -> None:
    jobs = ["a", "a", {"profile": "b", "gpus": 2, "weight": 3.0}]
    program = ask(jobs, (2, 4, 2), prices=(3.0, 2.0, 1.0))
    assert program.members.tolist() == [2, 1] and program.gpus.tolist() == [1, 2] and program.weight.tolist() == [1, 3]
    x = np.full(program.columns, 0.25)
    assert program.time.at(x) == pytest.approx([0.75, 0.75])
    assert program.rate.at(x) == pytest.approx([3.5 / 4, 6 / 4])
    assert program.gpus_used.at(x) == pytest.approx([1.0, 1.0, 1.0]), "a quarter of two single jobs and of one double"
    assert program.dollars_per_hour.at(x) == pytest.approx([2 * 0.25 * 6, 2 * 0.25 * 6])
    assert program.rate_per_dollar.at(x) == pytest.approx([(2 / 3 + 1 / 2 + 0.5) / 4, (3 / 6 + 2 / 4 + 1 / 2) / 4])
    assert program.average_type_rate == pytest.approx([(2 * 2 + 1 * 4 + 0.5 * 2) / 8, (3 * 2 + 2 * 4 + 1 * 2) / 8])
    assert program.best_rate.tolist() == [2, 3]
    # An equal part: each has 2/3, 4/3 and 2/3 GPUs; 8/3 single GPUs are more than all the time, so are 4/3 pairs.
    assert program.equal_rate == pytest.approx([(2 * 2 + 4 * 1 + 2 * 0.5) / 3 / (8 / 3), (2 * 3 + 4 * 2 + 2 * 1) / 6 / (8 / 6)])
    assert program.of([7.0, 7.0, 9.0]).tolist() == [7.0, 9.0]


def test_weights_set_jobs_of_one_kind_apart_unless_told() -> None:
    jobs = ["a", {"profile": "a", "weight": 2.0}, "a"]
    assert ask(jobs).members.tolist() == [2, 1]
    assert ask(jobs, by_weight=False).members.tolist() == [3]
    assert ask(jobs, by_job=True).members.tolist() == [1, 1, 1]
    assert sorted(ask(jobs, by_weight=False, apart=np.array([0, 1, 1])).members.tolist()) == [1, 2]


def test_numbers_that_set_apart_may_be_large_and_sparse() -> None:
    jobs = ["a"] * 4
    program = ask(jobs, apart=np.array([10**9, 3, 10**9, 0]))
    assert sorted(program.members.tolist()) == [1, 1, 2]
    shares = program.solve().shares()
    assert shares.position is not None and sorted(set(shares.position.tolist())) == [0, 1, 2, 3]


def test_shares_of_claimants_smaller_than_a_kind_reach_each_job() -> None:
    jobs = ["a", {"profile": "a", "weight": 4.0}, "b", "a"]
    question = Question((1, 1, 1), RATES, jobs)
    program = Program(question.view())
    program.maximise(least(program.rate / program.average_type_rate / program.weight))
    answer = program.solve().shares()
    assert answer.fault(question.table) == ""
    share = time_shares(answer, question.table.options, question.table.kind)
    assert share[0].tolist() == share[3].tolist() and share[1].sum() > share[0].sum()


# Objectives and constraints ------------------------------------------------------------------------------------------------


def test_the_largest_sum_is_the_best_matching() -> None:
    program = ask()
    program.maximise(program.rate.sum())
    assert program.solve().value == pytest.approx(10 + 2 + 0.5, abs=1e-5)
    assert program.solve("vertex").value == pytest.approx(12.5)


def test_minimising_and_maximising_are_opposites() -> None:
    one, other = ask(), ask()
    one.maximise(least(one.rate / one.average_type_rate))
    other.minimise(greatest(-1.0 * other.rate / other.average_type_rate + 10.0))
    assert other.solve().value == pytest.approx(10.0 - one.solve().value, abs=1e-5)


@pytest.mark.parametrize("face", ["centre", "vertex"])
def test_the_second_objective_keeps_the_first(face: str) -> None:
    plain = ask()
    plain.maximise(least(plain.rate / plain.average_type_rate))
    best = plain.solve()
    both = ask()
    level = both.rate / both.average_type_rate
    both.maximise(least(level))
    both.maximise(both.rate.sum())
    found = both.solve(face)
    assert found.value == pytest.approx(best.value, rel=1e-6), "the value is the first objective's"
    assert level.at(found.x).min() >= best.value * (1 - 1e-5)
    assert both.rate.at(found.x).sum() >= plain.rate.at(best.x).sum() - 1e-4
    assert found.prices == pytest.approx(best.prices, abs=1e-4), "and so are the prices"


def test_a_third_objective_keeps_the_first_two() -> None:
    program = ask(["a", "a", "b", "c"], (2, 1, 1))
    program.maximise(least(program.time))
    program.maximise(program.members @ program.rate)
    program.minimise(program.dollars_per_hour.sum())
    two = ask(["a", "a", "b", "c"], (2, 1, 1))
    two.maximise(least(two.time))
    two.maximise(two.members @ two.rate)
    third, second = program.solve(), two.solve()
    assert program.time.at(third.x).min() == pytest.approx(1.0, abs=1e-4)
    assert (program.members @ program.rate).at(third.x)[0] == pytest.approx((two.members @ two.rate).at(second.x)[0], rel=1e-3)


def test_a_constraint_holds_and_has_a_dual() -> None:
    free, bound = ask(prices=(3.0, 2.0, 1.0)), ask(prices=(3.0, 2.0, 1.0))
    for program in (free, bound):
        program.maximise(program.rate.sum())
    assert free.dollars_per_hour.at(free.solve().x).sum() == pytest.approx(6.0, abs=1e-4)
    bound.subject_to(bound.dollars_per_hour.sum() <= 2.5, bound.rate >= 0.1)
    found = bound.solve()
    assert bound.dollars_per_hour.at(found.x).sum() <= 2.5 + 1e-5
    assert bound.rate.at(found.x).min() >= 0.1 - 1e-5
    assert [len(duals) for duals in found.limit_duals] == [1, 3]
    more = ask(prices=(3.0, 2.0, 1.0))
    more.maximise(more.rate.sum())
    more.subject_to(more.dollars_per_hour.sum() <= 2.51, more.rate >= 0.1)
    assert more.solve().value - found.value == pytest.approx(0.01 * found.limit_duals[0][0], rel=0.05)


def test_constraints_that_contradict_each_other_are_an_error_or_none() -> None:
    program = ask()
    program.subject_to(program.rate >= 100.0)
    program.maximise(program.rate.sum())
    assert program.try_solve() is None
    with pytest.raises(SolverError, match="objective and constraints"):
        program.solve()


def test_a_constraint_may_come_after_the_objective_and_between_solves() -> None:
    program = ask()
    program.maximise(program.rate.sum())
    before = program.solve().value
    program.subject_to(program.time <= 0.5)
    after = program.solve()
    assert after.value < before - 0.1 and program.time.at(after.x).max() <= 0.5 + 1e-5


def test_no_objective_at_all_gives_some_feasible_answer() -> None:
    program = ask()
    program.subject_to(program.rate[np.array([0])] >= 1.0)
    found = program.solve()
    assert program.rate.at(found.x)[0] >= 1.0 - 1e-6 and program.time.at(found.x).max() <= 1 + 1e-6


def test_a_smallest_entry_below_zero_is_still_maximised() -> None:
    """Everybody is short of the goal: the shortest falls as little short as possible."""
    program, plain = ask(), ask()
    program.maximise(least(program.rate - 100.0))
    plain.maximise(least(plain.rate))
    assert program.solve().value == pytest.approx(plain.solve().value - 100.0, abs=1e-4)


def test_a_largest_entry_below_zero_is_still_minimised() -> None:
    program = ask()
    program.subject_to(program.rate <= 0.25)
    program.minimise(greatest(program.rate * -1.0))
    assert program.solve().value == pytest.approx(-0.25, abs=1e-5)


def test_an_entry_that_nothing_changes_is_no_obstacle() -> None:
    """A constant entry below zero bounds the smallest, and the others may do as they like."""
    program = ask()
    program.maximise(least(program.rate * np.array([0.0, 1.0, 1.0]) - np.array([1.0, 0.0, 0.0])))
    assert program.solve().value == pytest.approx(-1.0, abs=1e-5)


def test_a_goal_that_is_no_number_says_what_to_do() -> None:
    program = ask()
    with pytest.raises(OptionError, match="an objective must be one number") as raised:
        program.maximise(program.rate)
    assert ".sum()" in raised.value.hint and "least(...)" in raised.value.hint
    with pytest.raises(OptionError, match="one number") as raised:
        program.minimise(program.rate)
    assert "greatest(...)" in raised.value.hint
    with pytest.raises(OptionError, match="no optimum this way round") as raised:
        program.maximise(greatest(program.rate))
    assert raised.value.hint == "least(...)"
    with pytest.raises(OptionError, match="no optimum this way round") as raised:
        program.minimise(least(program.rate))
    assert raised.value.hint == "greatest(...)"
    with pytest.raises(OptionError, match="centre, vertex"):
        program.solve("middle")


# Odd views -----------------------------------------------------------------------------------------------------------------

POLICIES = [
    "max-min-fairness",
    "max-min-fairness:face=vertex",
    "max-min-fairness:type_aware=false",
    "max-min-fairness:water_filling=true",
    "max-min-fairness:colocation=true",
    "max-min-fairness:water_filling=true,colocation=true",
    "hierarchical",
    "hierarchical:type_aware=false",
    "finish-time-fairness",
    "finish-time-fairness:type_aware=false",
    "finish-time-fairness:colocation=true",
    "makespan",
    "makespan:type_aware=false",
    "makespan:colocation=true",
    "max-throughput",
    "max-throughput:type_aware=false",
    "min-cost",
    "min-cost:slo=true",
    "min-cost:slo=true,colocation=true",
    "isolated",
    "allox",
    "fifo:colocation=true",
]
PAIRS = {("a", "b"): ((1.5, 2.0),) * 3, ("a", "a"): ((1.6, 1.6),) * 3}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["alone", "shared"])
def test_nobody_there(policy: str, pairs: Any) -> None:
    answer, effect = Question((1, 1, 1), RATES, (), pairs=pairs).ask(policy)
    assert len(effect.share) == 0 and answer.fault(Question((1, 1, 1), RATES, ()).table) == ""
    objective = getattr(make_policy(policy), "objective", None)
    if objective is not None:
        objective(effect)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["alone", "shared"])
def test_one_job_has_all_it_can_use(policy: str, pairs: Any) -> None:
    _, effect = Question((1, 1, 1), RATES, ("a",), pairs=pairs).ask(policy)
    assert_feasible(effect)
    if any(word in policy for word in ("min-cost", "isolated", "type_aware=false")):  # the fastest is not what they look for
        assert effect.share.sum() > 0.9
    else:
        assert effect.rate[0] == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_without_a_way_to_run_is_left_out_and_harms_nobody(policy: str) -> None:
    """`d` runs nowhere: no rate on any type. The core does not even show it, but its kind is there."""
    rates = {**RATES, "d": (0, 0, 0)}
    question = Question((1, 1, 1), rates, ("a", "d", "b"), pairs={**PAIRS, ("a", "d"): ((1.0, 1.0),) * 3})
    _, effect = question.ask(policy)
    _, without = Question((1, 1, 1), RATES, ("a", "b"), pairs=PAIRS).ask(policy)
    assert effect.view.jobs.ids.tolist() == [0, 2]
    assert_feasible(effect)
    assert effect.rate == pytest.approx(without.rate, abs=1e-6) and (effect.rate > 0).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_only_jobs_without_a_way_to_run(policy: str) -> None:
    question = Question((1, 1, 1), {"d": (0, 0, 0)}, ("d", "d"))
    _, effect = question.ask(policy)
    assert effect.share.sum() == 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("usable", [(0, 1, 1), (1, 0, 0), (0, 0, 0)])
def test_a_pool_out_of_order_gets_no_work(policy: str, usable: Any) -> None:
    question = Question((1, 1, 1), RATES, ("a", "a", "b"), usable=usable, pairs=PAIRS)
    _, effect = question.ask(policy)
    assert_feasible(effect)
    if sum(usable) and "allox" not in policy and "fifo" not in policy:
        assert (effect.rate > 0).all()


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in ("allox", "isolated")])
def test_a_gang_wider_than_what_is_usable_waits_and_harms_nobody(policy: str) -> None:
    jobs = [{"profile": "a", "gpus": 1}, {"profile": "b", "gpus": 4}, {"profile": "b", "gpus": 2}]
    question = Question((4, 4, 0), RATES, jobs, usable=(2, 1, 0), pairs=PAIRS)
    _, effect = question.ask(policy)
    assert_feasible(effect)
    assert effect.rate[1] == 0.0, "it fits nowhere now"
    if "fifo" not in policy:
        assert effect.rate[0] > 0 and effect.rate[2] > 0


def test_a_private_part_of_a_pool_that_is_too_small_is_still_a_part() -> None:
    """As in Gavel, the isolated share is a closed form: nobody looks whether a gang fits."""
    jobs = [{"profile": "a", "gpus": 1}, {"profile": "b", "gpus": 4}]
    _, effect = Question((4, 4, 0), RATES, jobs, usable=(2, 1, 0)).ask("isolated")
    assert effect.share[1].sum() == pytest.approx(3 / 2 / 4)


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_that_are_done_or_endless_are_no_obstacle(policy: str) -> None:
    """A job may be believed done and still run; and nobody may have said how many steps one has."""
    jobs = [{"profile": "a", "steps": 0.0}, {"profile": "b", "steps": None}, {"profile": "c", "steps": 100.0}]
    _, effect = Question((1, 1, 1), RATES, jobs).ask(policy)
    assert_feasible(effect)
    assert np.isfinite(effect.share).all()
    if policy != "allox":  # there it may wait for the one that is about to end
        assert effect.rate[2] > 0
