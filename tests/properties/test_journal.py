"""One journal, read in three ways: decided again, recovered from a snapshot, and forked in the middle. All agree to the bit."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import Rates
from rota.core.decision_timing import AtEvents, AtRounds
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.snapshot import make_codec
from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.commands import CallPolicy
from rota.model.job import Arrival, JobSpec
from rota.placers.packed import Packed
from rota.placers.random import Random
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo
from rota.policies.gittins import Gittins
from rota.policies.las import Las
from rota.policies.queues import QueueMemory
from rota.policies.srtf import Srtf
from rota.policies.tiresias import Tiresias
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from rota.sim.recorded_step import Journal
from tests.examples import examples

WORDS = make_codec(QueueMemory)
CLUSTERS = ["3xV100", "2x(2xV100) + 1x(4xK80)", "1x(4xA100) + 2x(2xP100) + 1xT4"]


@st.composite
def runs(draw: st.DrawFn) -> tuple[Any, Journal]:
    cluster = Cluster.parse(draw(st.sampled_from(CLUSTERS)))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    times = np.cumsum(rng.exponential(30, 25)).round(1).tolist()
    arrivals = [
        Arrival(
            t, JobSpec(gpus=int(rng.choice([1, 1, 2, 3])), steps=float(rng.integers(1, 300)), can_park=bool(rng.random() < 0.3))
        )
        for t in times
    ]
    policy = draw(
        st.sampled_from([Fifo(), Fifo(backfill=True), Srtf(), Las(), Tiresias(thresholds=(60.0,), promote=3.0), Gittins()])
    )
    placer = draw(st.sampled_from([Packed(), Random(sticky=False), Spread()]))
    decide = draw(st.sampled_from([AtEvents(), AtRounds(round_seconds=45.0), AtRounds(round_seconds=60.0, at_events=True)]))
    chosen = Settings(seed=draw(st.integers(0, 9)), decide=decide)
    costs = MoveCosts(*draw(st.sampled_from([(0.0, 0.0, 0.0), (3.0, 2.0, 1.0)])))
    fails = draw(st.booleans())
    physics = Physics(
        rates=Rates(),
        launch_seconds=costs.launch_seconds,
        checkpoint_seconds=costs.checkpoint_seconds,
        restore_seconds=costs.restore_seconds,
        node_mtbf_seconds=400.0 if fails else np.inf,
        node_repair_seconds=90.0,
        checkpoint_every_seconds=20.0 if fails else np.inf,
    )

    def make() -> Scheduler:
        return Scheduler(cluster, placer, chosen, rates=Rates(), costs=costs)

    journal: Journal = []
    Engine(make(), policy, physics, arrivals, seed=1, report_seconds=50.0 if fails else np.inf, journal=journal).run()
    return make, journal


def text(value: Any) -> str:
    return json.dumps(WORDS.encode(value))


@given(runs())
@examples(60)
def test_deciding_again_gives_the_same_commands_bit_for_bit(run: tuple[Any, Journal]) -> None:
    make, journal = run
    written = json.dumps([[now_s, WORDS.encode(events), WORDS.encode(decided)] for now_s, events, decided in journal])
    twin = make()
    for now_s, events, decided in json.loads(written):
        twin.fold(now_s, WORDS.decode(events))
        again = twin.decide()
        assert text(again) == json.dumps(decided)
        twin.commit(again)


@given(runs(), st.floats(0, 1))
@examples(60)
def test_snapshot_and_the_rest_equal_the_whole(run: tuple[Any, Journal], where: float) -> None:
    make, journal = run
    cut = int(where * len(journal))
    whole, half = make(), make()
    saved = json.dumps(half.snapshot(WORDS))
    for number, (now_s, events, decided) in enumerate(journal):
        whole.fold(now_s, events)
        whole.commit(decided)
        if number + 1 == cut:
            saved = json.dumps(whole.snapshot(WORDS))
    half.restore(json.loads(saved), WORDS)
    for now_s, events, decided in journal[cut:]:
        half.fold(now_s, events)
        half.commit(decided)
    assert half.snapshot(WORDS) == whole.snapshot(WORDS)


@given(runs(), st.floats(0, 1))
@examples(40)
def test_a_fork_lives_the_same_life_and_leaves_the_original_alone(run: tuple[Any, Journal], where: float) -> None:
    make, journal = run
    cut = int(where * len(journal))
    core = make()
    for now_s, events, decided in journal[:cut]:
        core.fold(now_s, events)
        core.commit(decided)
    before = core.snapshot(WORDS)
    twin = core.fork()
    for now_s, events, decided in journal[cut:]:
        twin.fold(now_s, events)
        assert text(twin.decide()) == text(decided)
        twin.commit(decided)
    assert core.snapshot(WORDS) == before


def test_the_codec_refuses_what_it_does_not_know() -> None:
    with pytest.raises(TypeError):
        WORDS.encode(object())
    with pytest.raises(TypeError):
        WORDS.encode(Physics())
    with pytest.raises(TypeError):
        WORDS.encode(CallPolicy(1, None))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown type"):
        WORDS.decode({"type": "os.system", "fields": {}})


def test_a_snapshot_of_another_version_is_refused() -> None:
    core = Scheduler(Cluster.parse("1xV100"), Packed())
    plain = core.snapshot(WORDS) | {"version": 99}
    with pytest.raises(InputError, match="version 99"):
        core.restore(plain, WORDS)
