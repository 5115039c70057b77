"""Requests of users about one job: cancel it, hold or release it, queue it again, change its values."""

from dataclasses import replace
from typing import Any

from rota.beliefs.deadlines import deadline_seconds
from rota.core.fold.attempts import finish, mark_for_kill
from rota.core.settings import Settings
from rota.core.state.phases import HELD, OUT_OF_TIME, TO_CANCEL, TO_REQUEUE
from rota.core.state.state import State
from rota.model.events import CancelRequested, HoldRequested, JobChanged, RequeueRequested
from rota.model.job import Phase
from rota.model.units import FOREVER, MIN_HOLD_SECONDS


def cancel_requested(state: State, settings: Settings, event: CancelRequested) -> None:
    row = state.jobs.row.get(event.job)
    if row is None:
        return
    if event.job in state.jobs.attempts:
        state.jobs.block(event.job, TO_CANCEL)
        mark_for_kill(state, event.job)
    else:
        finish(state, event.job, row, Phase.CANCELLED, event.at_s)


def hold_requested(state: State, settings: Settings, event: HoldRequested) -> None:
    row = state.jobs.row.get(event.job)
    if row is None:
        return
    if event.held:
        _may_lose_work(state, row, event.lose_work)
    if event.held == state.jobs.is_blocked(event.job, HELD):
        return
    (state.jobs.block if event.held else state.jobs.unblock)(event.job, HELD)
    if event.held:
        state.set_desired(event.job, row, -1, None)
    state.requeue(event.job)
    state.cycle.invalidate()


def requeue_requested(state: State, settings: Settings, event: RequeueRequested) -> None:
    """Bar a job that has an attempt until that has ended. A job without one waits already."""
    row = state.jobs.row.get(event.job)
    if row is None or event.job not in state.jobs.attempts or state.jobs.to_kill(event.job):
        return
    _may_lose_work(state, row, event.lose_work)
    state.jobs.block(event.job, TO_REQUEUE)
    state.set_desired(event.job, row, -1, None)
    state.requeue(event.job)
    state.cycle.invalidate()


def job_changed(state: State, settings: Settings, event: JobChanged) -> None:
    """Give a job other values, which count from now on."""
    row, table = state.jobs.row.get(event.job), state.jobs.table
    if row is None:
        return
    submitted_s, changes = table.submitted_s.item(row), dict[str, Any]()
    for name in ("name", "priority", "weight"):
        if (value := getattr(event, name)) is not None:
            changes[name] = value
    if event.max_run_seconds is not None:
        changes["max_run_seconds"] = None if event.max_run_seconds == FOREVER else event.max_run_seconds
    if event.deadline_s is not None:
        left_seconds = max(event.deadline_s - submitted_s, MIN_HOLD_SECONDS)
        changes["deadline_seconds"] = None if left_seconds == FOREVER else left_seconds
    spec = state.jobs.specs[event.job] = replace(state.jobs.specs[event.job], **changes)
    table.weight[row] = spec.weight
    if table.priority.item(row) != spec.priority:
        table.own("priority")[row] = spec.priority
    if event.deadline_s is not None:
        table.deadline_s[row] = submitted_s + deadline_seconds(spec, state.beliefs.rates)
    limit = FOREVER if spec.max_run_seconds is None else spec.max_run_seconds
    if table.max_run_seconds.item(row) != limit:
        table.own("max_run_seconds")[row] = limit
        state.jobs.unblock(event.job, OUT_OF_TIME)  # it is barred again in this fold if its time is still over
        state.requeue(event.job)
    state.cycle.invalidate()


def _may_lose_work(state: State, row: int, may: bool) -> None:
    if state.jobs.table.keeps_work.item(row) == may:
        state.jobs.table.own("keeps_work")[row] = not may
