"""Every job that waits has a reason, which an independent check of the facts confirms."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.decision_timing import AtEvents, AtRounds
from rota.core.explain import explain, reasons
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec, Phase
from rota.model.reasons import Reason
from rota.placers.packed import Packed
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo
from rota.policies.las import Las
from rota.policies.srsf import Srsf
from rota.policies.tiresias import Tiresias
from rota.sim.chaos import Chaos
from rota.sim.chaos_jobs import mixed_jobs
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from tests.examples import examples, scaled


def confirm(core: Scheduler) -> int:
    """Check the headline of every job against the floor itself, not against what the core derived."""
    state = core.state
    codes = reasons(state)
    pools = len(state.nodes.cluster.pools)
    in_use = np.ones(state.nodes.cluster.gpus, dtype=bool)
    in_use[list(state.nodes.drained)] = False
    there = state.nodes.node_up[state.nodes.cluster.gpu_node] & in_use
    up = np.bincount(state.nodes.cluster.gpu_pool[there], minlength=pools)
    whole = np.bincount(state.nodes.cluster.gpu_pool[~state.nodes.planned.free & in_use], minlength=pools)
    waiting = 0
    for job, row in state.jobs.row.items():
        code, phase, spec = Reason(int(codes[row])), Phase(state.jobs.table.phase[row]), state.jobs.specs[job]
        accepted = [p for p, name in enumerate(state.nodes.cluster.pools) if not spec.accelerators or name in spec.accelerators]
        if phase in (Phase.RUNNING, Phase.RESIZING, Phase.SUSPENDING, Phase.STOPPING):
            assert code is Reason.NONE
            continue
        waiting += 1
        assert code is not Reason.NONE, f"job {job} waits for no reason"
        headline = explain(state, job)[0]
        assert headline.code is code and headline.sentence
        promised = whole
        if spec.gpus < 1:  # it fits where others have left a part
            taken = ~state.nodes.planned.free
            for gpu in state.nodes.planned.gpu_fractions:
                taken[gpu] = state.nodes.planned.room(gpu) < spec.milli_per_gpu
            promised = np.bincount(state.nodes.cluster.gpu_pool[taken], minlength=pools)
        if code is Reason.HELD:
            assert job in state.jobs.held
        elif code is Reason.DEPENDENCY:
            awaited = headline.facts["waits_for"]
            assert awaited and all(each["job"] in state.jobs.row for each in awaited)  # type: ignore[attr-defined]
        elif code is Reason.NO_SUCH_ACCELERATOR:
            assert not accepted
        elif code is Reason.UNSATISFIABLE:
            assert all(spec.gpus > state.nodes.cluster.pool_gpus[p] for p in accepted)
        elif code is Reason.NODE_DOWN:
            assert not state.nodes.node_up.all(), f"job {job} blames nodes that are up"
            assert headline.facts["nodes"]
        elif code is Reason.STARTING:
            assert phase is Phase.STARTING and job in state.jobs.in_flight
        elif code is Reason.WAITING_FOR_SUSPEND:
            assert job in state.jobs.desired
            victims = headline.facts["victims"]
            holders = state.nodes.observed.holders(state.jobs.desired[job]) - {job}
            assert set(victims) == holders  # type: ignore[call-overload]
            assert holders or job in state.jobs.to_reconcile, "nobody is in its way and nothing is on its way"
        elif code is Reason.AWAITING_DECISION:
            pending = state.cycle.needs_policy or state.cycle.has_new_answer or state.cycle.call_jobs is not None
            assert pending or state.cycle.answer is None or job not in state.cycle.answer.ids.tolist()
            assert state.jobs.unschedulable_holders or any(spec.gpus <= up[p] - promised[p] for p in accepted)
        elif code is Reason.NO_FREE_GPUS and not state.jobs.unschedulable_holders:
            assert all(spec.gpus > up[p] - promised[p] for p in accepted), f"job {job} would fit"
        elif code is Reason.FRAGMENTED:
            free = np.bincount(state.nodes.cluster.gpu_node[state.nodes.planned.free], minlength=len(state.nodes.cluster.nodes))
            assert any(spec.gpus <= up[p] - promised[p] for p in accepted), f"job {job} has too few GPUs, wherever they are"
            assert state.nodes.cluster.fewest_nodes(0, spec.gpus) > 1 or free.max() < spec.gpus, f"job {job} has a node to go to"
        elif code is Reason.OUTRANKED:
            ahead = headline.facts["ahead"]
            assert ahead and all(other in state.jobs.row and other != job for other in ahead)  # type: ignore[attr-defined]
            if not state.jobs.unschedulable_holders:
                assert any(spec.gpus <= up[p] - promised[p] for p in accepted), f"job {job} is not merely outranked"
    return waiting


class Watched(Scheduler):
    seen = 0

    def step(self, now_s: float, events: Any) -> Any:
        commands = super().step(now_s, events)
        Watched.seen += confirm(self)
        return commands


@given(st.integers(0, 10**6), st.sampled_from([Fifo(), Fifo(backfill=True), Las(), Srsf(), Tiresias(thresholds=(60.0,))]))
@examples(20)
def test_every_wait_has_a_true_reason(seed: int, policy: Any) -> None:
    rng = np.random.default_rng(seed)
    cluster = Cluster.parse(["3xV100", "2x(2xV100) + 1x(4xK80)"][seed % 2])
    decide = AtRounds(round_seconds=40.0) if seed % 3 == 0 else AtEvents()
    arrivals = [
        Arrival(
            float(t),
            JobSpec(
                gpus=int(rng.choice([1, 1, 2, 3])),
                steps=float(rng.integers(1, 200)),
                accelerators=("V100",) * int(rng.random() < 0.3),
                can_park=bool(rng.random() < 0.5),
            ),
        )
        for t in np.cumsum(rng.exponential(15, 20))
    ]
    core = Watched(cluster, Packed(), Settings(decide=decide))
    Watched.seen = 0
    physics = Physics(launch_seconds=2.0, checkpoint_seconds=1.0, node_mtbf_seconds=300.0, node_repair_seconds=30.0)
    usable = [a for a in arrivals if a.spec.gpus <= 2 or "V100" not in a.spec.accelerators or seed % 2 == 0]
    Engine(core, policy, physics, usable, seed=seed).run()
    assert Watched.seen > 0


@given(st.integers(0, 10**6), st.sampled_from([Fifo(), Fifo(backfill=False), Fifo(backfill=True), Las(), Srsf()]))
@examples(15)
def test_those_who_wait_for_a_place_get_one_together_in_the_end(seed: int, policy: Any) -> None:
    rng = np.random.default_rng(seed)
    cluster = Cluster.parse(["4x(4xV100)", "2x(3x(2xV100))"][seed % 2])
    most = int(cluster.node_gpus.max())
    arrivals = [
        Arrival(
            float(t),
            JobSpec(
                gpus=int(rng.integers(1, 2 * most + 1)), steps=float(rng.integers(1, 200)), can_park=bool(rng.random() < 0.5)
            ),
        )
        for t in np.cumsum(rng.exponential(10, 25))
    ]
    core = Watched(cluster, Spread(), Settings(wait_for_locality=True))
    Watched.seen = 0
    record = Engine(core, policy, Physics(launch_seconds=2.0, checkpoint_seconds=1.0), arrivals, seed=seed).run()
    assert record.ended == len(arrivals) and Watched.seen > 0
    for start, end in itertools.pairwise(record.gpu_intervals.first.tolist()):
        gpus = record.gpu_intervals.gpus[start:end]
        assert len(np.unique(cluster.gpu_node[gpus])) == cluster.fewest_nodes(0, len(gpus))


def test_reasons_are_true_in_chaos_too() -> None:
    waits = 0
    for seed in range(scaled(6)):
        chaos = Chaos(Cluster.parse("2x(3xV100) + 1x(2xK80)"), mixed_jobs(15, seed, 4), Srsf(), Packed(), seed=seed)
        original = chaos.tell

        def tell(events: Any, chaos: Chaos = chaos, original: Any = original) -> None:
            nonlocal waits
            original(events)
            waits += confirm(chaos.core)

        chaos.tell = tell  # type: ignore[method-assign]
        chaos.run()
    assert waits > 300


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ({"gpus": 9}, Reason.UNSATISFIABLE, "asks for 9 GPUs of any type; the largest pool it accepts has 4"),
        ({"accelerators": ("B200",)}, Reason.NO_SUCH_ACCELERATOR, "asks for 1 GPU of B200; the cluster has V100"),
        ({"gpus": 3}, Reason.NO_FREE_GPUS, "needs 3 GPUs of any type; 2 are free"),
        ({"gpus": 1}, Reason.OUTRANKED, "ahead of it by submission"),
    ],
)
def test_sentences(spec: dict[str, Any], code: Reason, words: str) -> None:
    from tests.unit.core.helpers import Bench

    bench = Bench("4xV100", Fifo())
    bench.obey(bench.submit(gpus=2))
    if code is Reason.OUTRANKED:
        bench.submit(gpus=4)
    bench.submit(**spec)
    explanation = explain(bench.state, bench.jobs - 1)[0]
    assert explanation.code is code and words in explanation.sentence
