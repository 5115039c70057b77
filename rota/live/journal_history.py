"""Events of jobs and usage in the tables of a journal. Both are written in the transaction of the entry that caused them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rota.live.event_notes import KeptEvent
from rota.live.job_events import JobEvent
from rota.live.journal_store import JournalStore, Rows, schema
from rota.live.usage import UsageAmounts, UsageKey, UsageRow

PAGE = 500
"""Number of rows read at a time."""

_KEYS = UsageKey._fields
_SUMS = UsageAmounts._fields
_BOOK = (
    f"INSERT INTO usage ({', '.join((*_KEYS, *_SUMS))}) VALUES ({', '.join('?' * (len(_KEYS) + len(_SUMS)))}) "
    f"ON CONFLICT ({', '.join(_KEYS)}) DO UPDATE SET {', '.join(f'{name} = usage.{name} + excluded.{name}' for name in _SUMS)}"
)


class KeptJob(NamedTuple):
    """A job as clients see it."""

    spec: Mapping[str, Any] | None
    """The spec as submitted, which does not change; None if the journal has it."""
    row: Mapping[str, Any]
    ended: bool


class Noted(NamedTuple):
    """What the history noted of one entry."""

    jobs: Mapping[int, KeptJob]
    """Changed jobs, by number."""
    events: Sequence[KeptEvent] = ()
    usage: Sequence[UsageRow] = ()


def keep(store: JournalStore, noted: Noted) -> None:
    """Write events and add usage, within a transaction."""
    if noted.events:
        rows = [(each.job, each.number, each.at_s, json.dumps(each.plain, separators=(",", ":"))) for each in noted.events]
        store.execute_many("INSERT INTO job_events VALUES (?, ?, ?, ?)", rows)
    if noted.usage:
        store.execute_many(_BOOK, [(*_columns_of(each.key), *each.amounts) for each in noted.usage])


def read_events(rows: Rows, job: int) -> list[JobEvent]:
    """Return the events of a job, the oldest first, without its submission. An earlier version kept none."""
    if schema(rows) < 3:
        return []
    found = rows("SELECT at_s, event FROM job_events WHERE job = ? ORDER BY number", (job,))
    return [JobEvent.of(float(at_s), json.loads(text)) for at_s, text in found]


def read_reclaims(rows: Rows, since_s: float) -> Iterator[tuple[str | None, float]]:
    """Yield the tenant and the seconds of each job that started on GPUs that its tenant had lent, from an instant on."""
    if schema(rows) < 3:
        return
    for (text,) in rows("SELECT event FROM job_events WHERE at_s >= ? AND event LIKE ?", (since_s, '%"reclaim_seconds":%')):
        plain = json.loads(text)
        if plain.get("reclaim_seconds") is not None:  # the words may also be in the name of another job
            yield plain.get("tenant"), float(plain["reclaim_seconds"])


def read_usage(rows: Rows, since_day: int) -> Iterator[UsageRow]:
    """Yield the usage from this day on."""
    if schema(rows) < 3:
        return
    columns = ", ".join((*_KEYS, *_SUMS))
    for found in rows(f"SELECT {columns} FROM usage WHERE day >= ? ORDER BY day, owner, tenant, accelerator", (since_day,)):
        yield UsageRow(_key_of(*found[: len(_KEYS)]), UsageAmounts(*found[len(_KEYS) :]))


def _columns_of(key: UsageKey) -> tuple[int, str, str, str]:
    """Return a key as the columns of the table, where an empty text stands for none: a primary key cannot be NULL."""
    return key.day, key.owner, key.tenant or "", key.accelerator or ""


def _key_of(day: int, owner: str, tenant: str, accelerator: str) -> UsageKey:
    return UsageKey(day, owner, tenant or None, accelerator or None)
