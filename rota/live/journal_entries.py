"""Reads the entries of a journal, as any version wrote them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from rota.errors import JournalError
from rota.live.answer_columns import KeptAnswer, make_answer, read_answer, write_answer
from rota.live.journal_packs import EntryText, Rows, long, read_texts
from rota.model.codec import Codec, Plain
from rota.model.events import Allocated, Decided, External

ALLOCATED = Allocated.__name__


class JournalEntry(NamedTuple):
    """One turn: when the core learned what, and what it decided."""

    number: int
    now_s: float
    events: list[External]
    decided: Decided | None


class EntryReader:
    """Reads beside the process that writes, or in it."""

    def __init__(self, rows: Rows, words: Codec) -> None:
        self._rows, self._words = rows, words
        self._answer: KeptAnswer | None = None
        """The answer that was read last."""

    def entries(self, after: int = 0) -> Iterator[JournalEntry]:
        """Those with higher numbers."""
        for found in read_texts(self._rows, after):
            decided = None if found.decided is None else self._words.decode(json.loads(found.decided))
            yield JournalEntry(found.number, found.now_s, self._events(found), decided)

    def _events(self, found: EntryText) -> list[External]:
        plain = json.loads(long(found.events))
        answers: dict[int, KeptAnswer] = {}
        for i, each in enumerate(plain["list"]):
            if (written := _answer_in(each)) is not None:
                answers[i] = self._answer = read_answer(written, found.number, self._answer_at)
                plain["list"][i] = {**each, "fields": {**each["fields"], "allocation": None}}
        events: list[Any] = self._words.decode(plain)
        for i, answer in answers.items():
            events[i] = replace(events[i], allocation=make_answer(answer, self._words))
        return events

    def _answer_at(self, number: int) -> KeptAnswer:
        """The answer that another one builds on: as a rule the one that was read last."""
        if self._answer is not None and self._answer.number == number:
            return self._answer
        for found in read_texts(self._rows, only=number):
            for each in json.loads(long(found.events))["list"]:
                if (written := _answer_in(each)) is not None:
                    return read_answer(written, number, self._answer_at)
        raise JournalError(f"entry {number} of the journal has no answer, and a later one builds on it.", hint="rota doctor")


def _answer_in(event: Plain) -> Plain | None:
    """An answer that was written by `write_answer`, if this event has one."""
    return event["fields"]["allocation"].get("answer") if event["type"] == ALLOCATED else None


def shorter_events(text: str, words: Codec) -> str:
    """Events as version 1 wrote them, with answers as they are written now. Which jobs these are about is not known, so they are
    whole."""
    if ALLOCATED not in text:
        return text
    plain = json.loads(long(text))
    for each in plain["list"]:
        if each["type"] == ALLOCATED and "type" in each["fields"]["allocation"]:
            allocation = words.decode(each["fields"]["allocation"])
            each["fields"]["allocation"] = {"answer": write_answer(allocation, None, 0, None, words)[0]}
    return json.dumps(plain, separators=(",", ":"))
