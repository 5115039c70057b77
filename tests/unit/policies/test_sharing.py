"""Policies that share time or match jobs to types, each in a small case; and the way to the daemon's worker and back."""

import json
from dataclasses import replace
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest

from rota.beliefs.rates import Rates
from rota.compose.registry import make_policy
from rota.core.decision_timing import AtEvents
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.errors import OptionError
from rota.live.views import decode_answer, decode_view, encode_answer, encode_view, memory_codec
from rota.model.allocation import Ranking, Shares
from rota.model.cluster import Cluster
from rota.model.events import TimerFired
from rota.model.job import Arrival, JobSpec
from rota.model.tenants import Tenants
from rota.placers.packed import Packed
from rota.policies.allox import Allox
from rota.policies.fifo import Fifo
from rota.policies.finish_time_fairness import FinishTimeFairness
from rota.policies.hierarchical import Hierarchical
from rota.policies.isolated import Isolated
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from rota.sim.record import Record
from tests.solving import Question, assert_feasible, norm
from tests.unit.core.helpers import Bench

RATES = {"a": (2.0, 1.0, 0.5), "b": (3.0, 2.0, 1.0), "c": (4.0, 1.0, 0.25)}
TABLE = {(p, t, g): r * g for p, row in RATES.items() for t, r in zip(("V100", "P100", "K80"), row, strict=True) for g in (1, 2)}
PAIRS = {("a", "b", "V100", 1): (1.8, 2.7), ("a", "a", "V100", 1): (1.0, 1.0)}


def run(policy: Any, cluster: str, *jobs: dict[str, Any], pairs: Any = None, **settings: Any) -> Record:
    """Each job is what a JobSpec takes, and `at_s`."""
    rates = Rates(table=TABLE, pairs=pairs or {})
    arrivals = [Arrival(float(job.get("at_s", 0.0)), JobSpec(**{k: v for k, v in job.items() if k != "at_s"})) for job in jobs]
    made = Settings(**{"decide": AtEvents(slice_seconds=10.0), "colocation": bool(pairs), **settings})
    core = Scheduler(Cluster.parse(cluster), Packed(), made, rates=rates)
    return Engine(core, make_policy(policy), Physics(rates=rates), arrivals, seed=1).run()


def job(profile: str, steps: float | None, **more: Any) -> dict[str, Any]:
    return {"profile": profile, "steps": steps, **more}


# Each policy in a run ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["max-min-fairness", "max-min-fairness:water_filling=true", "hierarchical", "isolated"])
def test_equal_jobs_on_one_gpu_end_together(policy: str) -> None:
    record = run(policy, "1xV100", job("a", 400.0), job("a", 400.0))
    assert sorted(record.finished_s.tolist()) == pytest.approx([390.0, 400.0], abs=10.1)


def test_twice_the_weight_is_twice_the_time() -> None:
    record = run("max-min-fairness", "1xV100", job("a", 400.0, weight=2.0), job("a", 400.0))
    # Two thirds of the time until 400 steps are done, at 300 s; the other has 200 by then and goes on alone.
    assert record.finished_s.tolist() == pytest.approx([300.0, 400.0], abs=15.0)


def test_the_fastest_throughput_comes_first() -> None:
    record = run("max-throughput", "1xV100", job("a", 400.0), job("c", 400.0))
    assert record.finished_s.tolist() == pytest.approx([300.0, 100.0], abs=1.0)


def test_the_makespan_is_what_the_gpus_can_do() -> None:
    record = run("makespan", "1xV100 + 1xK80", job("a", 1000.0), job("b", 1000.0))
    # On its own each would take 500 and 333 s of V100; shared best, both end when the program says they can.
    rates = {"a": RATES["a"], "b": RATES["b"]}
    plain = Question((1, 0, 1), rates, [job("a", 1000.0), job("b", 1000.0)]).plain()
    fastest = plain.raised(plain.rate / 1000.0)
    assert fastest is not None
    assert record.finished_s.max() == pytest.approx(1 / fastest, rel=0.05)
    assert run("fifo", "1xV100 + 1xK80", job("a", 1000.0), job("b", 1000.0)).finished_s.max() > 1.2 / fastest


@pytest.mark.parametrize("left", [10.0, 0.1, 1e-3, 1e-4, 1e-6])
def test_a_job_that_is_almost_done_does_not_upset_the_makespan(left: float) -> None:
    jobs = [job("a", left), job("a", 1e6), job("b", 5e4), job("c", 1e5)]
    question = Question((1, 1, 1), RATES, jobs)
    _, effect = question.ask("makespan")
    assert_feasible(effect, tolerance=1e-4)
    plain, steps = question.plain(), np.array([spec["steps"] for spec in jobs])
    fastest = plain.raised(plain.rate[1:] / steps[1:, None] * 1e6)
    assert fastest is not None
    assert (steps / effect.rate)[1:].max() == pytest.approx(1e6 / fastest, rel=1e-3)


def test_an_endless_job_counts_as_one_with_a_year_to_go() -> None:
    """At its best rate, whatever its steps are."""
    for rate in (0.01, 1.0, 1000.0):
        question = Question((1, 0, 0), {"a": (rate, 0, 0)}, [job("a", None), job("a", 100.0)])
        answer, _ = question.ask("finish-time-fairness")
        assert answer.memory.steps_left[0] / rate == pytest.approx(365 * 86400.0)


def test_allox_matches_jobs_beside_one_of_unknown_length() -> None:
    """It counts as one with a year to go, so it can wait for the fastest GPU while the short ones have theirs."""
    jobs = [job("a", 50.0), job("b", None), job("c", 100.0)]
    _, effect = Question((1, 1, 1), RATES, jobs).ask("allox")
    assert effect.share.sum(axis=1).tolist() == [1.0, 0.0, 1.0]


def test_the_most_steps_for_a_dollar_may_be_on_the_slowest_type() -> None:
    question = Question((1, 1, 1), RATES, [job("b", 100.0)], prices=(10.0, 5.0, 0.1))
    _, effect = question.ask("min-cost")
    assert effect.share[0].tolist() == pytest.approx([0, 0, 1], abs=1e-3)
    hurried = Question((1, 1, 1), RATES, [job("b", 100.0, deadline_seconds=40.0)], prices=(10.0, 5.0, 0.1))
    _, effect = hurried.ask("min-cost:slo=true")
    assert effect.rate[0] == pytest.approx(2.5, abs=1e-3), "no faster than its deadline asks"


def test_a_deadline_is_met_and_the_impossible_one_is_told() -> None:
    jobs = [job("a", 400.0, deadline_seconds=1e5), job("a", 100.0, deadline_seconds=60.0, at_s=1.0), job("c", 400.0)]
    record = run("min-cost:slo=true", "1xV100", *jobs)
    assert record.finished_s[1] <= 61.0 + 10.0
    assert run("min-cost", "1xV100", *jobs).finished_s[1] > 80.0, "without it, the fastest comes first"
    answer, _ = Question((1, 0, 0), RATES, [job("a", 1e6, deadline_seconds=5.0), "b"]).ask("min-cost:slo=true")
    assert list(answer.notes) == [0] and "fastest option gives 2" in answer.notes[0]


def test_a_deadline_that_has_passed_is_told_and_harms_nobody() -> None:
    jobs = [job("a", 100.0, deadline_seconds=5.0, age=50.0), job("b", 100.0, deadline_seconds=1000.0)]
    answer, effect = Question((1, 0, 0), RATES, jobs).ask("min-cost:slo=true")
    assert answer.notes == {0: "Its deadline has passed."}
    assert effect.rate[1] >= 100 / 1000 * (1 - 1e-4)


def test_of_two_deadlines_that_exclude_each_other_one_is_kept() -> None:
    jobs = [job("a", 190.0, deadline_seconds=100.0), job("a", 190.0, deadline_seconds=100.0)]
    answer, effect = Question((1, 0, 0), RATES, jobs).ask("min-cost:slo=true")
    assert len(answer.notes) == 1 and "together with the others" in next(iter(answer.notes.values()))
    assert sorted((effect.rate >= 1.9 * (1 - 1e-4)).tolist()) == [False, True]


def test_who_waited_longest_for_its_fair_time_comes_first() -> None:
    jobs = [job("a", 100.0, age=1000.0), job("a", 100.0)]
    _, effect = Question((1, 0, 0), RATES, jobs).ask("finish-time-fairness")
    assert effect.rate[0] > 1.5 * effect.rate[1]


def test_finish_time_fairness_remembers_what_the_private_part_would_have_done() -> None:
    """Two jobs, one GPU: half of it each. A job that did 60 of its steps at 2/s would have needed 60 s of its half."""
    bench = Bench("1xV100", FinishTimeFairness(), rates=Rates(table=TABLE))
    for _ in range(2):
        bench.obey(bench.submit(profile="a", steps=200.0))
    first = bench.policy.allocate(bench.core.view()).memory
    assert first.ids.tolist() == [0, 1] and first.private_rate.tolist() == [1.0, 1.0]
    bench.tell(TimerFired(30.0), at_s=30.0)
    view = replace(bench.core.view(), memory=first)
    second = bench.policy.allocate(view).memory
    ran = (view.jobs.steps_left < 200.0).nonzero()[0].tolist()
    assert len(ran) == 1 and view.jobs.steps_left[ran[0]] == 140.0
    assert second.private_seconds[ran[0]] == pytest.approx(60.0) and second.private_seconds[1 - ran[0]] == 0.0
    third = bench.policy.allocate(replace(view, memory=second)).memory
    assert third.private_seconds.tolist() == second.private_seconds.tolist(), "no work, no time"


def test_finish_time_fairness_serves_jobs_that_came_and_went() -> None:
    record = run("finish-time-fairness", "1xV100", *(job("abc"[n % 3], 100.0, at_s=7.0 * n) for n in range(9)))
    assert np.isfinite(record.finished_s).all()


def test_allox_leaves_gangs_to_what_is_left_over_and_says_so() -> None:
    question = Question((2, 0, 0), RATES, ["a", {"profile": "a", "gpus": 2}])
    answer = Allox().allocate(question.view())
    assert answer.position is not None and answer.position.tolist() == [0]
    assert list(answer.notes) == [1] and "jobs of one GPU" in answer.notes[1]


class Watched(Allox):
    """Keeps what it answered, to look at later."""

    def allocate(self, view: Any) -> Shares:
        answer = super().allocate(view)
        self.seen.append(
            (
                set(view.jobs.ids.tolist()),
                dict(zip(*(c.tolist() for c in (answer.memory.ids, answer.memory.option)), strict=True)),
            )
        )
        return answer


def test_allox_never_moves_whom_it_matched() -> None:
    jobs = [job("abc"[n % 3], 100.0 + 37.0 * (n % 5), at_s=11.0 * n) for n in range(15)]
    policy = Watched()
    object.__setattr__(policy, "seen", [])
    record = run(policy, "1xV100 + 1xK80", *jobs)
    assert np.isfinite(record.finished_s).all() and len(policy.seen) > 15
    for (_, before), (here, after) in pairwise(policy.seen):
        assert {j: o for j, o in before.items() if j in here}.items() <= after.items()
        assert len(after) <= 2


def test_allox_puts_the_short_before_the_long() -> None:
    record = run("allox", "1xV100", job("a", 1000.0), job("a", 10.0), job("a", 100.0))
    assert record.finished_s.tolist() == pytest.approx([555.0, 5.0, 55.0])


def test_allox_is_the_best_of_all_matchings() -> None:
    """Mean completion time on unequal GPUs, all orders tried."""
    rng = np.random.default_rng(4)
    for _ in range(5):
        steps = rng.integers(50, 500, size=4).astype(float)
        names = ["a", "b", "c", "a"]
        record = run("allox", "1xV100 + 1xK80", *(job(n, s) for n, s in zip(names, steps, strict=True)))
        best = np.inf
        for order in permutations(range(4)):
            for where in product((0, 2), repeat=4):
                ends, total = {0: 0.0, 2: 0.0}, 0.0
                for j in order:
                    ends[where[j]] += steps[j] / RATES[names[j]][where[j]]
                    total += ends[where[j]]
                best = min(best, total)
        assert record.finished_s.sum() <= best * (1 + 1e-6), "better, even, where a GPU would idle at the end"


def test_allox_looks_at_part_of_the_queue_only() -> None:
    """alpha 0: no more than there are free GPUs, oldest first."""
    jobs = [job("a", 1000.0, age=9.0), job("a", 1.0, age=3.0), job("a", 10.0)]
    question = Question((1, 0, 0), RATES, jobs)
    _, effect = question.ask("allox:alpha=0")
    assert effect.share.sum(axis=1).tolist() == [1.0, 0.0, 0.0]
    _, effect = question.ask("allox")
    assert effect.share.sum(axis=1).tolist() == [0.0, 1.0, 0.0]


def test_allox_forgets_whoever_left() -> None:
    question = Question((1, 0, 0), RATES, ["a", "a"])
    answer, _ = question.ask("allox")
    stale = replace(answer.memory, ids=np.array([77]), option=np.array([0]))
    _, effect = question.ask("allox", memory=stale)
    assert effect.share.sum() == 1.0, "a GPU held by nobody here is free"


def test_isolated_is_each_ones_part_of_each_pool() -> None:
    _, effect = Question((1, 2, 0), RATES, ["a", "b", "c", "c"]).ask("isolated")
    assert effect.share == pytest.approx(np.tile([0.25, 0.5], (4, 1)))
    answer = Isolated().allocate(Question((4, 4, 0), RATES, ["a"]).view())
    assert answer.type_agnostic and answer.share.sum() == pytest.approx(1.0), "never more than all its time"


def test_tenants_three_deep() -> None:
    """Half to x, of which a quarter goes to x/p and its two groups, and one job is right in x."""
    tenants = Tenants({"x": 1.0, "y": 1.0, "x/p": 1.0, "x/q": 3.0, "x/p/s": 2.0})
    who = ["x/p/s", "x/p/t", "x/q", "x/q", "y"]
    jobs = [job("a", 1e6, tenant=path) for path in who for _ in range(4)]
    _, effect = Question((2, 0, 0), {"a": (1.0, 0, 0)}, jobs).ask(Hierarchical(tenants))
    assert_feasible(effect)
    total = {path: float(effect.rate[[n for n, j in enumerate(jobs) if j["tenant"] == path]].sum()) for path in who}
    assert total == pytest.approx({"x/p/s": 1 / 6, "x/p/t": 1 / 12, "x/q": 3 / 4, "y": 1.0}, abs=1e-3)


def test_jobs_right_in_a_tenant_that_has_tenants_have_a_part_too() -> None:
    tenants = Tenants({"x": 1.0, "x/p": 1.0})
    jobs = [job("a", 1e6, tenant=path) for path in ("x", "x/p", "y") for _ in range(6)]
    _, effect = Question((3, 0, 0), {"a": (1.0, 0, 0)}, jobs).ask(Hierarchical(tenants))
    total = effect.rate.reshape(3, 6).sum(axis=1)
    assert total[2] == pytest.approx(1.5, abs=1e-3), "y has as much as x and all below it"
    assert total[0] == pytest.approx(total[1], abs=1e-3) and (total > 0.1).all()


def test_a_tenant_that_serves_in_order_serves_in_order() -> None:
    tenants = Tenants({}, {"x": "fifo"})
    jobs = [job("a", 1e6, tenant="x") for _ in range(3)] + [job("a", 1e6, tenant="y") for _ in range(3)]
    _, effect = Question((3, 0, 0), {"a": (1.0, 0, 0)}, jobs).ask(Hierarchical(tenants))
    assert effect.rate == pytest.approx([1.0, 0.5, 0.0, 0.5, 0.5, 0.5], abs=1e-3)


@pytest.mark.parametrize("seed", range(8))
def test_tenants_get_what_one_program_after_the_other_gives_them(seed: int) -> None:
    """Two levels, some that serve in order: against raising all, and asking of each job whether it can be raised further."""
    rng = np.random.default_rng(seed)
    paths = ["x", "y", "z/u", "z/v"]
    jobs = [
        job(str(rng.choice(list("abc"))), 1e6, tenant=str(rng.choice(paths)), weight=float(rng.choice([1, 3]))) for _ in range(8)
    ]
    in_order = set(rng.choice(["x", "y", "z/u"], size=2).tolist())
    part = {"x": 1.0, "y": 2.0, "z": 3.0, "z/u": 1.0, "z/v": 2.0}
    question = Question(rng.integers(1, 4, size=3).tolist(), RATES, jobs)
    tenant, weight = [spec["tenant"] for spec in jobs], np.array([spec["weight"] for spec in jobs])

    def weigh(free: Any) -> Any:
        here = {tenant[i] for i in np.flatnonzero(free)}
        found = np.zeros(len(jobs))
        for path in here:
            top = path.split("/")[0]
            whole = part[top] / sum(part[name] for name in {other.split("/")[0] for other in here})
            if path != top:
                whole *= part[path] / sum(part[other] for other in here if other.startswith("z/"))
            mine = [i for i in np.flatnonzero(free) if tenant[i] == path]
            if path in in_order:
                found[mine[0]] = whole
            else:
                found[mine] = whole * weight[mine] / weight[mine].sum()
        return found

    plain = question.plain()
    expected = plain.filled(plain.level(), weigh)
    _, effect = question.ask(Hierarchical(Tenants(part, dict.fromkeys(in_order, "fifo"))))
    assert norm(effect) == pytest.approx(expected, abs=5e-3)


def test_water_filling_helps_those_who_are_not_stuck() -> None:
    question = Question((1, 2, 0), {"a": (1, 0, 0), "b": (1, 1, 0)}, ["a", "a", "b", "b", "b"])
    filled = np.sort(norm(question.ask("max-min-fairness:water_filling=true")[1]))
    plain = np.sort(norm(question.ask("max-min-fairness")[1]))
    assert filled[0] == pytest.approx(plain[0], rel=1e-4) and filled.sum() >= plain.sum() - 1e-3


def test_a_vertex_uses_few_ways_to_run() -> None:
    question = Question((3, 3, 3), RATES, ["a", "b", "c"])
    used = {face: int((question.ask(f"max-min-fairness:face={face}")[1].share > 1e-6).sum()) for face in ("centre", "vertex")}
    assert used["vertex"] < used["centre"]


# First in, first out -------------------------------------------------------------------------------------------------------


def test_fifo_takes_the_fastest_type_or_any() -> None:
    jobs = [job("a", 200.0, at_s=float(200 * n)) for n in range(30)]
    type_aware = run("fifo", "1xV100 + 1xK80", *jobs)
    type_agnostic = run("fifo:type_aware=false", "1xV100 + 1xK80", *jobs)
    took = type_agnostic.finished_s - type_agnostic.submitted_s
    assert (type_aware.finished_s - type_aware.submitted_s).tolist() == pytest.approx([100.0] * 30)
    slow = int((took > 150).sum())
    assert 5 <= slow <= 25, "about half of them on the slow type"
    assert type_agnostic.migrations.sum() == 0


def test_sjf_may_be_blind_too() -> None:
    jobs = [job("a", 200.0, at_s=float(200 * n)) for n in range(20)]
    took = (lambda r: r.finished_s - r.submitted_s)(run("sjf:type_aware=false", "1xV100 + 1xK80", *jobs))
    assert 3 <= int((took > 150).sum()) <= 17


def test_fifo_packs_whoever_waits_beside_whom_it_pays() -> None:
    jobs = [job("a", 180.0), job("b", 270.0), job("c", 100.0)]
    packed = run("fifo:colocation=true", "1xV100", *jobs, pairs=PAIRS)
    # a and b together do 0.9 of what each does alone; c is measured beside nobody and waits.
    assert packed.finished_s[:2].tolist() == pytest.approx([100.0, 100.0], abs=1e-6)
    assert packed.finished_s[2] == pytest.approx(125.0, abs=1e-6)


def test_fifo_does_not_pack_what_does_not_pay() -> None:
    jobs = [job("a", 200.0), job("a", 200.0)]
    packed = run("fifo:colocation=true", "1xV100", *jobs, pairs=PAIRS)  # two of a do half each: 1.0 in all
    assert packed.finished_s.tolist() == pytest.approx([100.0, 200.0])


def test_fifo_with_backfill_and_packing_is_refused() -> None:
    with pytest.raises(OptionError, match="colocation"):
        Fifo(backfill=True, colocation=True)


# To the daemon's worker and back -------------------------------------------------------------------------------------------

EVERY = [
    "max-min-fairness",
    "max-min-fairness:colocation=true,water_filling=true",
    "hierarchical",
    "finish-time-fairness",
    "makespan:colocation=true",
    "max-throughput:face=vertex",
    "min-cost:slo=true",
    "allox",
    "isolated",
    "fifo",
    "fifo:colocation=true",
    "fifo:type_aware=false",
    "sjf:type_aware=false",
]


@pytest.mark.parametrize("name", EVERY)
def test_a_policy_in_another_process_answers_the_same(name: str) -> None:
    pairs = {("a", "b"): ((1.8, 2.7),) * 3}
    jobs = [
        job("a", 500.0, age=100.0, tenant="x/y"),
        job("b", 700.0, deadline_seconds=300.0, age=50.0),
        job("a", 90.0, weight=2.0),
    ]
    question = Question((1, 0, 1), RATES, jobs, pairs=pairs)
    policy = make_policy(name)
    words = memory_codec(policy)
    here: Any = None
    there: Any = None
    for _ in range(2):  # the second time with what it remembered
        direct: Any = policy.allocate(question.view(here))
        asked = json.loads(json.dumps(encode_view(question.view(there))))
        memory = None if asked["memory"] is None else words.decode(json.loads(asked["memory"]))
        answer = policy.allocate(decode_view(asked, memory))
        back: Any = decode_answer(json.loads(json.dumps(encode_answer(answer, words))))
        assert type(back) is type(direct) and back.fault(question.table) == "" and back.key == direct.key
        columns = ("order",) if isinstance(direct, Ranking) else ("option", "share", "position", "prices")
        for column in columns:
            one, two = getattr(direct, column), getattr(back, column)
            assert (one is None) == (two is None)
            if one is not None:
                assert np.asarray(one).tolist() == np.asarray(two).tolist(), column
        if isinstance(direct, Shares):
            assert {int(k): v for k, v in back.notes.items()} == direct.notes
            assert all(isinstance(k, int) for k in back.notes), "positions are numbers"
            assert (back.type_agnostic, back.strict) == (direct.type_agnostic, direct.strict)
        here, there = direct.memory, back.memory
        assert (here is None) == (there is None)


def test_a_note_survives_the_way_back() -> None:
    question = Question((1, 0, 0), RATES, [job("a", 1e6, deadline_seconds=5.0)])
    policy = make_policy("min-cost:slo=true")
    plain = json.loads(json.dumps(encode_answer(policy.allocate(question.view()), memory_codec(policy))))
    back: Any = decode_answer(plain)
    assert list(back.notes) == [0]
