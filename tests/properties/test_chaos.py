"""The core against a world that does its worst, over a million driver steps; and proof that the checker would notice."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rota.beliefs.locality import Locality
from rota.beliefs.rates import Rates
from rota.core import reconcile
from rota.core.fold import apply as fold
from rota.core.fold import attempts, node_events
from rota.core.plan import placements
from rota.core.plan.tactic import Tactics
from rota.model.cluster import Cluster, Node
from rota.model.occupancy import FREE, Occupancy
from rota.model.placement_view import Placer
from rota.model.policy import Policy
from rota.placers.packed import Packed
from rota.placers.pal import Pal
from rota.placers.random import Random
from rota.placers.skew import Skew
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo
from rota.policies.gandiva import Gandiva
from rota.policies.gittins import Gittins
from rota.policies.las import Las
from rota.policies.queues import QueueMemory
from rota.policies.slots import SlotMemory
from rota.policies.srsf import Srsf
from rota.policies.tiresias import Tiresias
from rota.sim.chaos import HOSTILE_SETTINGS, Broken, Chaos, Faults
from rota.sim.chaos_jobs import mixed_jobs
from rota.tactics.defragment import Defragment
from rota.tactics.migrate import Migrate
from tests.examples import PROFILE, rotated, scaled
from tests.packing import Crowded, Evenly, pairs

FLOOR = Cluster.of(
    [
        Node("a", "V100", 4, host_gib=16.0),
        Node("b", "V100", 4, host_gib=4.0),
        Node("c", "V100", 2),
        Node("d", "K80", 4, host_gib=64.0),
    ]
)
POLICIES: list[Policy] = [
    Tiresias(thresholds=(40.0, 100.0)),
    Fifo(),
    Las(quantum_seconds=15.0),
    Srsf(),
    Tiresias(thresholds=(30.0,), promote=2.0),
    Fifo(backfill=True),
    Gittins(thresholds=(40.0,)),
]
PLACERS: list[Placer] = [Packed(), Random(), Packed(sticky=False), Spread(), Pal(), Pal(wide=False)]

CUTS = """drops|repeats|node crashes|losses vouched for|job crashes|yields|core crashes|core crashes before sending|partitions|
policy failures|leases ended|holds|cancels""".replace("\n", "").split("|")

BATCHES, SEEDS_PER_BATCH, STEPS_PER_BATCH = 20 if PROFILE == "many" else 4, 13, 50_000
"""20 batches of 13 seeds or more, each at least 50,000 steps: a million, and a fifth of that in `make test`."""


def world(seed: int, **options: Any) -> Chaos:
    return Chaos(
        FLOOR,
        mixed_jobs(25, seed, 8),
        POLICIES[seed % len(POLICIES)],
        PLACERS[seed // len(POLICIES) % len(PLACERS)],
        seed=seed,
        memory_types=(QueueMemory,),
        **options,
    )


RACKS = Cluster.of(
    [
        Node("a", "V100", 4, "r1", 16.0),
        Node("b", "V100", 4, "r1"),
        Node("c", "V100", 4, "r2", 8.0),
        Node("d", "V100", 2, "r2"),
        Node("e", "K80", 4, "r3"),
    ]
)
PICKY: list[Placer] = [Packed(), Pal(), Skew(), Spread(), Pal(wide=False), Packed(by_size=False)]


@pytest.mark.parametrize("seed", range(12))
def test_jobs_that_wait_for_places_all_get_one(seed: int) -> None:
    """Racks, penalties, jobs that nobody scatters; snapshots and journals tell the same again, as every crash checks."""
    jobs = [replace(job, profile=("", "p", "q")[number % 3]) for number, job in enumerate(mixed_jobs(25, seed, 8))]
    chaos = Chaos(
        RACKS,
        jobs,
        POLICIES[seed % len(POLICIES)],
        PICKY[seed % len(PICKY)],
        seed=seed,
        settings=replace(HOSTILE_SETTINGS, wait_for_locality=True, learn_variability=True, learn=True, cordon_slower_than=1.5),
        rates=Rates(speeds={}, spread_penalty=Locality.of((1.5, 1.2))),
        memory_types=(QueueMemory,),
        check_every=5,
    ).run(200_000)
    assert not chaos.core.state.jobs.row and not chaos.gpu_owner


@pytest.mark.parametrize("seed", range(10))
def test_jobs_that_tactics_move_all_end(seed: int) -> None:
    """Messages are lost and nodes vanish while jobs move aside for others, or closer together."""
    tactics = Tactics((Defragment(rest_seconds=20.0), Migrate(rest_seconds=20.0)))
    chaos = Chaos(
        RACKS,
        mixed_jobs(25, seed, 8),
        POLICIES[seed % len(POLICIES)],
        (Spread(), Packed(), Random())[seed % 3],
        seed=seed,
        settings=replace(HOSTILE_SETTINGS, wait_for_locality=seed % 2 == 0, tactics=tactics),
        rates=Rates(speeds={}, spread_penalty=Locality.of((1.5, 1.2))),
        memory_types=(QueueMemory,),
        check_every=5,
    ).run(200_000)
    assert not chaos.core.state.jobs.row and not chaos.gpu_owner


@pytest.mark.parametrize("seed", range(6))
def test_jobs_that_gandiva_moves_all_end(seed: int) -> None:
    """It names GPUs, and its slots follow where jobs were moved."""
    tactics = Tactics((Defragment(rest_seconds=20.0), Migrate(rest_seconds=20.0)))
    chaos = Chaos(
        RACKS,
        mixed_jobs(25, seed, 8),
        Gandiva(slice_seconds=10.0, patience_slices=2, balance_seconds=30.0),
        Packed(),
        seed=seed,
        settings=replace(HOSTILE_SETTINGS, wait_for_locality=seed % 2 == 0, tactics=tactics),
        rates=Rates(speeds={}, spread_penalty=Locality.of((1.5, 1.2))),
        memory_types=(SlotMemory,),
        check_every=5,
    ).run(200_000)
    assert not chaos.core.state.jobs.row and not chaos.gpu_owner


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_nothing_is_lost_and_nothing_runs_twice(batch: int) -> None:
    steps, counts, first = 0, Counter[str](), rotated(1000 * batch)
    seed = first
    while steps < STEPS_PER_BATCH or seed < first + SEEDS_PER_BATCH:
        chaos = world(seed, check_every=5).run(200_000)
        assert not chaos.core.state.jobs.row and not chaos.gpu_owner, "everything came to its end and gave its GPUs back"
        steps += chaos.steps
        counts.update(chaos.counts)
        seed += 1
    for cut in (
        "drops",
        "repeats",
        "node crashes",
        "job crashes",
        "core crashes",
        "partitions",
        "policy failures",
        "leases ended",
    ):
        assert counts[cut] > 0, f"no {cut} in {steps} steps"
    assert counts["holds"] + counts["cancels"] > 0


def test_same_seed_same_story() -> None:
    first, second = world(5).run(), world(5).run()
    assert (first.steps, first.now_s, first.counts) == (second.steps, second.now_s, second.counts)


def test_a_calm_world_needs_no_luck() -> None:
    calm = Faults(
        until_s=0.0,
        core_crash_in_step=0,
        drop=0,
        repeat=0,
        node_crash=0,
        job_crash=0,
        core_crash=0,
        partition=0,
        policy_failure=0,
        cancel=0,
        hold=0,
    )
    assert world(3, faults=calm).run().counts["finished"] == 25


def never_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launch on GPUs that somebody still holds."""
    original = reconcile._launches
    monkeypatch.setattr(
        reconcile,
        "_launches",
        lambda state, settings, starts, taken, given: original(state, settings, starts, taken & False, given),
    )


def bury_the_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a silent node for a dead one, without waiting for its leases."""
    original = node_events.mark_unreachable

    def hasty(state: Any, node: int) -> None:
        original(state, node)
        node_events.drop_attempts_on(state, node, state.now_s)

    monkeypatch.setattr(fold, "mark_unreachable", hasty)


def never_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send every command once and hope."""
    monkeypatch.setattr(reconcile, "_repeats", lambda *_: [])
    monkeypatch.setattr(node_events, "_see_part", lambda *_: None)


def believe_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take any exit for the present attempt's."""

    def credulous(state: Any, settings: Any, event: Any) -> None:
        if event.job in state.jobs.attempts:
            attempts.end_on_node(state, event.job, event.node, event.at_s, attempts.VERDICT[event.outcome], event.steps_saved)

    monkeypatch.setitem(fold.HANDLERS, fold.Exited, credulous)


def part_gangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the rest of a gang running when one part of it is gone."""
    monkeypatch.setattr(attempts, "mark_for_kill", lambda *_: None)


def trust_old_boots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a node that rebooted for the node it was."""
    monkeypatch.setattr(node_events, "drop_attempts_on", lambda *_: None)


@pytest.mark.parametrize(
    ("mutate", "story"),
    [
        (never_wait, r"GPU \d+ is held by job \d+ and given to job \d+"),
        (bury_the_silent, r"is running twice|is held by job \d+ and given"),
        (never_repeat, "have not ended"),
        (believe_the_dead, r"is running twice|is held by job \d+ and given|the core forgot"),
        (part_gangs, "have not ended"),
        (trust_old_boots, "have not ended"),
    ],
)
def test_the_checker_notices_a_broken_core(
    mutate: Callable[[pytest.MonkeyPatch], None], story: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    with pytest.raises(Broken, match=story):
        for seed in range(16):
            world(seed, check_every=10**9).run(30_000)


# Two jobs on a GPU -------------------------------------------------------------------------------------------------

SHARING = replace(HOSTILE_SETTINGS, colocation=True)


def crowded_world(seed: int, **options: Any) -> Chaos:
    return Chaos(
        FLOOR,
        mixed_jobs(25, seed, 8),
        (Crowded(), Evenly())[seed % 2],
        PLACERS[seed // 2 % len(PLACERS)],
        seed=seed,
        settings=SHARING,
        rates=pairs(0.8),
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(6 if PROFILE == "many" else 1))
def test_sharing_survives_too(batch: int) -> None:
    steps, counts, seed = 0, Counter[str](), 1000 * batch
    while steps < STEPS_PER_BATCH:
        chaos = crowded_world(seed, check_every=3).run(200_000)
        assert not chaos.core.state.jobs.row and not chaos.gpu_owner, "everything came to its end and gave its GPUs back"
        steps += chaos.steps
        counts.update(chaos.counts)
        seed += 1
    assert counts["shared"] > 100


CHANGING = Faults(node_join=1 / 60, node_leave=1 / 90, node_drain=1 / 60)


def changing_world(seed: int, sharing: bool, **options: Any) -> Chaos:
    """Nodes join, leave and are drained, under jobs of whole GPUs and of parts; in some worlds pairs share GPUs."""
    return Chaos(
        FLOOR,
        mixed_jobs(25, seed, 8, parts=True),
        (Crowded(), Evenly())[seed % 2] if sharing else POLICIES[seed % len(POLICIES)],
        PLACERS[seed // 2 % len(PLACERS)],
        seed=seed,
        faults=CHANGING,
        settings=SHARING if sharing else HOSTILE_SETTINGS,
        rates=pairs(0.8) if sharing else Rates(speeds={}),
        memory_types=(QueueMemory,),
        **options,
    )


@pytest.mark.parametrize("sharing", [False, True])
@pytest.mark.slow
@pytest.mark.parametrize("batch", range(scaled(3)))
def test_a_cluster_that_changes_survives_too(batch: int, sharing: bool) -> None:
    steps, counts, seed = 0, Counter[str](), 1000 * batch
    while steps < STEPS_PER_BATCH:
        chaos = changing_world(seed, sharing, check_every=5).run(200_000)
        assert not chaos.core.state.jobs.row and not chaos.gpu_owner, "everything came to its end and gave its GPUs back"
        steps += chaos.steps
        counts.update(chaos.counts)
        seed += 1
    for cut in ("joins", "leaves", "drains", "split"):
        assert counts[cut] > 0, f"no {cut} in {steps} steps"


def elastic_world(seed: int, sharing: bool = False, **options: Any) -> Chaos:
    """Jobs of several sizes, some of which change theirs while they run, on a cluster that changes too."""
    return Chaos(
        FLOOR,
        mixed_jobs(25, seed, 8, parts=seed % 3 == 0, elastic=True),
        (Crowded(), Evenly())[seed % 2] if sharing else POLICIES[seed % len(POLICIES)],
        PLACERS[seed // 2 % len(PLACERS)],
        seed=seed,
        faults=CHANGING,
        settings=SHARING if sharing else HOSTILE_SETTINGS,
        rates=pairs(0.8) if sharing else Rates(speeds={}),
        memory_types=(QueueMemory,),
        **options,
    )


@pytest.mark.parametrize("sharing", [False, True])
@pytest.mark.slow
@pytest.mark.parametrize("batch", range(scaled(3)))
def test_jobs_of_several_sizes_survive_too(batch: int, sharing: bool) -> None:
    steps, counts, seed = 0, Counter[str](), 1000 * batch
    while steps < STEPS_PER_BATCH:
        chaos = elastic_world(seed, sharing, check_every=5).run(200_000)
        assert not chaos.core.state.jobs.row and not chaos.gpu_owner, "everything came to its end and gave its GPUs back"
        steps += chaos.steps
        counts.update(chaos.counts)
        seed += 1
    for cut in ("resizes", "joins", "leaves", "drains"):
        assert counts[cut] > 0, f"no {cut} in {steps} steps"


def shrink_before_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the GPUs that a job gives up for free when it is told to, not when it has done so."""
    original = fold._resizing

    def hasty(state: Any, resize: Any, attempt: Any) -> None:
        original(state, resize, attempt)
        given_up = np.setdiff1d(attempt.gpus, resize.gpus)
        if len(given_up):
            state.vacate(resize.job, given_up)

    monkeypatch.setattr(fold, "_resizing", hasty)


def grow_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job grow onto GPUs that another has not left."""
    original = reconcile._next_command

    def greedy(state: Any, settings: Any, wish: Any, attempt: Any, host_gib: Any, taken: Any, given: Any) -> Any:
        return original(state, settings, wish, attempt, host_gib, taken & False, given)

    monkeypatch.setattr(reconcile, "_next_command", greedy)


def keep_the_old_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe that a job that was resized still has all it had."""
    monkeypatch.setattr(attempts, "_resized", lambda state, resize, event: attempts.begin(state, event.job, event.at_s))


@pytest.mark.parametrize(
    ("mutate", "story"),
    [
        (shrink_before_the_answer, r"is held by job \d+ and given|grew onto GPU"),
        (grow_without_asking, r"is held by job \d+ and given|grew onto GPU"),
        (keep_the_old_size, r"is not whole|have not ended|believed to use"),
    ],
)
def test_the_checker_notices_wrong_sizes(
    mutate: Callable[[pytest.MonkeyPatch], None], story: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    with pytest.raises(Broken, match=story):
        for seed in range(20):
            elastic_world(seed, check_every=1 if mutate is keep_the_old_size else 10**9).run(30_000)


def overfill_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launch a part of a GPU whatever is left of it."""
    original = reconcile._has_room

    def generous(state: Any, job: int, want: Any, *others: Any) -> bool:
        up = state.nodes.node_up[state.nodes.cluster.gpu_node[want]].all()
        return original(state, job, want, *others) or bool(state.jobs.specs[job].gpus < 1 and up)

    monkeypatch.setattr(reconcile, "_has_room", generous)


def test_the_checker_notices_gpus_that_are_overfilled(monkeypatch: pytest.MonkeyPatch) -> None:
    overfill_gpus(monkeypatch)
    with pytest.raises(Broken, match=r"have more than all of GPU|is held by job"):
        for seed in range(12):
            changing_world(seed, False, check_every=10**9).run(30_000)


def join_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launch beside whoever holds the GPUs."""
    monkeypatch.setattr(reconcile, "_only_partner", lambda *_: True)


def take_any_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a unit sit where others are to be."""
    monkeypatch.setattr(placements, "released", lambda state, jobs: state.nodes.planned.holder < 10**9)


def forget_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take GPUs for free when the first of two has left them."""

    def careless(self: Occupancy, job: int, gpus: Any) -> None:
        for gpu in gpus.tolist():
            self.gpu_fractions.pop(gpu, None)
        self.holder[gpus] = FREE

    monkeypatch.setattr(Occupancy, "release", careless)


@pytest.mark.parametrize("mutate", [join_anybody, take_any_seat, forget_the_second])
def test_the_checker_notices_strangers(mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises(Broken, match=r"is held by job \d+ and given|share GPU"):
        for seed in range(12):
            crowded_world(seed, check_every=10**9).run(30_000)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", [world, crowded_world, elastic_world])
def test_a_short_run(make: Callable[..., Chaos], seed: int) -> None:
    """What the batches do by the million steps, in a second: the chaos of `make quick`."""
    chaos = make(seed, check_every=5).run(200_000)
    assert chaos.steps > 1_000 and not chaos.core.state.jobs.row and not chaos.gpu_owner
