"""Rows that answer a request about jobs. The tasks of an array that the request names are one row."""

from collections.abc import Collection, Sequence

from rota.core.state.state import State
from rota.live.arrays import array_phase, number_of
from rota.live.history import JobHistory, Statuses
from rota.live.queued_requests import Requested
from rota.wire.rows import RequestRow


def request_rows(
    history: JobHistory, found: Sequence[Requested], arrays: Collection[int], state: State, statuses: Statuses, now_s: float
) -> list[RequestRow]:
    """Return the rows. `arrays`: the numbers of the arrays that the request names."""
    numbers = {job.id: number_of(job) for job in history.records.outlines([each.job for each in found])}
    alone = [each for each in found if numbers[each.job] not in arrays]
    rows = history.rows(history.records.many(each.result for each in alone), state, statuses, now_s)
    answer = [
        RequestRow(was=each.was, changed=each.changes, requested=each.job, job=row) for each, row in zip(alone, rows, strict=True)
    ]
    tasks: dict[int, list[Requested]] = {number: [] for number in arrays}
    for each in found:
        if numbers[each.job] in tasks:
            tasks[numbers[each.job]].append(each)
    for row in history.array_rows(arrays, state, now_s):
        mine = tasks[row.id]
        was = array_phase([each.was for each in mine]) if mine else row.phase
        answer.append(RequestRow(was=was, changed=any(each.changes for each in mine), requested=row.id, job=row))
    return answer
