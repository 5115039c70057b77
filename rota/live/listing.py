"""Lists of jobs: by number for programs, and in an order for people. An array is one row, unless its tasks are requested."""

from collections.abc import Sequence
from typing import NamedTuple

from rota.core.state.state import State
from rota.live.arrays import array_phase, number_of
from rota.live.history import JobHistory, Statuses
from rota.live.job_record import JobRecord
from rota.wire.job_filter import JobFilter
from rota.wire.rows import ENDED, HOLDING, JobRow, PageRow


class Entry(NamedTuple):
    """One job of a list, or one array."""

    number: int
    records: Sequence[JobRecord]
    """Record of the job, or those of all tasks of the array."""
    is_array: bool


def by_number(history: JobHistory, state: State, latest: Statuses, now_s: float, wanted: JobFilter) -> list[JobRow]:
    """Return a page of the jobs in the filter."""
    entries = [entry for entry in _entries(history, wanted) if entry.number > wanted.after]
    entries.sort(key=lambda entry: entry.number)
    if wanted.phase:
        shown = zip(entries, _phases(history, state, entries), strict=True)
        entries = [entry for entry, phases in shown if any(map(wanted.is_phase, phases))]
    return _rows(history, entries[: wanted.limit], state, latest, now_s)


def page_of(history: JobHistory, state: State, latest: Statuses, now_s: float, wanted: JobFilter) -> PageRow:
    """Return a page of the jobs in the filter, and their number. Only jobs of the page get rows."""
    entries = _entries(history, wanted)
    found = [
        (_standing(entry, phases), entry)
        for entry, phases in zip(entries, _phases(history, state, entries), strict=True)
        if any(map(wanted.is_phase, phases))
    ]
    found.sort(key=lambda each: each[0])
    shown = [entry for _, entry in found[wanted.skip : wanted.skip + wanted.limit]]
    return PageRow(jobs=_rows(history, shown, state, latest, now_s), total=len(found))


def _entries(history: JobHistory, wanted: JobFilter) -> list[Entry]:
    """Return the jobs in the filter, in any phase. An array is among them if one of its tasks is."""
    found, seen = [], set[int]()
    for record in _wanted(history, wanted):
        number = record.id if wanted.tasks else number_of(record)
        if number == record.id:
            found.append(Entry(number, (record,), False))
        elif number not in seen:
            seen.add(number)
            found.append(Entry(number, history.tasks(number), True))
    return found


def _phases(history: JobHistory, state: State, entries: Sequence[Entry]) -> list[list[str]]:
    """Return the phases of the records of each entry."""
    every, at, found = history.phases([record for entry in entries for record in entry.records], state), 0, []
    for entry in entries:
        found.append(every[at : at + len(entry.records)])
        at += len(entry.records)
    return found


def _rows(history: JobHistory, entries: Sequence[Entry], state: State, latest: Statuses, now_s: float) -> list[JobRow]:
    jobs = iter(history.rows([entry.records[0] for entry in entries if not entry.is_array], state, latest, now_s))
    arrays = iter(history.array_rows([entry.number for entry in entries if entry.is_array], state, now_s))
    return [next(arrays if entry.is_array else jobs) for entry in entries]


def _wanted(history: JobHistory, wanted: JobFilter) -> list[JobRecord]:
    """Return the records in the filter, in any phase."""
    return [
        record
        for record in history.records.values()
        if (wanted.everything or not record.ended)
        and record.submitted_s >= wanted.since_s
        and (not wanted.user or record.submitted.user == wanted.user)
    ]


def _standing(entry: Entry, phases: Sequence[str]) -> tuple[int, float]:
    """Return the sort key: jobs with GPUs, then waiting jobs, both by number; then ended jobs, the latest first."""
    phase = array_phase(phases)
    if phase in ENDED:
        return 2, -max(record.ended_s or 0.0 for record in entry.records)
    return int(phase not in (*HOLDING, "unreachable")), entry.number
