"""Replay: the journal of a live run through a fresh core. The same events must lead to the same decisions, bit for bit."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rota.core.scheduler import Scheduler
from rota.errors import TacticError
from rota.live.journal import Journal
from rota.live.journal_entries import JournalEntry
from rota.live.recovery import Make, setup_at
from rota.model.codec import Codec
from rota.model.events import Decided


@dataclass(frozen=True)
class Difference:
    """An entry whose recorded decision differs from the decision of the replay."""

    number: int
    recorded: str
    again: str


def replay(journal: Journal, codec: Codec, make: Make) -> Iterator[tuple[JournalEntry, Scheduler, Difference | None]]:
    """Return every entry, with the scheduler after it. No policy is called: its answers are among the events."""
    scheduler = None
    for entry in journal.entries():
        scheduler = scheduler or make(setup_at(journal, 0))
        scheduler.fold(entry.now_s, entry.events)
        recorded, again = _text(entry.decided, codec), _text(_decide(scheduler), codec)
        scheduler.commit(entry.decided)
        yield entry, scheduler, None if recorded == again else Difference(entry.number, recorded, again)


def _decide(scheduler: Scheduler) -> Decided | None:
    """Decide as a live scheduler does: nothing if a tactic raises, which the setup of the next entry switches off."""
    try:
        return scheduler.decide()
    except TacticError:
        return None


def _text(value: Any, codec: Codec) -> str:
    return json.dumps(codec.encode(value))
