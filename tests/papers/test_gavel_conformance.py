"""Gavel's policies on small cases, numbers in and numbers out: objectives to 1e-4, unique allocations to 1e-3."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from rota.beliefs.rates import Rates
from rota.compose.registry import make_policy
from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.order import order_candidates
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.state.accounts import time_shares
from rota.model.cluster import Cluster, Node
from rota.model.events import Submitted
from rota.model.job import JobSpec
from rota.model.tenants import Tenants
from rota.model.view import View
from rota.placers.packed import Packed
from rota.policies.hierarchical import Hierarchical
from rota.solver.effect import Effect
from tests.shared import SHARED, needs_shared

TYPES = ("V100", "P100", "K80")
T2 = ((2, 1, 0.5), (3, 2, 1))
T3 = (*T2, (10, 1, 0.1))
PERFECT = {(0, 1): ((2, 3), (1, 2), (0.5, 1))}
C123, C111 = (1, 2, 3), (1, 1, 1)

pytestmark = needs_shared


def cases() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SHARED / "expected/gavel/conformance_cases.json").read_text())
    return found


class Case:
    """Jobs with rates by type on some GPUs, as a scheduler shows them to a policy."""

    def __init__(
        self,
        rates: Any,
        counts: tuple[int, ...],
        *,
        gpus: Any = None,
        weights: Any = None,
        steps: Any = None,
        ages: Any = None,
        tenants: Any = None,
        pairs: Any = None,
        prices: Any = None,
        deadlines: Any = None,
        ids: Any = None,
    ) -> None:
        count = len(rates)
        gpus, weights = gpus or [1] * count, weights or [1.0] * count
        self.ids = ids or list(range(count))
        nodes = [Node(name, name, number) for name, number in zip(TYPES, counts, strict=True) if number]
        table = {(f"job{i}", name, gpus[i]): rates[i][t] for i in range(count) for t, name in enumerate(TYPES)}
        shared_rates = {
            (f"job{a}", f"job{b}", name, gpus[a]): both[t]
            for (a, b), both in (pairs or {}).items()
            for t, name in enumerate(TYPES)
        }
        facts = {"dollars_per_hour": dict(zip(TYPES, prices, strict=True))} if prices else {}
        self.core = Scheduler(
            Cluster.of(nodes, **facts), Packed(), Settings(colocation=bool(pairs)), rates=Rates(table=table, pairs=shared_rates)
        )
        now = max(ages or [0.0])
        self.core.fold(
            now,
            [
                Submitted(
                    self.ids[i],
                    JobSpec(
                        gpus=gpus[i],
                        weight=weights[i],
                        profile=f"job{i}",
                        steps=float(steps[i]) if steps else 1e6,
                        tenant=tenants[i] if tenants else "",
                        deadline_seconds=(deadlines or {}).get(i),
                    ),
                    now - (ages[i] if ages else 0.0),
                )
                for i in range(count)
            ],
        )

    def view(self, memory: Any = None) -> View:
        return dataclasses.replace(self.core.view(), memory=memory)

    def ask(self, policy: Any, memory: Any = None) -> tuple[Any, Effect]:
        made = make_policy(policy)
        view = self.view(memory)
        answer = made.allocate(view)
        table = CandidateTable(self.core.state, self.core.state.jobs.rows, self.core.settings)
        assert answer.fault(table) == ""
        share: Any = time_shares(answer, table.options, table.kind)
        return answer, Effect(view, share)

    def objective(self, policy: str) -> float:
        _, effect = self.ask(policy)
        value: float = make_policy(policy).objective(effect)  # type: ignore[attr-defined]
        return value

    def by_type(self, effect: Effect) -> dict[tuple[int, str, int], float]:
        """(job, type, profile number beside it or -1) -> share."""
        options = effect.view.options
        found = {}
        for job in range(len(effect.share)):
            for account, row in enumerate(options.by_share_column[effect.view.jobs.kind[job]].tolist()):
                if row >= 0:
                    name = effect.view.cluster.pools[options.pool[row]]
                    found[job, name, int(options.partner_kind[row])] = float(effect.share[job, account])
        return found


def norm(effect: Effect) -> list[float]:
    return (effect.rate / effect.average_type_rate).tolist()


@pytest.mark.parametrize("number", range(8))
def test_isolated_and_blind_max_min_agree(number: int) -> None:
    case = cases()["isolated_vs_mmf"][number]
    counts = tuple(case["cluster"][name.lower()] for name in TYPES)
    gpus = [case["scale_factors"][str(i)] for i in range(2)]
    made = Case(T2, counts, gpus=gpus)
    _, effect = made.ask("isolated")
    for (job, name, _), share in made.by_type(effect).items():
        assert share == pytest.approx(case["isolated"][str(job)][name.lower()], abs=1e-3)
    assert min(gpus * effect.share.sum(axis=1)) == pytest.approx(case["min_isolated"], abs=1e-4)
    _, type_agnostic = made.ask("max-min-fairness:type_aware=false")
    assert min(gpus * type_agnostic.share.sum(axis=1)) == pytest.approx(case["min_mmf"], abs=1e-4)


@pytest.mark.parametrize(
    ("name", "counts", "gpus", "weights"),
    [
        ("mmf_perf_c123", C123, None, None),
        ("mmf_perf_c123_sf21_w11", C123, [2, 1], None),
        ("mmf_perf_c123_sf11_w21", C123, None, [2.0, 1.0]),
        ("mmf_perf_c111", C111, None, None),
        ("mmf_perf_c111_sf11_w21", C111, None, [2.0, 1.0]),
    ],
)
def test_max_min(name: str, counts: tuple[int, ...], gpus: Any, weights: Any) -> None:
    found = Case(T2, counts, gpus=gpus, weights=weights).objective("max-min-fairness")
    assert found == pytest.approx(cases()[name]["objective"], abs=1e-4)


def test_a_gang_wider_than_a_pool_has_no_share_of_it() -> None:
    """Gavel gives a two-GPU job a share of pools with one GPU (objective 1.421053), which it can never use."""
    case = Case(T2, C111, gpus=[2, 1])
    assert not len(case.view().options.by_kind[0][case.view().options.by_kind[0] >= 0])


def test_max_min_with_packing() -> None:
    assert Case(T2, C111, pairs=PERFECT).objective("max-min-fairness:colocation=true") == pytest.approx(1.5, abs=1e-4)
    one = Case(T2, (1, 0, 0), pairs=PERFECT)
    _, effect = one.ask("max-min-fairness:colocation=true")
    assert one.by_type(effect) == pytest.approx(
        {(0, "V100", -1): 0, (0, "V100", 1): 1, (1, "V100", -1): 0, (1, "V100", 0): 1}, abs=1e-3
    )
    bad = Case(T2, (1, 0, 0), pairs={(0, 1): ((1, 1), (1, 1), (1, 1))})
    _, effect = bad.ask("max-min-fairness:colocation=true")
    assert bad.by_type(effect) == pytest.approx(
        {(0, "V100", -1): 0.5, (0, "V100", 1): 0, (1, "V100", -1): 0.5, (1, "V100", 0): 0}, abs=1e-3
    )


def test_packing_that_never_pays_is_not_used() -> None:
    """The job-type case: beside each other both halve."""
    half = {(0, 1): tuple((a / 2, b / 2) for a, b in ((2, 10), (1, 5), (0.5, 2.5)))}
    case = Case(((2, 1, 0.5), (10, 5, 2.5)), C111, pairs=half)
    _, effect = case.ask("max-min-fairness:colocation=true")
    expected = cases()["mmf_packed_job_type"]
    alone = {(0, "V100"): expected["0"]["v100"], (1, "P100"): expected["1"]["p100"]}
    for (job, name), share in alone.items():
        assert case.by_type(effect)[job, name, -1] == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize(
    ("rates", "counts", "pairs", "expected"),
    [
        (T2, C123, None, [1.548387, 1.548387]),
        (T2, C111, PERFECT, [1.714286, 1.5]),
        (T3, (1, 1, 2), None, [1.264916] * 3),
        ((*T3, (1, 1, 1)), (1, 1, 3), None, [1.4126, 1.4126, 1.4126, 1.0]),
    ],
)
def test_water_filling(rates: Any, counts: tuple[int, ...], pairs: Any, expected: list[float]) -> None:
    case = Case(rates, counts, pairs=pairs)
    _, effect = case.ask(f"max-min-fairness:water_filling=true,colocation={'true' if pairs else 'false'}")
    assert norm(effect) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("inner", "expected"), [("fairness", [0.844115, 0.844115, 3.376458]), ("fifo", [1.30137, 0.571429, 2.60274])]
)
def test_hierarchical(inner: str, expected: list[float]) -> None:
    tenants = Tenants({"e0": 1.0, "e1": 2.0}, {"e0": inner})
    _, effect = Case(T3, (1, 1, 2), tenants=["e0", "e0", "e1"]).ask(Hierarchical(tenants))
    assert norm(effect) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("policy", "first", "second"),
    [
        ("finish-time-fairness", [0.64583, 0.64583], 0.40278),
        ("finish-time-fairness:type_aware=false", [1.0, 1.0], 0.66667),
    ],
)
def test_finish_time_fairness_remembers(policy: str, first: list[float], second: float) -> None:
    """Two questions, with work done in between."""
    answer, effect = Case(T2, C123, steps=[300, 500]).ask(policy)
    assert rho(policy, effect) == pytest.approx(first, abs=1e-4)
    _, effect = Case(T2, C123, steps=[200, 300]).ask(policy, memory=answer.memory)
    assert max(rho(policy, effect)) == pytest.approx(second, abs=1e-4)


def rho(policy: str, effect: Effect) -> list[float]:
    """As the policy sees it: a blind one takes all types for as fast as the best."""
    view = effect.view
    rate, private = effect.rate, effect.private_rate
    if "type_aware=false" in policy:
        best = view.options.rate[view.options.best][view.jobs.kind]
        rate = best * effect.share.sum(axis=1)
        private = best * np.minimum(view.capacity.sum() / len(view.jobs), 1.0)
    before = np.zeros(len(view.jobs))
    if view.memory is not None:
        done = view.memory.steps_left - view.jobs.steps_left
        before = view.memory.private_seconds + done / view.memory.private_rate
    return (
        (view.now_s - view.jobs.submitted_s + view.jobs.steps_left / rate) / (before + view.jobs.steps_left / private)
    ).tolist()


def test_finish_time_fairness_with_ages() -> None:
    case = Case(T3, C111, steps=[300, 500, 4000], ages=[100.0, 50.0, 0.0])
    _, effect = case.ask("finish-time-fairness")
    assert rho("", effect) == pytest.approx([1.1744] * 3, abs=1e-4)


def test_finish_time_fairness_with_packing() -> None:
    """The largest rho that Gavel's allocation has is the optimum's too."""
    case = Case(T2, C111, steps=[300, 500], pairs=PERFECT)
    _, effect = case.ask("finish-time-fairness:colocation=true")
    alloc = cases()["ftf_packed"]["first"]
    theirs = []
    for job in (0, 1):
        alone = sum(T2[job][t] * alloc[str(job)][name.lower()] for t, name in enumerate(TYPES))
        both = sum(T2[job][t] * alloc["(0, 1)"][name.lower()] for t, name in enumerate(TYPES))
        theirs.append(alone + both)
    steps = np.array([300.0, 500.0])
    expected = (steps / theirs / (steps / effect.private_rate)).max()
    assert max(rho("", effect)) <= expected + 1e-4


@pytest.mark.parametrize(
    ("name", "rates", "counts", "steps"),
    [
        ("mtd_perf_c123", T2, C123, [30000, 50000]),
        ("mtd_perf_c111", T2, C111, [30000, 50000]),
        ("mtd_perf_3jobs_c111", T3, C111, [30000, 50000, 90000]),
    ],
)
def test_makespan_is_no_worse(name: str, rates: Any, counts: tuple[int, ...], steps: list[int]) -> None:
    assert Case(rates, counts, steps=steps).objective("makespan") <= cases()[name]["makespan"]


PRICES = (3.1, 2.0, 0.8)


def test_throughput_and_cost() -> None:
    assert Case(T2, C111).objective("max-throughput") == pytest.approx(4.0, abs=1e-4)
    case = Case(T2, C111, prices=PRICES)
    assert case.objective("min-cost") == pytest.approx(1.895161, abs=1e-4)
    _, effect = case.ask("min-cost")
    shares = case.by_type(effect)
    for (job, name), share in {(0, "V100"): 1.0, (0, "K80"): 0.0, (1, "K80"): 1.0, (1, "V100"): 0.0}.items():
        assert shares[job, name, -1] == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize(("deadline", "steps"), [(1000.0, 100), (60.0, 110)])
def test_cost_with_a_deadline(deadline: float, steps: int) -> None:
    case = Case(T2, C111, prices=PRICES, steps=[steps, 1000], deadlines={0: deadline})
    assert case.objective("min-cost:slo=true") == pytest.approx(1.895161, abs=1e-4)
    _, effect = case.ask("min-cost:slo=true")
    assert effect.rate[0] == pytest.approx(2.0, abs=1e-3) and effect.rate[0] >= steps / deadline


def test_cost_with_packing() -> None:
    case = Case(T2, C111, prices=PRICES, steps=[100, 1000], deadlines={0: 1000.0}, pairs=PERFECT)
    assert case.objective("min-cost:slo=true,colocation=true") == pytest.approx(1.895161, abs=1e-4)
    same = Case(T2, C111, prices=(1.0, 1.0, 1.0), pairs=PERFECT)
    assert same.objective("min-cost:slo=true,colocation=true") == pytest.approx(5.0, abs=1e-4)
    assert same.objective("max-throughput:colocation=true") == pytest.approx(5.0, abs=1e-4)


def test_fifo() -> None:
    case = Case([(2 + i, 1, 0.5) for i in range(6)], (1, 2, 2), steps=[1000] * 6)
    from rota.core.plan.fill import grant

    view = case.view()
    answer = make_policy("fifo").allocate(view)
    table = CandidateTable(case.core.state, case.core.state.jobs.rows, case.core.settings)
    granted = grant(order_candidates(answer, table), table, view.capacity).option
    types = [view.cluster.pools[view.options.pool[row]] if row >= 0 else None for row in granted.tolist()]
    assert types == ["V100", "P100", "P100", "K80", "K80", None]


def test_fifo_with_packing() -> None:
    same = [(2, 2, 2)] * 3
    pairs = {(0, 1): ((1.8, 1.8),) * 3, (0, 2): ((1, 1),) * 3, (1, 2): ((1.9, 1.9),) * 3}
    case = Case(same, (1, 0, 0), pairs=pairs)
    _, effect = case.ask("fifo:colocation=true")
    found = {key: share for key, share in case.by_type(effect).items() if share > 0}
    assert found == {(0, "V100", 1): 1.0, (1, "V100", 0): 1.0}


def test_allox_twice() -> None:
    rates = ((2, 1, 0.5), (3, 2, 1), (4, 3, 2), (1, 1, 1))
    answer, effect = Case(rates, (2, 1, 3), steps=[300, 500, 1000, 500]).ask("allox")
    assert {(j, t) for (j, t, _), x in Case(rates, (2, 1, 3)).by_type(effect).items() if x > 0} == {
        (0, "V100"),
        (1, "V100"),
        (2, "P100"),
        (3, "K80"),
    }
    later = Case(
        (*rates[1:], (4, 2, 1)), (2, 1, 3), steps=[100, 800, 400, 100], ages=[200.0, 200.0, 200.0, 0.0], ids=[1, 2, 3, 4]
    )
    # Options are numbered by kind, so the memory of the first question is told in the words of the second.
    named = {0: None, 1: "V100", 2: "P100", 3: "K80"}
    view = later.view()
    option = [
        int(np.flatnonzero((view.options.kind == k) & (view.options.pool == view.cluster.pools.index(named[j])))[0])
        for k, j in enumerate((1, 2, 3))
    ]
    memory = dataclasses.replace(answer.memory, ids=np.array([1, 2, 3]), option=np.array(option))
    _, effect = later.ask("allox", memory=memory)
    held = {(later.ids[j], t) for (j, t, _), x in later.by_type(effect).items() if x > 0}
    assert held == {(1, "V100"), (2, "P100"), (3, "K80"), (4, "V100")}
