"""Tenants in a hostile world and in simulations: no cap is ever exceeded, credits add up, and guarantees are kept."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import simulate
from rota.core.plan.tactic import Tactics
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.setup import Setup
from rota.model.allocation import Ranking
from rota.model.cluster import Cluster, Node
from rota.model.commands import Command, Suspend
from rota.model.policy import Policy
from rota.model.tenants import CREDITS, DECAY, NO_FAIRNESS, Guarantee, Tenants
from rota.placers.packed import Packed
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo
from rota.policies.gittins import Gittins
from rota.policies.las import Las
from rota.policies.max_min_fairness import MaxMinFairness
from rota.policies.queues import QueueMemory
from rota.policies.srsf import Srsf
from rota.policies.tiresias import Tiresias
from rota.sim.chaos import HOSTILE_SETTINGS, Chaos
from rota.sim.chaos_jobs import mixed_jobs
from rota.tactics.defragment import Defragment
from rota.tactics.grow import Grow
from rota.tactics.migrate import Migrate
from rota.tactics.pack import Pack
from tests.examples import examples
from tests.unit.core.helpers import Bench, of_type

FLOOR = Cluster.of(
    [
        Node("a", "V100", 4, host_gib=16.0),
        Node("b", "V100", 4, host_gib=4.0),
        Node("c", "V100", 2),
        Node("d", "K80", 4, host_gib=64.0),
    ]
)
POLICIES: list[Policy] = [
    Fifo(),
    Las(quantum_seconds=15.0),
    Srsf(),
    Tiresias(thresholds=(30.0,), promote=2.0),
    Fifo(backfill=True),
    Gittins(thresholds=(40.0,)),
    MaxMinFairness(),
]
PATHS = ("vision", "vision/labs", "speech", "speech/asr", "", "unheard")


def tenants_of(seed: int) -> Tenants:
    dice = random.Random(seed)
    return Tenants(
        weights={"vision": 2.0, "vision/labs": 1.0, "speech": 1.0},
        guarantees={"vision": Guarantee(5), "vision/labs": Guarantee(2), "speech": Guarantee(2, {"V100": 2.0})},
        caps={"vision": float(dice.randrange(6, 12)), "speech": float(dice.randrange(3, 8))},
        user_caps={"vision": 4.0, "speech": 3.0},
        fairness=(CREDITS, DECAY, NO_FAIRNESS)[seed % 3],
        turn_seconds=20.0,
    )


def owned(seed: int, **options: bool) -> list:
    """Jobs of two users in several tenants, none wider than the smallest cap."""
    dice = random.Random(seed)
    jobs = mixed_jobs(25, seed, 3, **options)
    return [replace(job, tenant=dice.choice(PATHS), user=dice.choice(("ana", "leo"))) for job in jobs]


@pytest.mark.parametrize("seed", range(21))
def test_no_cap_is_exceeded_in_a_hostile_world(seed: int) -> None:
    """Nodes are lost, the core crashes and recovers, users hold and cancel. `validate` checks caps and credits after every step,
    and each recovery must give the same accounts."""
    chaos = Chaos(
        FLOOR,
        owned(seed, parts=seed % 2 == 0),
        POLICIES[seed % len(POLICIES)],
        Packed(),
        seed=seed,
        memory_types=(QueueMemory,),
        tenants=tenants_of(seed),
    ).run(200_000)
    assert not chaos.core.state.jobs.row and not chaos.gpu_owner


@pytest.mark.parametrize("seed", range(9))
def test_no_tactic_exceeds_a_cap(seed: int) -> None:
    tactics = (
        (Grow(idle_seconds=5.0),),
        (Pack(settle_seconds=5.0),),
        (Defragment(rest_seconds=20.0), Migrate(rest_seconds=20.0)),
    )
    chaos = Chaos(
        FLOOR,
        owned(seed, elastic=seed % 3 == 0),
        POLICIES[seed % len(POLICIES)],
        (Spread(), Packed())[seed % 2],
        seed=seed,
        settings=replace(HOSTILE_SETTINGS, wait_for_locality=seed % 3 == 2, tactics=Tactics(tactics[seed % 3])),
        memory_types=(QueueMemory,),
        tenants=tenants_of(seed),
    ).run(200_000)
    assert not chaos.core.state.jobs.row and not chaos.gpu_owner


@pytest.mark.parametrize(
    "policy", ["fifo", "fifo:backfill=true", "srsf", "las", "tiresias", "gittins", "max-min-fairness", "gandiva"]
)
@pytest.mark.parametrize("seed", range(2))
def test_jobs_within_a_guarantee_start_when_they_arrive(tmp_path: Path, policy: str, seed: int) -> None:
    """Nothing costs time here, and all GPUs are of one type: so each job for which its tenant's guarantee has room starts at
    once, whatever others have borrowed."""
    file = tmp_path / "tenants.yaml"
    fairness = (CREDITS, DECAY)[seed]
    guarantees = "tenant-1: {guarantee: 8}, tenant-2: {guarantee: 5}, tenant-3: {guarantee: 3}"
    file.write_text(f"tenants: {{{guarantees}}}\nfairness: {fairness}\n")
    trace = f"synthetic:jobs=150,gpus=16,largest=4,load=1.5,tenants=3,seed={seed}"
    found = simulate(trace, policy=policy, cluster="16xV100", preset="ideal", tenants=file)
    assert found.tenants is not None
    promised = [each for each in found.tenants.tenants if each.start_seconds_p99 is not None]
    assert promised and all(each.start_seconds_p99 <= 1e-6 for each in promised), promised


@pytest.mark.parametrize("policy", ["ones", "optimus", "goodput", "gandiva", "srsf", "max-min-fairness"])
@pytest.mark.parametrize("tactics", ["none", "grow"])
def test_no_tenant_holds_more_than_its_cap_at_any_moment(tmp_path: Path, policy: str, tactics: str) -> None:
    """Measured on the GPUs that jobs really had, of jobs that accept many sizes."""
    file = tmp_path / "tenants.yaml"
    file.write_text(
        "tenants: {tenant-1: {guarantee: 3, cap: 6}, tenant-2: {cap: 5}, tenant-3: {cap: 4, user_cap: 4}}\nfairness: decay\n"
    )
    caps = {"tenant-1": 6, "tenant-2": 5, "tenant-3": 4}
    trace = "synthetic:jobs=60,gpus=16,largest=4,load=1.5,tenants=3,seed=3,models=6"
    found = simulate(trace, policy=policy, cluster="16xV100", preset="ideal", elastic="gpus", tactics=tactics, tenants=file)
    held = found.record.gpu_intervals
    width = np.diff(held.first)
    for tenant, cap in caps.items():
        mine = np.array([found.arrivals[job].spec.tenant == tenant for job in held.job.tolist()], dtype=bool)
        times = np.concatenate((held.end_s[mine], held.start_s[mine]))
        change = np.concatenate((-width[mine], width[mine]))
        order = np.lexsort((change, np.round(times, 6)))
        assert np.cumsum(change[order]).max(initial=0) <= cap, tenant
    assert found.summary.finished == 60


@given(
    jobs=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([1, 2, 4]), st.floats(1e3, 2e4), st.floats(0.0, 7200.0)),
        min_size=4,
        max_size=10,
    ),
    policy=st.sampled_from(POLICIES),
    fairness=st.sampled_from([CREDITS, DECAY, NO_FAIRNESS]),
)
@examples(40)
def test_two_jobs_reclaim_from_each_other_only_as_often_as_the_policy_changes_its_order(
    jobs: list[tuple[str, int, float, float]], policy: Policy, fairness: str
) -> None:
    """Random submissions for four hours. A job that reclaims is within its guarantee, so the job that lost its GPUs can take them
    back only after an arrival, an end, a turn, or another order of the policy; shares change the order with each slice."""
    turn, until_s = 1800.0, 4 * 3600.0
    guarantees = {"a": Guarantee(3), "b": Guarantee(2), "c": Guarantee(1)}
    tenants = Tenants(dict.fromkeys("abc", 1.0), guarantees=guarantees, fairness=fairness, turn_seconds=turn)
    made = Bench("6xV100", policy)
    made.core = Scheduler.of(made.core.state.nodes.cluster, Setup(settings=Settings(), placer=Packed(), tenants=tenants))
    arrivals = sorted(jobs, key=lambda each: each[3])
    taken = Counter[tuple[int, int]]()
    orders: list[list[int]] = []

    def note(commands: list[Command]) -> None:
        for suspend in of_type(made.obey(commands), Suspend):
            row = made.state.jobs.row.get(suspend.job)
            if row is not None and (other := made.state.jobs.table.reclaimed_for.item(row)) >= 0:
                taken[other, suspend.job] += 1
        answer = made.state.cycle.answer
        if answer is not None and isinstance(answer.allocation, Ranking):
            orders.append(answer.ids[answer.allocation.order].tolist())

    while made.now_s < until_s:
        while arrivals and arrivals[0][3] <= made.now_s:
            tenant, gpus, steps, _ = arrivals.pop(0)
            note(made.submit(tenant=tenant, gpus=gpus, steps=steps))
        made.now_s += 200.0
        note(made.tell())
    changes = sum(before != now for before, now in pairwise(orders)) if orders else until_s / 360.0
    for (one, other), times in taken.items():
        assert min(times, taken[other, one]) <= changes + until_s / turn, (one, other, taken)
    if isinstance(policy, Fifo | Srsf):  # what runs keeps its place in their orders
        assert not any(taken[other, one] for one, other in list(taken)), taken
