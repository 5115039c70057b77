"""Another policy takes over: it is called at once, without the memory of the earlier one."""

import json
from typing import Any

import pytest

from rota.api import prepare
from rota.compose.codecs import codec_for
from rota.compose.registry import POLICIES, make_policy
from rota.core.scheduler import Scheduler
from rota.model.codec import Codec
from rota.sim.engine import Engine

TEN = "synthetic:jobs=10,seed=3"


def halfway(policy: str, **options: Any) -> tuple[Any, Engine]:
    """A simulation that stopped when half of the jobs were done."""
    ready = prepare(TEN, policy=policy, cluster="8xV100 + 8xK80", **options)
    engine = ready.engine()
    original = engine._next_events

    def next_events() -> Any:
        if engine.record.ended >= 5:
            raise InterruptedError
        return original()

    engine._next_events = next_events  # type: ignore[method-assign]
    with pytest.raises(InterruptedError):
        engine.run()
    engine._next_events = original  # type: ignore[method-assign]
    return ready, engine


@pytest.mark.parametrize("first", ["tiresias", "allox", "finish-time-fairness", "gittins"])
@pytest.mark.parametrize("second", ["fifo", "finish-time-fairness:colocation=false", "allox:alpha=1", "tiresias:thresholds=60"])
def test_it_starts_without_the_memory_of_the_other(first: str, second: str) -> None:
    _, engine = halfway(first)
    assert engine.scheduler.view().memory is not None
    engine.scheduler = engine.scheduler.fork(policy=second)
    assert engine.scheduler.view().memory is None
    engine.policy = make_policy(second)
    record = engine.run()
    assert record.ended == 10
    assert engine.scheduler.state.cycle.answer is not None and engine.scheduler.state.cycle.answer.policy == second


def test_the_same_policy_keeps_its_memory() -> None:
    _, engine = halfway("tiresias")
    assert engine.scheduler.fork().view().memory is engine.scheduler.view().memory


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.slow
def test_snapshots_work_with_the_catalogue_and_with_every_memory(policy: str) -> None:
    """A run that goes on from a snapshot ends as it would have without."""
    ready, engine = halfway(policy)
    words = codec_for(ready.policy)
    plain = json.loads(json.dumps(engine.scheduler.snapshot(words)))
    twin = Scheduler.of(ready.cluster, ready.setup)
    twin.restore(plain, words)
    assert twin.snapshot(words) == engine.scheduler.snapshot(words)
    engine.scheduler = twin
    finished = engine.run().finished_s
    whole = prepare(TEN, policy=policy, cluster="8xV100 + 8xK80").engine().run().finished_s
    assert finished.tolist() == whole.tolist()


def test_two_types_of_one_name_are_refused() -> None:
    first, second = type("Memory", (), {}), type("Memory", (), {})
    with pytest.raises(TypeError, match="two types are named Memory"):
        Codec(first, second)
