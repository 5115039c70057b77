"""A job is not suspended before it has made a step since it was started, nor before the minimum run time of its attempt is over,
if it has one: to suspend it would waste its start.

`candidates.py` lets such jobs keep what they have, whatever the answer says, and `plan_duration.py` ends the plan when they are
no longer protected if a better job waits. Where starting costs nothing, no job is protected.
"""

import numpy as np

from rota.core.state.state import State
from rota.model.job import Phase
from rota.model.units import FOREVER, Bools, Ints

PATIENCE = 10.0
"""A job that has not made a step after this many times what starting usually takes may be suspended."""

ROUNDING = 1e-6
"""A step done but for this part of it is done."""


def starts_cost(state: State) -> bool:
    """Whether starting a job costs anything, so that some may be protected."""
    return bool(state.knowledge.costs.move_seconds) or state.jobs.table.stays_until_s.flags.writeable


def has_min_run(state: State, rows: Ints) -> Bools | None:
    """Which of these jobs run, and have not yet run for the minimum of their attempt. None: no job has a minimum."""
    jobs = state.jobs.table
    if not jobs.stays_until_s.flags.writeable:
        return None
    found: Bools = (jobs.phase[rows] == Phase.RUNNING) & (jobs.stays_until_s[rows] > state.now_s)
    return found


def protected(state: State, rows: Ints) -> Bools:
    """Which of these jobs are starting, have not made a step since, or have not run for the minimum of their attempt. Partners go
    together."""
    jobs = state.jobs.table
    seconds, phase = state.now_s - jobs.phase_s[rows], jobs.phase[rows]
    # A step is made when it is told, or else when it is due as far as we believe.
    told = jobs.steps_done[rows] - jobs.paced_steps[rows]
    made = np.maximum(told, jobs.rate[rows] * seconds) >= 1.0 - ROUNDING
    young: Bools = (phase == Phase.STARTING) | ((phase == Phase.RUNNING) & ~made)
    young &= seconds < PATIENCE * jobs.move_seconds[rows]
    stays = has_min_run(state, rows)
    if stays is not None:
        young |= stays
    young &= jobs.option[rows] >= 0
    if not young.any():
        return young
    if state.machines.planned.parts:
        young |= np.isin(jobs.partner[rows], jobs.id[rows[young]])
    usable = state.usable()[0]
    for at in young.nonzero()[0].tolist():  # where it is it may not stay
        young[at] = usable[state.jobs.desired[jobs.id.item(rows[at])]].all()
    return young


def first_step_s(state: State, rows: Ints) -> float:
    """When the next of these jobs will have made a step and run for its minimum, or is no longer protected. Of those that are
    starting, only the latter is known; one that is protected for its partner's sake has made its step long ago."""
    jobs = state.jobs.table
    seconds = PATIENCE * jobs.move_seconds[rows]
    runs = jobs.phase[rows] == Phase.RUNNING
    seconds[runs] = np.minimum(seconds[runs], 1.0 / jobs.rate[rows[runs]])
    due_s = jobs.phase_s[rows] + seconds
    if jobs.stays_until_s.flags.writeable:
        due_s[runs] = np.maximum(due_s[runs], jobs.stays_until_s[rows[runs]])
    return float(due_s[due_s > state.now_s].min(initial=FOREVER))
