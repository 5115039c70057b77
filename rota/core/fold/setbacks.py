"""Setbacks: attempts that failed in a way in which the next is likely to fail too, such as a `save` that raises.

After each the job pauses before its next attempt, twice as long as the time before. After the fifth in a row it fails. An attempt
that gets on ends the row: its state was saved.
"""

from dataclasses import replace

from rota.core.state.phases import PAUSED
from rota.core.state.records import Setback
from rota.core.state.state import State
from rota.model.units import FOREVER

MAX_SETBACKS = 5
"""With this many in a row a job fails."""
FIRST_PAUSE_SECONDS = 5.0
"""The pause after the first; each further one is twice as long."""


def set_back(state: State, job: int, what: str) -> bool:
    """Note another setback of a job, and let it pause. Return whether it was the last that the job may have."""
    before = state.jobs.setbacks.get(job)
    times = 1 if before is None else before.times + 1
    until_s = state.now_s + FIRST_PAUSE_SECONDS * 2.0 ** (times - 1)
    state.jobs.setbacks[job] = Setback(times, what, until_s)
    state.jobs.block(job, PAUSED)
    return times >= MAX_SETBACKS


def end_pauses(state: State) -> None:
    """Let jobs run again whose pause is over."""
    for job, setback in sorted(state.jobs.setbacks.items()):
        if -FOREVER < setback.until_s <= state.now_s:
            state.jobs.setbacks[job] = replace(setback, until_s=-FOREVER)
            state.jobs.unblock(job, PAUSED)
            state.cycle.invalidate()


def clear_setbacks(state: State, job: int) -> None:
    """Forget the setbacks of a job that has saved its state."""
    if state.jobs.setbacks.pop(job, None) is not None:
        state.jobs.unblock(job, PAUSED)
