"""Replay: the journal of a live run through a fresh core. The same events must lead to the same decisions, bit for bit."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rota.core.scheduler import Scheduler
from rota.live.given_beliefs import GivenBeliefs, apply_given, offer_pairs, same_given
from rota.live.journal import Journal
from rota.live.journal_entries import JournalEntry
from rota.model.codec import Codec

Make = Callable[[Mapping[str, Any]], Scheduler]
"""A scheduler as a recorded configuration describes it."""


@dataclass(frozen=True)
class Difference:
    """An entry at which the core decided something else than what was recorded."""

    number: int
    recorded: str
    again: str


def replay(journal: Journal, words: Codec, make: Make) -> Iterator[tuple[JournalEntry, Scheduler, Difference | None]]:
    """Every entry, with the scheduler as it is after it. Policies are not asked: their answers are among the events."""
    scheduler, configured = None, None
    for entry in journal.entries():
        configuration = journal.configuration(entry.number)
        if scheduler is None or configuration != configured:
            scheduler, configured = reconfigured(scheduler, make, configured or {}, configuration or {}), configuration
        scheduler.fold(entry.now_s, entry.events)
        recorded, again = _text(entry.decided, words), _text(scheduler.decide(), words)
        scheduler.commit(entry.decided)
        yield entry, scheduler, None if recorded == again else Difference(entry.number, recorded, again)


def reconfigured(
    scheduler: Scheduler | None, make: Make, before: Mapping[str, Any], configuration: Mapping[str, Any]
) -> Scheduler:
    """A scheduler set up like this that knows what the other one knows. That one was set up as `before`: what the configuration
    tells now replaces what it told then."""
    fresh = make(configuration)
    if scheduler is not None:
        fresh.state = scheduler.state
        if not same_given(before, configuration):
            fresh.state = apply_given(fresh.state, GivenBeliefs.of(before), GivenBeliefs.of(configuration), fresh.settings)
        if fresh.settings.packing and not fresh.state.knowledge.options.has_colocated:
            fresh.state = offer_pairs(fresh.state)
        if fresh.settings.tactics.colocating is not None and not fresh.state.knowledge.sharing:
            # It stays so when the tactic is given up: jobs may share GPUs at that moment.
            fresh.state = fresh.state.copy()
            fresh.state.knowledge.sharing = True
    return fresh


def _text(value: Any, words: Codec) -> str:
    return json.dumps(words.encode(value))
