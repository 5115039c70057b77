"""One job that a client asks about, with its spec and its trials; or an array, as one row."""

from dataclasses import replace

from rota.core.state.state import State
from rota.live.find_record import JobFinder
from rota.live.history import JobHistory, Statuses
from rota.live.requests import shown_spec
from rota.live.trial_rows import trials_of
from rota.wire.rows import JobRow


def whole_job(
    history: JobHistory, state: State, latest: Statuses, now_s: float, key: str, *, unique: bool, user: str | None = None
) -> JobRow:
    """Return the row of the job or the array that a key means. `user`: the user among whose jobs a name is looked up; None for
    all users."""
    finder = JobFinder(history.records, user, history.arrays)
    array = finder.find_array(key, unique=unique)
    if array is not None:
        return history.array_rows([array], state, now_s)[0]
    record = history.records[finder.find(key, unique=unique).id]
    row = history.rows([record], state, latest, now_s)[0]
    trials = trials_of(state, record.id, history.records, user)
    return replace(row, spec={**shown_spec(record.current, record.name), "after": record.after}, trials=trials)
