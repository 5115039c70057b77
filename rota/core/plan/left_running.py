"""Jobs that are left running: to suspend one that is not known to save its state may throw away all it has done.

Such a job is parked where that can be. Otherwise it keeps its GPUs until it ends, whatever the answer says. It leaves them only
if they go out of service, if its node is drained, or if its user holds or cancels it. A spec may say that it saves, or that it
is preemptible. A live job is known to save as soon as a session of it says so, or a checkpoint of it was seen.
"""

import numpy as np

from rota.core.plan.placements import must_leave
from rota.core.state.parkable import may_park
from rota.core.state.state import State
from rota.model.job import Phase
from rota.model.plan import Plan
from rota.model.units import Bools, Ints

_ALIVE = [int(phase) for phase in (Phase.STARTING, Phase.RUNNING, Phase.RESIZING)]


def keeps_gpus_unsaved(state: State, rows: Ints) -> Bools | None:
    """Which of these jobs keep their GPUs because they save nothing and can't be parked now, and their partners with them. None:
    there are none."""
    jobs = state.jobs.table
    stays: Bools = ~jobs.saves[rows] & (jobs.option[rows] >= 0) & np.isin(jobs.phase[rows], _ALIVE)
    for at in (stays & jobs.can_park[rows]).nonzero()[0].tolist():
        job = jobs.id.item(rows[at])
        stays[at] = not may_park(state, job, state.jobs.attempts[job], state.machines.host_gib.copy())
    return _with_partners(state, rows, stays)


def _with_partners(state: State, rows: Ints, stays: Bools) -> Bools | None:
    """Without those that must leave."""
    if not stays.any():
        return None
    if state.machines.planned.parts:
        stays |= np.isin(state.jobs.table.partner[rows], state.jobs.table.id[rows[stays]])
    if state.machines.cordoned or state.machines.draining:
        stays &= ~must_leave(state, rows)
    return stays if stays.any() else None


def moved_unsaved(state: State, plan: Plan, rows: Ints) -> Bools | None:
    """Which of these jobs run, save nothing, and would be put on other GPUs by this plan; their partners too. None: there are
    none."""
    jobs, moved = state.jobs, []
    for change in plan.changes:
        mine = jobs.attempts.get(change.job)
        if mine is None or mine.parked or change.gpus is None or jobs.table.saves.item(jobs.row[change.job]):
            continue
        if (
            change.job in jobs.desired
            and not jobs.being_parked(change.job)
            and not state.runs_by(mine, change.option, change.gpus)
        ):
            moved.append(change.job)
    return _with_partners(state, rows, np.isin(jobs.table.id[rows], moved)) if moved else None


def keep_gpus(state: State) -> list[int]:
    """Jobs that are left running now, in order."""
    rows = state.jobs.rows
    stays = keeps_gpus_unsaved(state, rows)
    return [] if stays is None else state.jobs.table.id[rows[stays]].tolist()
