"""The past of a home, read from its journal by a connection of its own, so that nothing of it has to stay in memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path

import numpy as np

from rota.live.gpu_stay import DAY_SECONDS, GpuStay, pieces
from rota.live.instants import iso
from rota.live.job_events import JobEvent, event_row, submitted
from rota.live.job_record import JobRecord
from rota.live.job_records import ReadRecords
from rota.live.journal import Journal
from rota.live.journal_place import find_journal, open_journal
from rota.live.usage import NOTHING, UsageAmounts, UsageKey, UsageRow, day_of, total
from rota.model.codec import Codec
from rota.wire.rows import EventRow, UsageGroupRow, UsageReportRow

LOOKS = 3
"""How often usage is read again if the scheduler wrote meanwhile."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()

BY: dict[str, Callable[[UsageKey], str | None]] = {
    "user": lambda key: key.owner,
    "tenant": lambda key: key.tenant,
    "type": lambda key: key.accelerator,
    "day": lambda key: date_of(key.day),
}
"""What usage can be grouped by."""


@contextmanager
def open_past(home: Path, codec: Codec) -> Iterator[Journal]:
    """Open the journal of a home for reading."""
    with closing(open_journal(find_journal(home), codec, read_only=True)) as journal:
        yield journal


def records_reader(home: Path, codec: Codec) -> ReadRecords:
    """Return what reads records of a home's jobs, by any thread."""

    def read(jobs: Sequence[int]) -> dict[int, JobRecord]:
        with open_past(home, codec) as journal:
            return {job: JobRecord.of(job, sent, plain) for job, sent, plain in journal.records(jobs)}

    return read


def all_events(journal: Journal, record: JobRecord) -> list[JobEvent]:
    """Return the events of a job, the oldest first."""
    return [submitted(record), *journal.events_of(record.id)]


def event_rows(journal: Journal, record: JobRecord, names_of: str | None = None) -> list[EventRow]:
    """Return the events of a job as clients see them, the oldest first. `names_of`: the user whose jobs are named; None for all
    users."""
    return [event_row(record.id, event, names_of) for event in all_events(journal, record)]


def usage_report(journal: Journal, by: str, days: int, now_s: float) -> UsageReportRow:
    """Return the usage of the last days in UTC, today included, in groups. Attempts that still run count up to now."""
    first = day_of(now_s) - days + 1
    rows, begin_s = _usage(journal, first, now_s)
    groups: dict[str | None, list[UsageAmounts]] = {}
    for key, amounts in rows:
        groups.setdefault(BY[by](key), []).append(amounts)
    since_s = max(first * DAY_SECONDS, begin_s)
    elapsed = max(now_s - since_s, 0.0)
    reclaims: dict[str | None, list[float]] = {}
    for tenant, seconds in journal.reclaims(first * DAY_SECONDS) if by == "tenant" else ():
        reclaims.setdefault(tenant, []).append(seconds)
    found = [
        _group(name, total(groups.get(name, ())), _length(by, name, since_s, now_s), reclaims.get(name, ()))
        for name in sorted(groups.keys() | reclaims.keys(), key=lambda name: name or "")
    ]
    together = [seconds for each in reclaims.values() for seconds in each]
    whole = _group(None, total(amounts for _, amounts in rows), elapsed, together)
    return UsageReportRow(since=iso(since_s) or "", until=iso(now_s) or "", by=by, groups=found, total=whole)


def _usage(journal: Journal, first: int, now_s: float) -> tuple[list[UsageRow], float]:
    """Return the usage from a day on, with that of attempts that still run, and the time since which the home has had jobs."""
    for _ in range(LOOKS):
        number = journal.latest()
        rows = [row for row in journal.usage(first) if row.key.day >= first]
        for job, sent, plain in journal.jobs(unfinished=True):
            if plain.get("stay") is not None:
                rows += _running(JobRecord.of(job, sent, plain), first, now_s)
        if journal.latest() == number:
            break
    return rows, journal.first_submitted_s()


def _running(record: JobRecord, first: int, now_s: float) -> Iterator[UsageRow]:
    """Yield what an attempt that still runs has cost since it was last booked."""
    assert isinstance(record.stay, GpuStay)
    for piece in pieces(record.stay, now_s):
        if piece.day >= first:
            key = UsageKey(piece.day, record.submitted.user, record.submitted.spec.tenant or None, record.stay.accelerator)
            yield UsageRow(key, NOTHING._replace(gpu_seconds=piece.gpu_seconds, work_seconds=piece.work_seconds))


def _length(by: str, name: str | None, since_s: float, now_s: float) -> float:
    """Return the length of the time that a group is about, in seconds: of a day, or of the whole time."""
    if by != "day" or name is None:
        return max(now_s - since_s, 0.0)
    begin_s = (date.fromisoformat(name).toordinal() - _EPOCH_DAY) * DAY_SECONDS
    return max(min(begin_s + DAY_SECONDS, now_s) - max(begin_s, since_s), 0.0)


def _group(name: str | None, sums: UsageAmounts, seconds: float, reclaims: Sequence[float] = ()) -> UsageGroupRow:
    return UsageGroupRow(
        name=name,
        submitted=sums.submitted,
        finished=sums.finished,
        failed=sums.failed,
        cancelled=sums.cancelled,
        gpu_seconds=sums.gpu_seconds,
        work_seconds=sums.work_seconds,
        mean_wait_seconds=sums.wait_seconds / sums.begun if sums.begun else None,
        mean_jct_seconds=sums.jct_seconds / sums.finished if sums.finished else None,
        attempts=sums.attempts,
        preemptions=sums.preemptions,
        preempted_seconds=sums.preempted_seconds,
        broken_seconds=sums.broken_seconds,
        gpus_busy=sums.gpu_seconds / seconds if seconds > 0 else 0.0,
        reclaims=len(reclaims) or None,
        reclaim_seconds_p99=float(np.percentile(reclaims, 99)) if reclaims else None,
    )


def date_of(day: int) -> str:
    """Return a day as a date, such as `2026-12-01`."""
    return date.fromordinal(day + _EPOCH_DAY).isoformat()
