"""Properties of every policy that shares time, on small random instances."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rota.compose.registry import make_policy
from rota.model.tenants import Tenants
from rota.policies.hierarchical import Hierarchical
from rota.solver.linear import least
from rota.solver.program import Program
from tests.examples import examples
from tests.solving import Question, assert_feasible, norm

PROFILES = "abc"
SHARING = [
    "max-min-fairness",
    "max-min-fairness:face=vertex",
    "max-min-fairness:water_filling=true",
    "hierarchical",
    "finish-time-fairness",
    "makespan",
    "max-throughput",
    "max-throughput:face=vertex",
    "min-cost",
    "min-cost:slo=true",
]
PACKED = [f"{name}{',' if ':' in name else ':'}colocation=true" for name in SHARING]
BLIND = [f"{name}{',' if ':' in name else ':'}type_aware=false" for name in SHARING]

rate = st.one_of(st.just(0.0), st.floats(0.1, 20.0))


class Facts:
    """What a question is made of, so that it can be asked with a difference."""

    def __init__(self, counts: Any, rates: Any, jobs: Any, pairs: Any) -> None:
        self.counts, self.rates, self.jobs, self.pairs = counts, rates, jobs, pairs

    def ask(self, **changes: Any) -> Question:
        facts = {"counts": self.counts, "rates": self.rates, "jobs": self.jobs, "pairs": self.pairs, **changes}
        return Question(facts["counts"], facts["rates"], facts["jobs"], pairs=facts["pairs"], prices=(3.0, 2.0, 0.5))

    def __repr__(self) -> str:
        return f"Question({self.counts}, {self.rates}, {self.jobs}, pairs={self.pairs})"


@st.composite
def facts(draw: st.DrawFn, colocation: bool = False, weights: bool = True, gangs: bool = True, deadlines: bool = False) -> Facts:
    counts = [draw(st.integers(2, 3)), draw(st.integers(0, 3)), draw(st.integers(0, 3))]
    profiles = PROFILES[: draw(st.integers(1, 3))]
    rates = {p: (draw(st.floats(0.1, 20.0)), draw(rate), draw(rate)) for p in profiles}
    jobs = []
    for _ in range(draw(st.integers(1, 6))):
        job: dict[str, Any] = {"profile": draw(st.sampled_from(profiles)), "steps": float(draw(st.integers(10, 10000)))}
        if gangs:
            job["gpus"] = draw(st.sampled_from([1, 1, 2]))
        if weights:
            job["weight"] = draw(st.sampled_from([1.0, 1.0, 2.0, 0.25]))
        if deadlines and draw(st.booleans()):
            job["deadline_seconds"] = float(draw(st.integers(10, 100000)))
        jobs.append(job)
    pairs = None
    if colocation:
        pairs = {}
        for i, a in enumerate(profiles):
            for b in profiles[i:]:
                x, y = draw(st.floats(0.3, 1.0)), draw(st.floats(0.3, 1.0))
                y = x if a == b else y
                pairs[a, b] = tuple((rates[a][t] * x, rates[b][t] * y) for t in range(3))
    return Facts(counts, rates, jobs, pairs)


quick = examples(40)
few = examples(15)


@pytest.mark.parametrize("policy", [*SHARING, *BLIND, "isolated"])
@given(asked=facts(deadlines=True))
@few
def test_shares_can_be_had(policy: str, asked: Facts) -> None:
    _, effect = asked.ask().ask(policy)
    assert_feasible(effect)


@pytest.mark.parametrize("policy", PACKED)
@given(asked=facts(colocation=True, deadlines=True))
@few
def test_shares_of_shared_gpus_can_be_had(policy: str, asked: Facts) -> None:
    _, effect = asked.ask().ask(policy)
    assert_feasible(effect)


@pytest.mark.parametrize("policy", [p for p in (*SHARING, *PACKED) if "vertex" not in p])
@given(asked=facts(colocation=True, weights=False), copies=st.integers(2, 3))
@few
def test_jobs_that_are_alike_get_the_same(policy: str, asked: Facts, copies: int) -> None:
    twins = [job for job in asked.jobs[:2] for _ in range(copies)]
    _, effect = asked.ask(jobs=twins).ask(policy)
    for first in range(0, len(twins), copies):
        for other in range(first + 1, first + copies):
            assert effect.share[other] == pytest.approx(effect.share[first], abs=1e-2)


@pytest.mark.parametrize("colocation", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("name", ["max-min-fairness", "max-throughput", "min-cost", "makespan", "finish-time-fairness"])
@given(asked=facts(colocation=True))
@few
def test_to_know_the_types_is_never_worse(name: str, colocation: bool, asked: Facts) -> None:
    """Each in its own objective: the blind answer is one of those the aware one could give."""
    question = asked.ask()
    more = ",colocation=true" if colocation else ""
    objective = make_policy(name).objective  # type: ignore[attr-defined]
    with np.errstate(divide="ignore"):
        type_aware = objective(question.ask(f"{name}:type_aware=true{more}")[1])
        type_agnostic = objective(question.ask(f"{name}:type_aware=false{more}")[1])
        alone = objective(question.ask(f"{name}:type_aware=true")[1])
    if name in ("makespan", "finish-time-fairness"):
        type_aware, type_agnostic, alone = -type_aware, -type_agnostic, -alone
    assert type_aware >= type_agnostic - 1e-4 * abs(type_agnostic)
    assert type_aware >= alone - 1e-4 * abs(alone), "nor is to be allowed to share"


@pytest.mark.parametrize("colocation", ["false", "true"])
@given(asked=facts(colocation=True))
@quick
def test_water_filling_leaves_nobody_behind_who_max_min_does_not(colocation: str, asked: Facts) -> None:
    question = asked.ask()
    weight = question.view().jobs.weight
    filled = np.sort(norm(question.ask(f"max-min-fairness:water_filling=true,colocation={colocation}")[1]) / weight)
    plain = np.sort(norm(question.ask(f"max-min-fairness:colocation={colocation}")[1]) / weight)
    for mine, other in zip(filled, plain, strict=True):
        if mine > other * (1 + 1e-3):
            return
        assert mine >= other * (1 - 1e-3), "lexicographically no worse"


@given(
    asked=facts(weights=False, gangs=False),
    parts=st.tuples(st.floats(0.2, 5.0), st.floats(0.2, 5.0)),
    policy=st.sampled_from(["fairness", "fifo"]),
)
@quick
def test_tenants_with_the_same_jobs_get_what_their_weights_say(asked: Facts, parts: tuple[float, float], policy: str) -> None:
    """While no job has all its time: then everything is in proportion."""
    jobs = [{**job, "tenant": tenant} for tenant in ("x", "y") for job in asked.jobs * 4]
    tenants = Tenants({"x": parts[0], "y": parts[1]}, {"x": policy, "y": policy})
    _, effect = asked.ask(jobs=jobs).ask(Hierarchical(tenants))
    assert_feasible(effect)
    half = len(jobs) // 2
    level = norm(effect)
    if policy == "fairness" and effect.share.sum(axis=1).max() < 0.999:
        assert level[:half].sum() / level[half:].sum() == pytest.approx(parts[0] / parts[1], rel=1e-2)
    else:
        heavy, light = (level[:half], level[half:]) if parts[0] >= parts[1] else (level[half:], level[:half])
        assert heavy.sum() >= light.sum() * (1 - 1e-3)


@given(st.floats(0.1, 10.0), st.integers(2, 6), st.integers(1, 5))
@quick
def test_what_a_tenant_cannot_use_goes_to_its_siblings_first(weight: float, gpus: int, others: int) -> None:
    """`lab/x` has one job and a great claim: what one job leaves of it goes to `lab/y`, before anybody outside the lab gains."""
    jobs = [{"profile": "a", "tenant": "lab/x"}]
    jobs += [{"profile": "a", "tenant": "lab/y"}] * 8 + [{"profile": "a", "tenant": "z"}] * 8
    tenants = Tenants({"lab": 1.0, "z": 1.0, "lab/x": 100.0 * weight, "lab/y": weight})
    _, effect = Question((gpus, 0, 0), {"a": (1, 0, 0)}, jobs).ask(Hierarchical(tenants))
    rates = effect.rate
    assert rates.sum() == pytest.approx(gpus, abs=1e-3)
    assert rates[1:9].sum() + rates[0] == pytest.approx(gpus / 2, abs=1e-2), "the lab keeps its half"
    assert rates[0] == pytest.approx(min(1.0, gpus / 2 * 100 / 101), abs=2e-2)


@pytest.mark.parametrize("colocation", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("goal", ["sum", "least"])
@given(asked=facts(colocation=True))
@quick
def test_prices_support_the_answer(goal: str, colocation: bool, asked: Facts) -> None:
    """A pool with a price is full; the objective is what GPUs and time are worth; what is used is worth what it costs."""
    question = asked.ask()
    program = Program(question.view(), colocation=colocation)
    level = program.rate * (program.gpus / program.average_type_rate) / program.weight
    program.maximise(program.members @ level if goal == "sum" else least(level))
    found = program.solve()
    capacity = program.view.capacity.astype(float)
    scale = max(found.value, 1e-9)
    assert (found.prices >= 0).all()
    slack = capacity - program.gpus_used.at(found.x)
    assert (found.prices * slack <= 1e-4 * scale).all(), "a pool with a price is full"
    assert found.time_duals is not None
    worth = found.prices @ capacity + found.time_duals.sum()
    assert found.value <= worth * (1 + 1e-5) + 1e-9, "weak duality"
    assert found.value == pytest.approx(worth, rel=1e-4), "and no gap: there are no other constraints"
    idle = 1 - program.time.at(found.x)
    assert (found.time_duals * idle <= 1e-4 * scale).all(), "time has a price only for those who have none left"
    if colocation:
        return
    duals = program.members if goal == "sum" else found.goal_duals
    gain = np.zeros(program.columns)
    np.add.at(gain, level.column, level.value * duals[level.row])
    used = program.gpus_used
    cost = np.zeros(program.columns)
    np.add.at(cost, used.column, used.value * found.prices[used.row])
    cost += found.time_duals[program.claimant]
    assert (gain <= cost + 1e-4 * scale).all(), "nothing is worth more than it costs"
    assert (found.x * (cost - gain) <= 1e-4 * scale).all(), "what is used is worth it"


@pytest.mark.parametrize("colocation", [False, True], ids=["alone", "shared"])
@given(asked=facts(colocation=True))
@quick
def test_no_makespan_is_shorter(colocation: bool, asked: Facts) -> None:
    question = asked.ask()
    plain, view = question.plain(colocation), question.view()
    fastest = plain.raised(plain.rate / view.jobs.steps_left[:, None])
    assert fastest is not None
    policy = f"makespan:colocation={'true' if colocation else 'false'}"
    found = make_policy(policy).objective(question.ask(policy)[1])  # type: ignore[attr-defined]
    assert found == pytest.approx(1 / fastest, rel=1e-4)


@pytest.mark.parametrize("colocation", [False, True], ids=["alone", "shared"])
@given(asked=facts(colocation=True))
@quick
def test_no_sum_of_throughputs_or_steps_per_dollar_is_larger(colocation: bool, asked: Facts) -> None:
    question = asked.ask()
    plain = question.plain(colocation)
    word = "true" if colocation else "false"
    best = plain.best(plain.rate.sum(axis=0))
    price = np.array([question.view().cluster.price(pool) for pool in question.types])
    dollars = np.array([price[pool] * gpus for _, pool, gpus, _ in plain.units])
    cheapest = plain.best(plain.rate.sum(axis=0) / dollars)
    assert best is not None and cheapest is not None
    for policy, expected in ((f"max-throughput:colocation={word}", best[0]), (f"min-cost:colocation={word}", cheapest[0])):
        found = make_policy(policy).objective(question.ask(policy)[1])  # type: ignore[attr-defined]
        assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("colocation", [False, True], ids=["alone", "shared"])
@given(asked=facts(colocation=True, deadlines=True))
@quick
def test_deadlines_that_can_be_met_are_met(colocation: bool, asked: Facts) -> None:
    question = asked.ask()
    plain, view = question.plain(colocation), question.view()
    need = np.where(np.isfinite(view.jobs.deadline_s), view.jobs.steps_left / view.jobs.deadline_s, 0.0)
    asks = need > 0
    best = plain.rate.max(axis=1)
    borderline = (np.abs(need - best) <= 1e-3 * best) & asks
    assume(not borderline.any())
    answer, effect = question.ask(f"min-cost:slo=true,colocation={'true' if colocation else 'false'}")
    assert_feasible(effect)
    met = effect.rate >= need * (1 - 1e-4)
    alone_impossible = asks & (need > best)
    for job in np.flatnonzero(alone_impossible).tolist():
        assert job in answer.notes and "cannot be met" in answer.notes[job]
    assert not (set(answer.notes) - set(np.flatnonzero(asks).tolist())), "nobody else is told anything"
    for job in np.flatnonzero(asks).tolist():
        assert met[job] or job in answer.notes, "a deadline is met or its owner is told"
    possible = np.where(alone_impossible, 0.0, need)
    if plain.best(np.zeros(len(plain.units)), -plain.rate, -possible * (1 + 1e-3)) is not None:
        assert met[asks & ~alone_impossible].all(), "those that can be met together are all met"
        assert set(answer.notes) == set(np.flatnonzero(alone_impossible).tolist()), "the impossible ones are dropped alone"


@pytest.mark.parametrize(
    "policy", [*SHARING, "max-min-fairness:colocation=true", "finish-time-fairness:colocation=true", "isolated"]
)
@given(asked=facts(colocation=True, deadlines=True))
@few
def test_the_same_question_has_the_same_answer_to_the_last_bit(policy: str, asked: Facts) -> None:
    first, second = asked.ask().ask(policy)[0], asked.ask().ask(policy)[0]
    for name in ("option", "share", "position", "prices"):
        one, two = getattr(first, name), getattr(second, name)
        assert (one is None) == (two is None)
        if one is not None:
            assert np.asarray(one).tobytes() == np.asarray(two).tobytes()


@pytest.mark.parametrize(
    "policy", ["max-min-fairness", "max-min-fairness:water_filling=true", "max-min-fairness:colocation=true"]
)
@given(asked=facts(colocation=True), factor=st.sampled_from([0.01, 0.5, 3.0, 1000.0]))
@quick
def test_how_long_a_step_is_changes_nobodys_share(policy: str, asked: Facts, factor: float) -> None:
    """A job that counts its steps in other units runs as fast as before."""
    scaled = {p: tuple(r * (factor if p == "a" else 1) for r in rates) for p, rates in asked.rates.items()}
    pairs = {
        (a, b): tuple((x * (factor if a == "a" else 1), y * (factor if b == "a" else 1)) for x, y in both)
        for (a, b), both in asked.pairs.items()
    }
    before = asked.ask().ask(policy)[1]
    after = asked.ask(rates=scaled, pairs=pairs).ask(policy)[1]
    assert after.share == pytest.approx(before.share, abs=1e-2)
