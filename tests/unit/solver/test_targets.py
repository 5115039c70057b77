"""The lowest common target, against bisection; and that hopeless jobs do not affect others."""

from typing import Any

import numpy as np
import pytest

from rota.solver.program import Program
from rota.solver.targets import lowest_target
from tests.solving import Plain, Question, assert_feasible, random_question


class Slow:
    """Finish-time fairness one program at a time."""

    def __init__(self, plain: Plain, steps: Any, age: Any, fair: Any) -> None:
        self.plain, self.steps, self.age, self.fair = plain, steps, age, fair
        self.best = plain.rate.max(axis=1)

    def need(self, t: float) -> Any:
        left = t * self.fair - self.age
        return np.where(left > 0, self.steps / np.maximum(left, 1e-300), np.inf)

    def floor(self, t: float, fixed: Any) -> Any:
        return np.where(np.isnan(fixed), np.minimum(self.need(t), self.best), np.nan_to_num(fixed))

    def can(self, t: float, fixed: Any) -> bool:
        rate = self.plain.rate
        return self.plain.best(np.zeros(rate.shape[1]), -rate, -self.floor(t, fixed) * (1 - 1e-7)) is not None

    def lowest(self, fixed: Any) -> float:
        low, high = 0.0, 1.0
        while not self.can(high, fixed):
            assert high < 1e9
            low, high = high, 2 * high
        for _ in range(34):
            middle = (low + high) / 2
            low, high = (low, middle) if self.can(middle, fixed) else (middle, high)
        return high

    def rates(self) -> tuple[float, Any]:
        """The first target, and everybody's rate in the lexicographic optimum."""
        fixed = np.full(len(self.steps), np.nan)
        first = None
        while np.isnan(fixed).any():
            t = self.lowest(fixed)
            first = t if first is None else first
            floor = self.floor(t, fixed)
            more = {
                j: self.plain.most_of(self.plain.rate, j, floor * (1 - 1e-6)) / floor[j] - 1
                for j in np.flatnonzero(np.isnan(fixed))
            }
            for job, room in more.items():
                if room <= max(1e-4, min(more.values())):
                    fixed[job] = floor[job]
        assert first is not None
        return first, fixed


def ask(question: Question, colocation: bool, age: Any) -> tuple[Program, Any, Slow]:
    view = question.view()
    program = Program(view, by_job=True, colocation=colocation)
    steps = view.jobs.steps_left
    fair = steps / program.equal_rate
    slow = Slow(question.plain(colocation), steps, age, fair)
    found = lowest_target(program, slow.need, (age + steps / program.best_rate) / fair)
    return program, found, slow


@pytest.mark.parametrize("colocation", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("seed", range(8))
def test_the_largest_rho_is_as_low_as_can_be_and_then_the_next(seed: int, colocation: bool) -> None:
    question = random_question(seed, colocation=colocation, most=5)
    rng = np.random.default_rng(seed)
    age = rng.choice([0.0, 1.0], size=len(question.specs)) * rng.uniform(0, 3000, size=len(question.specs))
    program, found, slow = ask(question, colocation, age)
    first, expected = slow.rates()
    rate = program.rate.at(found.x)
    assert (rate >= np.minimum(slow.need(first), slow.best) * (1 - 1e-4)).all(), "everybody meets the first target or cannot"
    assert rate == pytest.approx(expected, rel=2e-3)


def test_the_value_is_the_target_that_binds() -> None:
    question = Question((1, 0, 0), {"a": (1, 0, 0)}, [{"profile": "a", "steps": 100.0}] * 2)
    _, found, slow = ask(question, False, np.zeros(2))
    assert found.value == pytest.approx(slow.lowest(np.full(2, np.nan)), rel=1e-5)


def test_a_hopeless_job_does_not_decide_for_others() -> None:
    """Job 0 waited so long that nothing helps. It gets its best rate, and the other two share what is left."""
    rates = {"a": (1, 0, 0), "b": (0, 1, 0)}
    jobs = [{"profile": "a", "steps": 100.0}, {"profile": "b", "steps": 100.0}, {"profile": "b", "steps": 100.0}]
    question = Question((1, 1, 0), rates, jobs)
    program, found, _ = ask(question, False, np.array([1e9, 0.0, 0.0]))
    assert program.rate.at(found.x) == pytest.approx([1.0, 0.5, 0.5], abs=1e-4)


def test_a_hopeless_job_takes_what_it_can_use_from_those_with_time() -> None:
    rates = {"a": (1, 0, 0)}
    question = Question((1, 0, 0), rates, [{"profile": "a", "steps": 100.0, "age": 1e7}, {"profile": "a", "steps": 100.0}])
    _, effect = question.ask("finish-time-fairness")
    assert_feasible(effect)
    assert effect.rate.sum() == pytest.approx(1.0, abs=1e-4) and effect.rate[0] > effect.rate[1]


@pytest.mark.parametrize("policy", ["finish-time-fairness", "finish-time-fairness:type_aware=false"])
def test_no_gpu_idles_while_somebody_could_use_it(policy: str) -> None:
    rates = {"a": (2.0, 1.0, 0.5), "b": (3.0, 2.0, 1.0)}
    for counts in ((1, 1, 1), (2, 1, 0), (1, 0, 3)):
        _, effect = Question(counts, rates, ["a", "b", "a", "b", "b"]).ask(policy)
        assert effect.share.sum() == pytest.approx(sum(counts), abs=1e-3)


def test_a_floor_that_is_above_every_need_is_where_it_starts() -> None:
    """More GPUs than jobs: everybody has its best rate."""
    question = Question((4, 0, 0), {"a": (2, 0, 0), "b": (3, 0, 0)}, ["a", "b"])
    _, effect = question.ask("finish-time-fairness")
    assert effect.rate == pytest.approx([2.0, 3.0], abs=1e-4)
