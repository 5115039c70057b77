"""Lists of jobs: by number for programs, and in an order for people."""

from rota.core.state.state import State
from rota.live.history import JobHistory, Statuses
from rota.live.job_record import JobRecord
from rota.wire.job_filter import JobFilter
from rota.wire.rows import HOLDING, JobRow, PageRow


def by_number(history: JobHistory, state: State, latest: Statuses, now_s: float, wanted: JobFilter) -> list[JobRow]:
    """Return a page of the jobs in the filter."""
    records = [record for record in _wanted(history, wanted) if record.id > wanted.after]
    if not wanted.phase:
        records = records[: wanted.limit]
    rows = history.rows(records, state, latest, now_s)
    return [row for row in rows if wanted.in_phase(row)][: wanted.limit]


def page_of(history: JobHistory, state: State, latest: Statuses, now_s: float, wanted: JobFilter) -> PageRow:
    """Return a page of the jobs in the filter, and their number. Only jobs of the page get rows."""
    records = _wanted(history, wanted)
    found = [
        (_standing(record, phase), record)
        for record, phase in zip(records, history.phases(records, state), strict=True)
        if wanted.is_phase(phase)
    ]
    found.sort(key=lambda each: each[0])
    shown = [record for _, record in found[wanted.skip : wanted.skip + wanted.limit]]
    return PageRow(jobs=history.rows(shown, state, latest, now_s), total=len(found))


def _wanted(history: JobHistory, wanted: JobFilter) -> list[JobRecord]:
    """Return the records in the filter, in any phase."""
    return [
        record
        for record in history.records.values()
        if (wanted.everything or not record.ended)
        and record.submitted_s >= wanted.since_s
        and (not wanted.user or record.submitted.user == wanted.user)
    ]


def _standing(record: JobRecord, phase: str) -> tuple[int, float]:
    """Return the sort key: jobs with GPUs, then waiting jobs, both by number; then ended jobs, the latest first."""
    if record.ended:
        return 2, -(record.ended_s or 0.0)
    return int(phase not in (*HOLDING, "unreachable")), record.id
