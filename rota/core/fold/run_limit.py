"""The longest run time of a job (`max_run_time`). Only time in which the job runs counts.

When it is over, the job is barred and suspended to storage as in any suspension: it gets SIGTERM and its grace period. With the
end of the attempt the job ends as failed, and its checkpoint stays. The instant is exact: the scheduler asks to be woken then.
"""

from rota.core.state.phases import OUT_OF_TIME
from rota.core.state.state import State
from rota.model.job import Phase
from rota.model.length_text import length_text
from rota.model.units import FOREVER, Floats, Ints


def next_limit_s(state: State) -> float:
    """Return when the first running job will have run for its longest time; infinite if none has a limit."""
    rows = _running_rows(state)
    return float(_ends_s(state, rows).min(initial=FOREVER))


def end_over_limit(state: State) -> None:
    """Bar the running jobs that have run for their longest time. They save and stop."""
    rows = _running_rows(state)
    for row in rows[_ends_s(state, rows) <= state.now_s].tolist():
        job = state.jobs.table.id.item(row)
        state.jobs.block(job, OUT_OF_TIME)
        state.set_desired(job, row, -1, None)
        state.requeue(job)
        state.cycle.invalidate()


def is_over_limit(state: State, job: int, row: int) -> bool:
    """Return whether a job whose attempt has ended has run for its longest time. If so, note that as the reason for its end."""
    table = state.jobs.table
    limit = table.max_run_seconds.item(row)
    if not state.jobs.is_blocked(job, OUT_OF_TIME) and table.run_seconds.item(row) < limit:
        return False
    state.jobs.ended_because[job] = Phase.FAILED, f"reached its max_run_time of {length_text(limit)}"
    return True


def _running_rows(state: State) -> Ints:
    """Return rows of the jobs with a limit that run and are not stopped for it."""
    table, size = state.jobs.table, state.jobs.table.size
    runs = (table.gpus_in_use[:size] > 0) & (table.max_run_seconds[:size] < FOREVER)
    found: Ints = (runs & (table.blocks[:size] & OUT_OF_TIME == 0)).nonzero()[0]
    return found


def _ends_s(state: State, rows: Ints) -> Floats:
    """Return when each of these running jobs will have run for its longest time."""
    table = state.jobs.table
    found: Floats = table.as_of_s[rows] + (table.max_run_seconds[rows] - table.run_seconds[rows])
    return found
