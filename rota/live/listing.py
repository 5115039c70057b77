"""Lists of jobs: by number for programs, and in an order for people. An array is one row, unless its tasks are requested."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rota.core.state.state import State
from rota.live.arrays import array_phase, number_of
from rota.live.ended_jobs import EndedJobs, JobOutline, SelectedEnded
from rota.live.history import JobHistory, Statuses
from rota.wire.job_filter import JobFilter
from rota.wire.rows import ENDED, HOLDING, JobRow, PageRow

_LAST = 2
"""Standing of what has ended."""


class Entry(NamedTuple):
    """One job of a list, or one array. Ended jobs of the journal, and arrays of these alone, are not among them, but columns."""

    number: int
    standing: tuple[int, float]
    """Sort key: jobs with GPUs, then waiting jobs, both by number; then ended jobs, the latest first."""


def by_number(history: JobHistory, state: State, latest: Statuses, now_s: float, wanted: JobFilter) -> list[JobRow]:
    """Return a page of the jobs in the filter."""
    entries, ended = _selected(history, state, wanted)
    numbers = np.concatenate([np.array([entry.number for entry in entries], np.int64), ended.jobs])
    page = np.sort(numbers[numbers > wanted.after])[: wanted.limit]
    return _rows(history, page.tolist(), state, latest, now_s)


def page_of(history: JobHistory, state: State, latest: Statuses, now_s: float, wanted: JobFilter) -> PageRow:
    """Return a page of the jobs in the filter, and their number. Only jobs of the page get rows."""
    entries, ended = _selected(history, state, wanted)
    first = sorted((entry for entry in entries if entry.standing[0] != _LAST), key=lambda entry: entry.standing)
    last = [entry for entry in entries if entry.standing[0] == _LAST]
    numbers = np.concatenate([np.array([entry.number for entry in last], np.int64), ended.jobs])
    latest_first = np.concatenate([np.array([entry.standing[1] for entry in last]), -np.nan_to_num(ended.ended_s)])
    order = [*(entry.number for entry in first), *numbers[np.lexsort((numbers, latest_first))].tolist()]
    page = order[wanted.skip : wanted.skip + wanted.limit]
    return PageRow(jobs=_rows(history, page, state, latest, now_s), total=len(order))


def _selected(history: JobHistory, state: State, wanted: JobFilter) -> tuple[list[Entry], SelectedEnded]:
    """Return the jobs in the filter. An array is among them if one of its tasks is, in any phase, and one is in the phase."""
    alone, arrays = list[JobOutline](), dict[int, None]()
    for record in history.records.open.values():
        if (
            (wanted.everything or not record.ended)
            and record.submitted_s >= wanted.since_s
            and (not wanted.user or record.user == wanted.user)
        ):
            number = record.id if wanted.tasks else number_of(record)
            if number == record.id:
                alone.append(record)
            else:
                arrays[number] = None
    columns = history.records.ended if wanted.everything else EndedJobs()
    ended = columns.listed(wanted)
    arrays.update(dict.fromkeys(ended.arrays))
    numbers = np.array(list(arrays), np.int64)
    over = columns.arrays(history.arrays.columns(arrays), wanted)
    shown = over.whole & over.in_phase
    ended = ended._replace(
        jobs=np.concatenate([ended.jobs, numbers[shown]]), ended_s=np.concatenate([ended.ended_s, over.ended_s[shown]])
    )
    looked_at = numbers[~over.whole].tolist()
    groups = [*([job] for job in alone), *map(history.tasks, looked_at)]
    every, at, entries = history.phases([job for group in groups for job in group], state), 0, []
    for number, group in zip([*(job.id for job in alone), *looked_at], groups, strict=True):
        phases = every[at : at + len(group)]
        at += len(group)
        if any(map(wanted.is_phase, phases)):
            entries.append(Entry(number, _standing(number, group, phases)))
    return entries, ended


def _rows(history: JobHistory, numbers: Sequence[int], state: State, latest: Statuses, now_s: float) -> list[JobRow]:
    jobs = [number for number in numbers if number not in history.arrays]
    arrays = [number for number in numbers if number in history.arrays]
    records = history.records.many(jobs)
    found = dict(zip(jobs, history.rows(records, state, latest, now_s), strict=True))
    found.update(zip(arrays, history.array_rows(arrays, state, now_s), strict=True))
    return [found[number] for number in numbers]


def _standing(number: int, jobs: Sequence[JobOutline], phases: Sequence[str]) -> tuple[int, float]:
    phase = array_phase(phases)
    if phase in ENDED:
        return _LAST, -max(job.ended_s or 0.0 for job in jobs)
    return int(phase not in (*HOLDING, "unreachable")), number
