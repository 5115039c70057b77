"""Deciding, planning, explaining and querying leave the state unchanged: its snapshot is the same before and after."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rota.core.explain import explain, reasons
from rota.core.learn.cordon import slow_gpus
from rota.core.plan.planner import make_plan
from rota.core.scheduler import Scheduler
from rota.core.snapshot import make_codec
from rota.model.events import Decided
from rota.policies.queues import QueueMemory
from tests.examples import PROFILE
from tests.properties.test_chaos import changing_world, crowded_world, world

WORDS = make_codec(QueueMemory)
EVERY = 7 if PROFILE == "many" else 20
"""Of so many decisions, one is watched."""


def watch_readers(monkeypatch: pytest.MonkeyPatch, every: int) -> Counter[str]:
    """From now on, look at the state around everything that should only read it, at one decision of so many."""
    original, seen = Scheduler.decide, Counter[str]()

    def unchanged(core: Scheduler, name: str, read: Callable[[], Any]) -> Any:
        before = core.snapshot(WORDS)
        found = read()
        assert core.snapshot(WORDS) == before, f"{name} changed the state"
        seen[name] += 1
        return found

    def decide(core: Scheduler) -> Decided | None:
        seen["steps"] += 1
        if seen["steps"] % every:
            return original(core)
        state = core.state
        unchanged(core, "view", core.view)
        unchanged(core, "reasons", lambda: (reasons(state), slow_gpus(state)))
        unchanged(core, "explain", lambda: [explain(state, job) for job in state.jobs.row])
        if state.cycle.answer is not None:
            unchanged(core, "make_plan", lambda: make_plan(state, core.settings, core.placer))
        found: Decided | None = unchanged(core, "decide", lambda: original(core))
        return found

    monkeypatch.setattr(Scheduler, "decide", decide)
    return seen


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [world, crowded_world, changing_world])
def test_readers_change_nothing(make: Callable[..., Any], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watch_readers(monkeypatch, EVERY)
    chaos = make(seed, sharing=bool(seed % 2)) if make is changing_world else make(seed)
    chaos.run()
    assert min(seen[name] for name in ("view", "reasons", "explain", "make_plan", "decide")) > 20


def test_a_reader_that_writes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Scheduler.decide

    def greedy(core: Scheduler) -> Decided | None:
        core.state.cycle.needs_plan = not core.state.cycle.needs_plan
        return original(core)

    monkeypatch.setattr(Scheduler, "decide", greedy)
    watch_readers(monkeypatch, every=1)
    with pytest.raises(AssertionError, match="decide changed the state"):
        world(0).run()
