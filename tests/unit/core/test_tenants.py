"""Tenants in the core: stages, reclaim, reasons, credits, and that no two jobs preempt each other in a loop."""

from collections import Counter
from typing import Any

import pytest

from rota.beliefs.move_costs import MoveCosts
from rota.core.explain import explain
from rota.core.fold.configured import Configured
from rota.core.plan.quotas import Limits
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.setup import GivenBeliefs, Setup
from rota.core.snapshot import make_codec
from rota.core.tenant_figures import tenant_figures
from rota.model.cluster import Cluster
from rota.model.commands import Suspend
from rota.model.events import CancelRequested, Exited, Outcome
from rota.model.policy import Policy
from rota.model.reasons import Reason
from rota.model.tenants import CREDITS, DECAY, NO_FAIRNESS, Guarantee, Tenants
from rota.placers.packed import Packed
from rota.policies.fifo import Fifo
from rota.policies.las import Las
from rota.policies.max_min_fairness import MaxMinFairness
from rota.policies.queues import QueueMemory
from rota.policies.srsf import Srsf
from rota.policies.tiresias import Tiresias
from tests.unit.core.helpers import Bench, of_type


def setup(tenants: Tenants | None, **settings: Any) -> Setup:
    return Setup(settings=Settings(**settings), placer=Packed(), given=GivenBeliefs(costs=MoveCosts()), tenants=tenants)


def bench(tenants: Tenants, cluster: str = "8xV100", policy: Policy | None = None) -> Bench:
    made = Bench(cluster, policy or Fifo())
    made.core = Scheduler.of(Cluster.parse(cluster), setup(tenants))
    return made


def submit(made: Bench, tenant: str, gpus: float = 1, user: str = "ana", at_s: float | None = None, **spec: Any) -> int:
    made.obey(made.submit(at_s, tenant=tenant, user=user, gpus=gpus, **{"steps": 1e6, **spec}))
    return made.jobs - 1


def has(made: Bench) -> dict[int, int]:
    return {job: len(gpus) for job, gpus in sorted(made.state.jobs.desired.items())}


TWO = Tenants({"vision": 1.0, "speech": 1.0}, guarantees={"vision": Guarantee(4), "speech": Guarantee(4)})


def test_what_a_tenant_lent_comes_back_when_its_own_job_arrives() -> None:
    made = bench(TWO)
    for _ in range(4):
        submit(made, "vision", 2)
    assert has(made) == {0: 2, 1: 2, 2: 2, 3: 2}, "all that is free is lent"
    submit(made, "speech", 4, at_s=100.0)
    assert has(made) == {0: 2, 1: 2, 4: 4}
    reasons = explain(made.state, 2)
    assert reasons[0].code is Reason.RECLAIMED and reasons[0].facts["tenant"] == "speech" and reasons[0].facts["job"] == 4
    assert "speech is guaranteed 4 GPUs and has 4" in reasons[0].sentence


def test_a_reclaim_also_happens_under_a_policy_that_never_preempts() -> None:
    made = bench(TWO, policy=Fifo(backfill=True))
    submit(made, "vision", 8)
    submit(made, "speech", 4, at_s=10.0)
    assert has(made) == {1: 4}


def test_a_job_that_saves_nothing_keeps_what_it_borrowed_and_no_other_such_job_comes_before_the_guarantee() -> None:
    made = bench(TWO, policy=Srsf())
    submit(made, "vision", 6, saves=False)
    owed = submit(made, "speech", 4, at_s=10.0)
    submit(made, "vision", 1, saves=False, at_s=20.0)
    submit(made, "vision", 1, at_s=30.0)
    assert has(made) == {0: 6, 3: 1}, "one that could not be suspended does not start where the guarantee waits"
    made.now_s = 40.0
    made.tell(CancelRequested(0, 40.0))
    made.obey(made.tell(Exited(0, 1, 40.0, Outcome.LOST, 0.0)))
    assert has(made)[owed] == 4


def test_a_cap_holds_though_gpus_are_free_and_the_reason_says_who_has_them() -> None:
    made = bench(Tenants({"vision": 1.0}, caps={"vision": 3.0}))
    submit(made, "vision", 2, user="leo")
    submit(made, "vision/labs", 1)
    late = submit(made, "vision", 1)
    assert has(made) == {0: 2, 1: 1}
    why = explain(made.state, late)[0]
    assert why.code is Reason.OVER_QUOTA
    assert why.facts["has_by_user"] == {"leo": 2.0, "ana": 1.0} and why.facts["cap"] == 3.0 and why.facts["jobs"] == [0, 1]
    assert why.sentence == "Its tenant vision has 3 of at most 3 GPUs, and it needs 1. leo has 2, ana has 1."


def test_a_users_cap_counts_below_the_tenant_that_sets_it_unless_a_nearer_one_sets_another() -> None:
    tenants = Tenants({"a": 1.0, "a/b": 1.0, "a/c": 1.0}, user_caps={"a": 2.0, "a/c": 1.0})
    made = bench(tenants)
    for path in ("a", "a/b", "a/b", "a/c", "a/c"):
        submit(made, path)
    submit(made, "a/b", user="leo")
    assert has(made) == {0: 1, 1: 1, 3: 1, 5: 1}
    assert explain(made.state, 2)[0].facts["user"] == "ana"


def test_a_guarantee_by_type_counts_gpus_of_that_type() -> None:
    tenants = Tenants({"a": 1.0, "b": 1.0}, guarantees={"a": Guarantee(2, {"V100": 2.0})})
    made = bench(tenants, "2xV100 + 2xK80")
    submit(made, "b", 2)
    submit(made, "b", 2)
    owed = submit(made, "a", 2, at_s=5.0)
    pool = made.state.nodes.cluster.pools.index("V100")
    assert made.state.nodes.cluster.gpu_pool[made.state.jobs.desired[owed]].tolist() == [pool, pool]


def test_inside_a_tenant_guarantees_of_its_own_tenants_come_first() -> None:
    tenants = Tenants(
        {"a": 1.0, "a/x": 1.0, "a/y": 1.0, "b": 1.0}, guarantees={"a": Guarantee(6), "a/x": Guarantee(4), "b": Guarantee(2)}
    )
    made = bench(tenants, policy=Srsf())
    submit(made, "a/y", 6)
    assert has(made) == {0: 6}
    submit(made, "a/x", 4, at_s=1.0)
    assert has(made) == {1: 4}, "what y has of a's guarantee is lent by x"
    submit(made, "a/y", 2, at_s=2.0)
    submit(made, "b", 2, at_s=3.0)
    assert has(made) == {1: 4, 2: 2, 3: 2}


def test_credits_are_paid_by_who_borrows_to_who_lends() -> None:
    made = bench(TWO)
    submit(made, "vision", 8)
    made.now_s = 1000.0
    made.tell()
    submit(made, "speech", 4, at_s=1000.0)
    rows = {each.tenant: each for each in tenant_figures(made.state)}
    paid = 4 * 1000.0 / 3600.0
    assert rows["vision"].credit == pytest.approx(-paid) and rows["speech"].credit == pytest.approx(paid)
    assert rows["vision"].gpu_hours == pytest.approx(8 * 1000.0 / 3600.0)
    assert rows["vision"].welfare == pytest.approx(2.0), "twice what its guarantee alone would have given"
    assert rows["speech"].start_seconds_p99 == 0.0, "its job started at once"


def test_the_tenant_that_lent_borrows_before_the_one_that_borrowed() -> None:
    tenants = Tenants(TWO.weights, guarantees={"vision": Guarantee(2), "speech": Guarantee(2)}, turn_seconds=100.0)
    made = bench(tenants, policy=Las(quantum_seconds=60.0))
    submit(made, "vision", 6)
    submit(made, "vision", 2)
    assert has(made) == {0: 6, 1: 2}
    submit(made, "vision", 6, at_s=2000.0)
    submit(made, "speech", 6, at_s=2000.0)
    assert has(made) == {3: 6, 1: 2}, "2 are within the guarantee of vision, and speech comes before its other jobs"


def test_other_tenants_while_jobs_run_displace_what_no_longer_fits_and_keep_the_accounts() -> None:
    made = bench(TWO)
    for _ in range(4):
        submit(made, "vision", 2)
    made.now_s = 100.0
    now = Tenants({"vision": 1.0, "new": 1.0}, caps={"vision": 4.0})
    commands = made.obey(made.tell(Configured(setup(now), 100.0)))
    assert len(of_type(commands, Suspend)) == 2 and sum(has(made).values()) == 4
    rows = {each.tenant: each for each in tenant_figures(made.state)}
    assert rows["vision"].gpu_hours == pytest.approx(800 / 3600) and "speech" not in rows
    made.obey(made.tell(Configured(setup(None), 200.0), at_s=200.0))
    assert sum(has(made).values()) == 8 and tenant_figures(made.state) == []


def test_a_snapshot_has_the_accounts() -> None:
    made, codec = bench(TWO), make_codec(QueueMemory)
    submit(made, "vision", 8)
    submit(made, "speech", 4, at_s=500.0)
    plain = made.core.snapshot(codec)
    twin = Scheduler.of(Cluster.parse("8xV100"), setup(TWO))
    twin.restore(plain, codec)
    assert twin.snapshot(codec) == plain
    assert tenant_figures(twin.state) == tenant_figures(made.state)


@pytest.mark.parametrize("fairness", [CREDITS, DECAY, NO_FAIRNESS])
@pytest.mark.parametrize("policy", [Fifo(), Las(quantum_seconds=600.0), Srsf(), Tiresias(thresholds=(3600.0,)), MaxMinFairness()])
def test_two_jobs_do_not_preempt_each_other_in_a_loop(fairness: str, policy: Policy) -> None:
    """Nothing arrives and nothing ends. Each job is suspended no more often than turns and the policy's own switches allow."""
    hours, turn = 12.0, 1800.0
    tenants = Tenants(
        {"a": 1.0, "b": 1.0, "c": 1.0},
        guarantees={"a": Guarantee(2), "b": Guarantee(2)},
        fairness=fairness,
        turn_seconds=turn,
        half_life_seconds=36_000.0,
    )
    suspended = Counter[bool]()
    for given in (tenants, Tenants({"a": 1.0, "b": 1.0, "c": 1.0}, fairness=NO_FAIRNESS)):
        made = bench(given, "6xV100", policy)
        for number in range(6):
            submit(made, "abc"[number % 3], 2, steps=1e9)
        while made.now_s < hours * 3600.0:
            made.now_s = min(max(made.core.state.cycle.until_s, made.now_s + 1.0), made.now_s + 300.0)
            suspended[given is tenants] += len(of_type(made.obey(made.tell()), Suspend))
    # In a turn a tenant's rank changes at most once, which displaces at most the three jobs that run.
    assert suspended[True] <= suspended[False] * 3 + 3 * hours * 3600.0 / turn + 6


def test_limits_in_running_jobs_and_in_gpus_add_up() -> None:
    limits = Limits()
    array = limits.group("array 7", 2, counts_jobs=True)
    cap = limits.group("vision", 6000)
    for job in range(3):
        limits.join(job, (array, cap))
    assert limits.group("vision", 1) == cap, "a group keeps its limit"
    limits.take(0, 4000)
    assert limits.fits(1, 2000) and not limits.fits(1, 3000)
    assert limits.fits(0, 6000, before=4000) and not limits.fits(0, 7000, before=4000)
    limits.take(1, 1000)
    assert not limits.fits(2, 1000), "two of the array run"
    later = limits.copy()
    later.give_back(1, 1000)
    assert later.fits(2, 1000) and not limits.fits(2, 1000)
    assert limits.fits(9, 64_000), "a job without groups has no limit"
