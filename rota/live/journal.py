"""The journal: events and decisions, durable before any command leaves.

An entry has what the core learned at one instant and what it decided then. It is one transaction, flushed to disk, so one turn of
the loop costs one flush. Recovery reads the last snapshot and the entries after it; it folds recorded events and never decides
anything again. A `JournalStore` is the storage.

The journal grows with the number of events, not with the number of waiting jobs: answers of policies are written as differences
(`answer_columns.py`), and older entries are packed (`journal_packs.py`).
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rota.core.fold.configured import Configured, CoreEvent
from rota.live import journal_history, journal_packs
from rota.live.answer_columns import KeptAnswer, write_answer
from rota.live.clock import ClockOrigin
from rota.live.home_setup import HomeSetup
from rota.live.job_events import JobEvent
from rota.live.journal_entries import CONFIGURED, EntryReader, JournalEntry, plain_form, shorter_events
from rota.live.journal_history import KeptJob, Noted
from rota.live.journal_packs import PAGE, short
from rota.live.journal_store import SCHEMA, JournalStore, JournalUnavailable, schema
from rota.live.sqlite_store import SqliteStore
from rota.live.usage import UsageRow
from rota.model.allocation import Assignment
from rota.model.codec import Codec, Plain
from rota.model.events import Allocated, Decided
from rota.model.units import FOREVER, Ints


class AskedAbout(NamedTuple):
    """An open policy call."""

    ticket: int
    ids: Ints
    """Numbers of the jobs to which positions in the answer refer, in rising order."""


def _text(spec: Plain | None) -> str:
    """Format a spec; empty if the journal has it, in which case it stays as it is."""
    return "" if spec is None else json.dumps(spec)


def _journaled(event: CoreEvent) -> CoreEvent:
    """Return the event without what an entry does not keep: the memory of an answer, if only snapshots have it."""
    if isinstance(event, Allocated) and isinstance(event.allocation, Assignment) and event.allocation.memory_in_snapshots:
        return replace(event, allocation=replace(event.allocation, memory=None))
    return event


class Journal:
    """A journal in one store. Used by one thread of one process at a time; readers may open the store at the same time."""

    def __init__(self, store: JournalStore | Path | str, codec: Codec) -> None:
        """Open a journal. A path is that of a SQLite file."""
        self._store: JournalStore = SqliteStore(store) if isinstance(store, Path | str) else store
        self._words = codec
        self._configuration: tuple[int, object, dict[str, Any]] = (0, None, {})
        """Number, version and value of the configuration that was read last."""
        self._doubtful = 0
        """Number of an entry that may or may not have been written; 0 if there is none."""
        self._answer: KeptAnswer | None = None
        """The last answer that this process wrote."""
        self._upgraded = schema(self._store.rows) == SCHEMA
        self.last = self.latest()

    @property
    def epoch(self) -> int:
        """Epoch in which this process leads; 0 if the store has no epochs."""
        return self._store.epoch

    @property
    def name(self) -> str:
        return self._store.name

    def confirm(self) -> None:
        """Raise LeadershipLost if this process no longer leads."""
        self._store.confirm()

    # Writing -----------------------------------------------------------------------------------------------------

    def append(
        self,
        now_s: float,
        events: Sequence[CoreEvent],
        decided: Decided | None,
        noted: Noted | None = None,
        asked: AskedAbout | None = None,
    ) -> None:
        """Write an entry, which is durable when this returns. After JournalUnavailable, append the same entry again.

        `noted` has the changed jobs as clients see them, their events and their usage; `asked` is the policy call that was open
        before these events.
        """
        plain, kept = self._plain_events(events, asked)
        text = short(json.dumps(plain, separators=(",", ":")))
        answer = None if decided is None else json.dumps(self._words.encode(decided), separators=(",", ":"))
        try:
            with self._transaction():
                if self._doubtful != self.last + 1 or not self._is_there(self._doubtful):
                    self._store.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (self.last + 1, now_s, text, answer))
                    for event in events:
                        if isinstance(event, Configured):
                            self._keep_setup(self._words.encode(event.setup)["value"])
                    if noted is not None:
                        self._keep_jobs(noted.jobs)
                        journal_history.keep(self._store, noted)
        except JournalUnavailable:
            self._doubtful = self.last + 1
            raise
        self.last, self._doubtful, self._answer = self.last + 1, 0, kept

    def _plain_events(self, events: Sequence[CoreEvent], asked: AskedAbout | None) -> tuple[Plain, KeptAnswer | None]:
        """Return the events as they are written, and the answer with which the next one is compared. If a call has several
        answers, only the first is written as a difference."""
        found, kept = [], None
        for event in map(_journaled, events):
            plain = None
            if isinstance(event, Allocated) and asked is not None and event.ticket == asked.ticket and kept is None:
                answer, kept = write_answer(event.allocation, asked.ids, self.last + 1, self._answer, self._words)
                plain = self._words.encode(replace(event, allocation=None))  # type: ignore[arg-type]
                plain["fields"]["allocation"] = {"answer": answer}
            elif isinstance(event, Configured):
                plain = {"type": CONFIGURED, "fields": {"at_s": event.at_s}}
            found.append(self._words.encode(event) if plain is None else plain)
        return {"list": found}, kept or self._answer

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write in the schema of this version. A journal of an earlier schema is copied first, and upgraded in the same
        transaction."""
        earlier = not self._upgraded and schema(self._store.rows) < SCHEMA
        if earlier:
            self._store.keep_copy()
        with self._store.transaction():
            if earlier:
                self._store.upgrade()
            yield
        self._upgraded = True

    def compact(self, *, starting: bool = False) -> bool:
        """Pack some hundred of the oldest entries, if there are many unpacked ones. Return whether there may be more to pack.

        A process that is killed meanwhile leaves the journal as before or as after. With `starting`, the latest entries are
        packed too.
        """
        if not (entries := journal_packs.oldest_texts(self._store.rows, starting)):
            return False
        entries = [each._replace(events=shorter_events(each.events, self._words)) for each in entries]
        with self._transaction():
            journal_packs.pack(self._store, entries)
        return True

    def tidy(self) -> None:
        """Give room that packing has freed back to the disk, if it is much."""
        self._store.tidy()

    def _is_there(self, number: int) -> bool:
        """Return whether an entry was written. No other process writes in the same epoch, so the entry is the one of this
        process."""
        return bool(self._store.rows("SELECT number FROM entries WHERE number = ?", (number,)))

    def _keep_jobs(self, jobs: Mapping[int, KeptJob]) -> None:
        if jobs:
            self._store.execute_many(
                "INSERT INTO jobs VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET row = excluded.row, ended = excluded.ended",
                [(job, _text(kept.spec), json.dumps(kept.row), int(kept.ended)) for job, kept in jobs.items()],
            )

    def remove_jobs(self, jobs: Sequence[int]) -> None:
        """Remove jobs that have ended, with their events. Their usage stays."""
        marks = ", ".join("?" * len(jobs))
        with self._transaction():
            self._store.execute(f"DELETE FROM job_events WHERE job IN ({marks})", jobs)
            self._store.execute(f"DELETE FROM jobs WHERE id IN ({marks}) AND ended = 1", jobs)

    def save_snapshot(self, state: Plain) -> None:
        """Save the state after the last entry. The previous snapshot is kept, in case this one cannot be read."""
        packed = zlib.compress(json.dumps(state, separators=(",", ":")).encode(), 1)
        with self._transaction():
            self._store.execute(
                "INSERT INTO snapshots VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET state = excluded.state",
                (self.last, packed),
            )
            self._store.execute(
                "DELETE FROM snapshots WHERE number NOT IN (SELECT number FROM snapshots ORDER BY number DESC LIMIT 2)"
            )
        self._answer = None  # later entries may not refer to an answer before the snapshot

    def configure(self, value: Plain) -> None:
        """Keep a setup for the next entry, so that a home remembers it although nothing has happened yet."""
        if value != self.configuration():
            with self._store.transaction():
                self._keep_setup(value)

    def _keep_setup(self, value: Plain) -> None:
        """Within a transaction."""
        self._store.execute(
            "INSERT INTO configurations VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET value = excluded.value",
            (self.last + 1, json.dumps(value)),
        )
        self._configuration = 0, None, {}

    def keep_clock(self, origin: ClockOrigin) -> None:
        """Record the origin of the daemon's clock, if it has changed."""
        if origin != self.clock_origin():
            with self._store.transaction():
                self._store.execute(
                    "INSERT INTO meta VALUES ('clock', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    (json.dumps(origin._asdict()),),
                )

    # Reading -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[int, Plain] | None:
        """Return the number of the entry after which the last readable snapshot was taken, and the snapshot."""
        for (number,) in self._store.rows("SELECT number FROM snapshots ORDER BY number DESC"):
            found = self._store.rows("SELECT state FROM snapshots WHERE number = ?", (number,))
            if not found:
                continue  # the scheduler has replaced it with a newer one
            try:
                return int(number), json.loads(zlib.decompress(found[0][0]))
            except (zlib.error, ValueError):
                continue
        return None

    def snapshot_number(self) -> int:
        """Return the number of the entry after which the last snapshot was taken; 0 if there is none."""
        return int(self._store.rows("SELECT coalesce(max(number), 0) FROM snapshots")[0][0])

    def entries(self, after: int = 0) -> Iterator[JournalEntry]:
        return EntryReader(self._store.rows, self._words).entries(after)

    def configuration(self, number: int | None = None) -> dict[str, Any] | None:
        """Return the setup in force at an entry as plain data, for reading only; by default that of the next entry. Each is read
        once, since it may hold whole tables."""
        at = self.last + 1 if number is None else number
        found = self._store.rows("SELECT max(number) FROM configurations WHERE number <= ?", (at,))[0][0]
        if found is None:
            return None
        version = self._store.configuration_version(found)
        if self._configuration[:2] != (found, version):
            ((text,),) = self._store.rows("SELECT value FROM configurations WHERE number = ?", (found,))
            self._configuration = found, version, json.loads(text)
        return self._configuration[2]

    def setup(self, number: int | None = None) -> HomeSetup | None:
        """Return the setup in force at an entry; by default that of the next entry. None if there is none yet."""
        kept = self.configuration(number)
        found: HomeSetup | None = None if kept is None else self._words.decode(plain_form(kept))
        return found

    def clock_origin(self) -> ClockOrigin | None:
        """Return the origin of the last daemon's clock."""
        found = self._store.rows("SELECT value FROM meta WHERE key = 'clock'")
        return ClockOrigin(**json.loads(found[0][0])) if found else None

    def jobs(self, *, unfinished: bool = False) -> Iterator[tuple[int, Plain, Plain]]:
        """Yield (number, spec, row) of every job, or of those that had not ended."""
        which, after = "AND ended = 0 " if unfinished else "", -1
        while page := self._store.rows(f"SELECT id, spec, row FROM jobs WHERE id > ? {which}ORDER BY id LIMIT ?", (after, PAGE)):
            for job, spec, row in page:
                yield int(job), json.loads(spec), json.loads(row)
            after = page[-1][0]

    def records(self, jobs: Sequence[int]) -> Iterator[tuple[int, Plain, Plain]]:
        """Yield (number, spec, row) of these jobs, as far as the journal has them."""
        for first in range(0, len(jobs), PAGE):
            some = jobs[first : first + PAGE]
            marks = ", ".join("?" * len(some))
            for job, spec, row in self._store.rows(f"SELECT id, spec, row FROM jobs WHERE id IN ({marks})", some):
                yield int(job), json.loads(spec), json.loads(row)

    def events_of(self, job: int) -> list[JobEvent]:
        """Return the events of a job, the oldest first, without its submission."""
        return journal_history.read_events(self._store.rows, job)

    def usage(self, since_day: int = 0) -> Iterator[UsageRow]:
        """Yield the usage from this day on, counted in days from 1970-01-01."""
        return journal_history.read_usage(self._store.rows, since_day)

    def reclaims(self, since_s: float) -> Iterator[tuple[str | None, float]]:
        """Yield the tenant and the seconds of each job that started on GPUs that its tenant had lent, from an instant on."""
        return journal_history.read_reclaims(self._store.rows, since_s)

    def latest(self) -> int:
        """Return the number of the last entry, which another process may have written since this one opened the journal."""
        return int(self._store.rows("SELECT coalesce(max(number), 0) FROM entries")[0][0])

    def first_submitted_s(self) -> float:
        """Return the time at which the first job that the journal still has was submitted; infinite if it has none."""
        found = self._store.rows("SELECT row FROM jobs ORDER BY id LIMIT 1")
        return float(json.loads(found[0][0]).get("submitted_s", FOREVER)) if found else FOREVER

    def job(self, number: int) -> tuple[Plain, Plain] | None:
        found = self._store.rows("SELECT spec, row FROM jobs WHERE id = ?", (number,))
        return (json.loads(found[0][0]), json.loads(found[0][1])) if found else None

    def close(self) -> None:
        self._store.close()
