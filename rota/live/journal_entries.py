"""Reads the entries of a journal, as any version wrote them.

A setup may hold whole tables, so the journal keeps it apart, under the number of the entry that begins to use it. The event in
the entry only marks its place among the others. Earlier versions wrote no such event: a setup was in force from the first event
of its entry.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rota.core.fold.configured import Configured, CoreEvent
from rota.errors import JournalError
from rota.live.answer_columns import KeptAnswer, make_answer, read_answer, write_answer
from rota.live.home_setup import HomeSetup
from rota.live.journal_packs import EntryText, long, read_texts
from rota.live.journal_store import Rows
from rota.model.codec import Codec, Plain
from rota.model.events import Allocated, Decided

ALLOCATED = Allocated.__name__
CONFIGURED = Configured.__name__


class JournalEntry(NamedTuple):
    """One turn: the events that the core folded, and what it decided."""

    number: int
    now_s: float
    events: Sequence[CoreEvent]
    decided: Decided | None


class EntryReader:
    """Reads entries, in the process that writes them or in another one."""

    def __init__(self, rows: Rows, codec: Codec) -> None:
        self._rows, self._words = rows, codec
        self._answer: KeptAnswer | None = None
        """The answer that was read last."""

    def entries(self, after: int = 0) -> Iterator[JournalEntry]:
        """Return the entries after this number."""
        setups = {number for (number,) in self._rows("SELECT number FROM configurations WHERE number > ?", (after,))}
        for found in read_texts(self._rows, after):
            decided = None if found.decided is None else self._words.decode(json.loads(found.decided))
            yield JournalEntry(found.number, found.now_s, self._events(found, found.number in setups), decided)

    def _events(self, found: EntryText, configured: bool) -> list[CoreEvent]:
        plain = json.loads(long(found.events))
        if configured and all(each["type"] != CONFIGURED for each in plain["list"]):
            plain["list"].insert(0, {"type": CONFIGURED, "fields": {"at_s": found.now_s}})
        for each in plain["list"]:
            if each["type"] == CONFIGURED:
                each["fields"]["setup"] = self._setup_at(found.number)
        answers: dict[int, KeptAnswer] = {}
        for i, each in enumerate(plain["list"]):
            if (written := _answer_in(each)) is not None:
                answers[i] = self._answer = read_answer(written, found.number, self._answer_at)
                plain["list"][i] = {**each, "fields": {**each["fields"], "allocation": None}}
        events: list[Any] = self._words.decode(plain)
        for i, answer in answers.items():
            events[i] = replace(events[i], allocation=make_answer(answer, self._words))
        return events

    def _setup_at(self, number: int) -> Plain:
        """Return the setup that begins with this entry."""
        ((text,),) = self._rows("SELECT value FROM configurations WHERE number = ?", (number,))
        return plain_form(json.loads(text))

    def _answer_at(self, number: int) -> KeptAnswer:
        """Return the answer that another one builds on, which is usually the one that was read last."""
        if self._answer is not None and self._answer.number == number:
            return self._answer
        for found in read_texts(self._rows, only=number):
            for each in json.loads(long(found.events))["list"]:
                if (written := _answer_in(each)) is not None:
                    return read_answer(written, number, self._answer_at)
        raise JournalError(f"entry {number} of the journal has no answer, and a later one builds on it.", hint="rota doctor")


def _answer_in(event: Plain) -> Plain | None:
    """Return the answer in this event as `write_answer` wrote it, or None."""
    return event["fields"]["allocation"].get("answer") if event["type"] == ALLOCATED else None


def shorter_events(text: str, codec: Codec) -> str:
    """Return events of version 1 with their answers in the form of today. The jobs of the answers are not known, so the answers
    are written whole."""
    if ALLOCATED not in text:
        return text
    plain = json.loads(long(text))
    for each in plain["list"]:
        if each["type"] == ALLOCATED and "type" in each["fields"]["allocation"]:
            allocation = codec.decode(each["fields"]["allocation"])
            each["fields"]["allocation"] = {"answer": write_answer(allocation, None, 0, None, codec)[0]}
    return json.dumps(plain, separators=(",", ":"))


def plain_form(kept: Plain) -> Plain:
    """Return a setup as the codec decodes it."""
    return {"form": HomeSetup.__name__, "value": kept}
