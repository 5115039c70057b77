"""Requests of users about one job: cancel it, hold or release it, queue it again."""

from rota.core.fold.attempts import finish, mark_for_kill
from rota.core.settings import Settings
from rota.core.state.phases import HELD, TO_CANCEL, TO_REQUEUE
from rota.core.state.state import State
from rota.model.events import CancelRequested, HoldRequested, RequeueRequested
from rota.model.job import Phase


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


def _may_lose_work(state: State, row: int, may: bool) -> None:
    if state.jobs.table.keeps_work.item(row) == may:
        state.jobs.table.own("keeps_work")[row] = not may
