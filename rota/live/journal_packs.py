"""Entries of a journal on disk: as text while they are new, and packed and compressed when they are older.

Nothing is dropped: a restart reads a snapshot and the entries after it, but `rota fidelity` and a replay read all entries. A pack
replaces its entries in one transaction, so a process that dies at any moment leaves one or the other.
"""

import base64
import json
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from rota.errors import JournalError
from rota.live.journal_store import JournalStore, Rows, schema

PAGE = 500
"""Number of rows read at a time."""
PACK_ENTRIES = 500
"""Number of entries in a pack."""
PACK_PAGE = 20
"""Number of entries read at a time for packing. An earlier version wrote up to a megabyte in each."""
PACK_CHARACTERS = 4_000_000
"""Length of the text from which a pack is full, even with fewer entries."""
NEW_ENTRIES = 500
"""Number of latest entries that are not packed while the scheduler runs."""
MIN_ENTRIES = 50
"""Minimum number of entries that are packed when the scheduler starts."""
LONG_TEXT = 65_536
"""Length from which the text of one entry is compressed, such as that of ten thousand submissions at once."""


class EntryText(NamedTuple):
    """An entry as it is written."""

    number: int
    now_s: float
    events: str
    decided: str | None


def short(text: str) -> str:
    if len(text) < LONG_TEXT:
        return text
    return json.dumps({"packed": base64.b64encode(zlib.compress(text.encode(), 1)).decode("ascii")})


def long(text: str) -> str:
    if not text.startswith('{"packed"'):
        return text
    return zlib.decompress(base64.b64decode(json.loads(text)["packed"])).decode()


def read_texts(rows: Rows, after: int = 0, only: int | None = None) -> Iterator[EntryText]:
    """Yield the entries with higher numbers than `after`, or with `only` the entry with this number. Another process may pack
    entries meanwhile."""
    after, looked_again = (after if only is None else only - 1), False
    while True:
        if packed := schema(rows) > 1 and rows("SELECT entries FROM packs WHERE last > ? ORDER BY last LIMIT 1", (after,)):
            for entry in unpack(packed[0][0]):
                if entry.number > after and only in (None, entry.number):
                    yield entry
                    after = entry.number
            if only is not None:
                return
            continue
        page = rows(
            "SELECT number, now_s, events, decided FROM entries WHERE number > ? ORDER BY number LIMIT ?",
            (after, PAGE if only is None else 1),
        )
        if page and page[0][0] != after + 1 and not looked_again:
            looked_again = True  # the missing entries were packed between the two queries
            continue
        for number, now_s, events, decided in page:
            if only in (None, number):
                yield EntryText(int(number), float(now_s), events, decided)
        if not page or only is not None:
            return
        after, looked_again = int(page[-1][0]), False


def count_entries(rows: Rows) -> tuple[int, int]:
    """Return the number of entries, and the number of the last. If they differ, some entries are missing."""
    found, last = rows("SELECT count(*), coalesce(max(number), 0) FROM entries", ())[0]
    if schema(rows) > 1:
        packed, last_packed = rows("SELECT coalesce(sum(last - first + 1), 0), coalesce(max(last), 0) FROM packs", ())[0]
        found, last = found + packed, max(last, last_packed)
    return int(found), int(last)


def oldest_texts(rows: Rows, starting: bool = False) -> list[EntryText]:
    """Return the entries of the next pack; empty if there are too few. The last entry is never packed."""
    found: list[EntryText] = []
    first, last = rows("SELECT coalesce(min(number), 0), coalesce(max(number), 0) FROM entries", ())[0]
    new, least = (1, MIN_ENTRIES) if starting else (NEW_ENTRIES, PACK_ENTRIES)
    end, size = min(last - new, first + PACK_ENTRIES - 1), 0
    if last - first + 1 < new + least:
        return []
    while first <= end and size <= PACK_CHARACTERS:
        for number, now_s, events, decided in rows(
            "SELECT number, now_s, events, decided FROM entries WHERE number BETWEEN ? AND ? ORDER BY number",
            (first, min(first + PACK_PAGE - 1, end)),
        ):
            found.append(EntryText(int(number), float(now_s), events, decided))
            size += len(events) + len(decided or "")
        first += PACK_PAGE
    return found


def pack(store: JournalStore, entries: list[EntryText]) -> None:
    """Replace consecutive entries with one pack, within a transaction."""
    first, last = entries[0].number, entries[-1].number
    text = json.dumps([[each.number, each.now_s, long(each.events), each.decided] for each in entries])
    store.execute("INSERT INTO packs VALUES (?, ?, ?)", (first, last, zlib.compress(text.encode(), 6)))
    store.execute("DELETE FROM entries WHERE number BETWEEN ? AND ?", (first, last))


def unpack(packed: bytes) -> list[EntryText]:
    try:
        return [EntryText(*each) for each in json.loads(zlib.decompress(packed))]
    except (zlib.error, ValueError, TypeError) as problem:
        raise JournalError(f"a pack of the journal cannot be read ({problem}).", hint="rota doctor") from problem
