"""A job is not suspended before it has made a step since it was started: to suspend it would waste its start.

`candidates.py` lets such jobs keep what they have, whatever the answer says, and `plan_duration.py` ends the plan with their
first step if a better job waits. Where starting costs nothing, no job is protected.
"""

import numpy as np

from rota.core.state.state import State
from rota.model.job import Phase
from rota.model.units import FOREVER, Bools, Ints

PATIENCE = 10.0
"""A job that has not made a step after this many times what starting usually takes may be suspended."""

ROUNDING = 1e-6
"""A step done but for this part of it is done."""


def protected(state: State, rows: Ints) -> Bools:
    """Which of these jobs are starting, or have not made a step since. Partners go together."""
    jobs = state.jobs.table
    seconds, phase = state.now_s - jobs.phase_s[rows], jobs.phase[rows]
    # A step is made when it is told, or else when it is due as far as we believe.
    told = jobs.steps_done[rows] - jobs.paced_steps[rows]
    made = np.maximum(told, jobs.rate[rows] * seconds) >= 1.0 - ROUNDING
    young: Bools = (phase == Phase.STARTING) | ((phase == Phase.RUNNING) & ~made)
    young &= (jobs.option[rows] >= 0) & (seconds < PATIENCE * jobs.move_seconds[rows])
    if not young.any():
        return young
    if state.machines.planned.parts:
        young |= np.isin(jobs.partner[rows], jobs.id[rows[young]])
    usable = state.usable()[0]
    for at in young.nonzero()[0].tolist():  # where it is it may not stay
        young[at] = usable[state.jobs.desired[jobs.id.item(rows[at])]].all()
    return young


def first_step_s(state: State, rows: Ints) -> float:
    """When the next of these jobs will have made a step, or is no longer protected. Of those that are starting, only the latter
    is known; one that is protected for its partner's sake has made its step long ago."""
    jobs = state.jobs.table
    seconds = PATIENCE * jobs.move_seconds[rows]
    runs = jobs.phase[rows] == Phase.RUNNING
    seconds[runs] = np.minimum(seconds[runs], 1.0 / jobs.rate[rows[runs]])
    due_s = jobs.phase_s[rows] + seconds
    return float(due_s[due_s > state.now_s].min(initial=FOREVER))
