"""Memories that only snapshots keep: a journal has none of them, and a fold continues with that of the snapshot."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rota.core.snapshot import make_codec
from rota.live.journal import Journal
from rota.model.allocation import Assignment, Ranking
from rota.model.commands import CallPolicy
from rota.model.events import Allocated, Submitted
from rota.model.job import JobSpec
from tests.unit.core.helpers import Bench

WORDS = make_codec()


def answer(memory: Any, large: bool = True) -> Assignment:
    none = np.array([], dtype=np.int64)
    return Assignment(position=none, option=none, memory=memory, memory_in_snapshots=large)


class Remembers:
    """Says what it saw of its memory, and remembers something new."""

    def __init__(self) -> None:
        self.saw: list[Any] = []

    def allocate(self, view: Any) -> Assignment:
        self.saw.append(view.memory)
        return answer(f"memory {len(self.saw)}")


def ask(made: Bench, policy: str, given: Any) -> Any:
    """A job comes, and the policy of this name answers; what it saw of its memory."""
    made.core.settings = made.core.settings.__class__(policy=policy)
    made.jobs += 1
    made.now_s += 1.0
    (solve,) = [c for c in made.core.step(made.now_s, [Submitted(made.jobs, JobSpec(), made.now_s)]) if isinstance(c, CallPolicy)]
    made.core.step(made.now_s, [Allocated(solve.ticket, given, made.now_s, policy)])
    return solve.view.memory


@pytest.mark.parametrize("large", [True, False])
def test_what_a_journal_holds(large: bool, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite", WORDS)
    journal.append(1.0, [Allocated(1, answer("a large memory", large), 1.0)], None)
    journal.close()
    assert (b"a large memory" in (tmp_path / "j.sqlite").read_bytes()) != large
    again = Journal(tmp_path / "j.sqlite", WORDS)
    ((event,),) = (entry.events for entry in again.entries())
    assert isinstance(event, Allocated) and isinstance(event.allocation, Assignment)
    assert event.allocation.memory == (None if large else "a large memory") and event.allocation.memory_in_snapshots == large
    again.close()


def test_a_fold_goes_on_with_what_the_snapshot_has() -> None:
    made = Bench()
    assert ask(made, "ones", answer("first")) is None
    assert ask(made, "ones", answer(None)) == "first", "read from a journal, without its memory"
    assert ask(made, "ones", answer("third")) == "first"
    assert ask(made, "ones", answer("fourth")) == "third"


def test_the_memory_of_another_policy_is_never_shown() -> None:
    made = Bench()
    ask(made, "ones", answer("of ones"))
    assert ask(made, "ones:population=8", answer(None)) is None
    assert ask(made, "ones:population=8", answer(None)) is None
    assert made.state.cycle.answer.allocation.memory is None


def test_a_small_memory_that_is_gone_stays_gone() -> None:
    made = Bench()
    ask(made, "optimus", answer("some", large=False))
    ask(made, "optimus", answer(None, large=False))
    assert ask(made, "optimus", answer(None, large=False)) is None
    ask(made, "ones", answer("some"))
    ask(made, "ones", Ranking(order=np.array([], dtype=np.int64)))
    assert ask(made, "ones", answer(None)) is None


def test_a_snapshot_keeps_it() -> None:
    made = Bench()
    ask(made, "ones", answer("kept"))
    plain = json.loads(json.dumps(made.core.snapshot(WORDS)))
    assert "kept" in json.dumps(plain)
