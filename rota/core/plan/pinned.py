"""Pinned jobs keep their GPUs whatever the policy answers. The planner looks for them first.

- **Unsaved**: to suspend a job that is not known to save its state may throw away all its work. It is parked where that is
  possible. Otherwise it keeps its GPUs until it ends. It leaves them only if they go out of service, if its node is drained, or
  if its user holds or cancels it. A spec may say that the job saves, or that it is preemptible. A live job is known to save as
  soon as a session of it says so, or a checkpoint of it was seen.
- **Parked**: a parked job that saves nothing resumes where it is parked, or waits. With `Settings.resume_in_place` all
  parked jobs do.
- **Protected**: a job is not suspended before it has made a step since it was started, nor before the minimum run time of its
  attempt is over: to suspend it would waste its start. Where starting costs nothing, no job is protected.

Each check begins with a test whether any job can be concerned, so that a run without such jobs pays nothing for it.
"""

from dataclasses import replace

import numpy as np

from rota.core.state.parkable import may_park
from rota.core.state.records import Attempt
from rota.core.state.state import State
from rota.core.state.windows import Access
from rota.model.job import Phase
from rota.model.plan import PlacementChange, Plan
from rota.model.units import FOREVER, Bools, Ints

PATIENCE = 10.0
"""A job that has not made a step after this many times its usual start is no longer protected."""

ROUNDING = 1e-6
"""A step counts as done if less than this part of it is missing."""

_ON_GPUS = [int(phase) for phase in (Phase.STARTING, Phase.RUNNING, Phase.RESIZING)]


# Unsaved ----------------------------------------------------------------------------------------------------------


def unsaved(state: State, rows: Ints) -> Bools | None:
    """Which of these jobs save nothing and cannot be parked now, so that they keep their GPUs; with partners. None: no job."""
    jobs = state.jobs.table
    if "saves" not in jobs.in_use:
        return None
    stays: Bools = ~jobs.saves[rows] & (jobs.option[rows] >= 0) & np.isin(jobs.phase[rows], _ON_GPUS)
    for at in (stays & jobs.can_park[rows]).nonzero()[0].tolist():
        job = jobs.id.item(rows[at])
        stays[at] = not may_park(state, job, state.jobs.attempts[job], state.nodes.host_gib.copy())
    return _with_partners(state, rows, stays)


def unsaved_and_moved(state: State, plan: Plan, rows: Ints) -> Bools | None:
    """Which of these jobs run, save nothing, and would get other GPUs by this plan, and their partners. None: no job."""
    jobs = state.jobs
    if "saves" not in jobs.table.in_use:
        return None
    moved = []
    for change in plan.changes:
        attempt = jobs.attempts.get(change.job)
        if attempt is None or attempt.parked or change.gpus is None or jobs.table.saves.item(jobs.row[change.job]):
            continue
        stays = state.runs_by(attempt, change.option, change.gpus)
        if change.job in jobs.desired and not jobs.being_parked(change.job) and not stays:
            moved.append(change.job)
    return _with_partners(state, rows, np.isin(jobs.table.id[rows], moved)) if moved else None


def unsaved_jobs(state: State) -> list[int]:
    """Jobs that keep their GPUs now because they save nothing, in order."""
    rows = state.jobs.rows
    stays = unsaved(state, rows)
    return [] if stays is None else state.jobs.table.id[rows[stays]].tolist()


def _with_partners(state: State, rows: Ints, stays: Bools) -> Bools | None:
    """Add partners, and leave out jobs that must leave their GPUs."""
    if not stays.any():
        return None
    if state.nodes.planned.gpu_fractions:
        stays |= np.isin(state.jobs.table.partner[rows], state.jobs.table.id[rows[stays]])
    if state.nodes.cordoned or state.nodes.draining or state.nodes.drained:
        stays &= ~must_leave(state, rows)
    return stays if stays.any() else None


def must_leave(state: State, rows: Ints) -> Bools:
    """Which of these jobs have GPUs that are out of service, or are on drained nodes, and their partners."""
    drained = np.isin(state.nodes.cluster.gpu_node, list(state.nodes.draining)).nonzero()[0]
    out = np.concatenate((np.array(state.out_of_service(), dtype=np.int64), drained))
    return np.isin(state.jobs.table.id[rows], list(state.nodes.planned.holders(out)))


# Parked -----------------------------------------------------------------------------------------------------------


def resume_in_place(state: State, plan: Plan, *, all_stay: bool) -> tuple[Plan, list[int]]:
    """Return the plan with parked jobs resumed where they are parked, and the jobs for which there is no room there.

    A job that has to leave its node, or a GPU that is out of service, may go elsewhere. So may one that saves its state, unless
    all are to stay."""
    if "can_park" not in state.jobs.table.in_use:
        return plan, []
    moves = {change.job: state.jobs.attempts[change.job] for change in plan.changes if _moves_parked(state, change, all_stay)}
    if not moves:
        return plan, []
    wanted = dict(state.jobs.desired)
    for change in plan.changes:
        wanted.pop(change.job, None)
        if change.gpus is not None and change.job not in moves:
            wanted[change.job] = change.gpus
    taken = np.zeros(state.nodes.cluster.gpus, dtype=bool)
    for gpus in wanted.values():
        taken[gpus] = True
    changes, no_room = [], []
    for change in plan.changes:
        attempt = moves.get(change.job)
        if attempt is None:
            changes.append(change)
        elif change.partner >= 0 or taken[attempt.gpus].any() or not _may_resume(state, change.job, attempt):
            no_room.append(change.job)
        else:
            taken[attempt.gpus] = True
            changes.append(PlacementChange(change.job, state.beliefs.options.alone.item(attempt.option), attempt.gpus))
    return replace(plan, changes=tuple(changes)), no_room


def _may_resume(state: State, job: int, attempt: Attempt) -> bool:
    """Whether a parked job may resume where it is: its nodes are up, and its GPUs are not reserved for others."""
    if not state.nodes.node_up[list(attempt.live_nodes)].all():
        return False
    return not state.nodes.windows or bool(Access(state).mask(job)[attempt.gpus].all())


def _moves_parked(state: State, change: PlacementChange, all_stay: bool) -> bool:
    """Whether a change resumes a parked job, or one that is being parked, elsewhere though it could stay."""
    attempt = state.jobs.attempts.get(change.job)
    if attempt is None or change.gpus is None or state.runs_by(attempt, change.option, change.gpus):
        return False
    if not attempt.parked and not state.jobs.being_parked(change.job):
        return False
    saves, out = state.jobs.table.saves.item(state.jobs.row[change.job]), state.out_of_service()
    if not all_stay and saves:
        return False
    if saves and state.nodes.windows and not _may_resume(state, change.job, attempt):
        return False
    if state.nodes.drained and not saves:  # its work would be lost elsewhere, and on a drained GPU it can still end
        out = [gpu for gpu in out if gpu not in state.nodes.drained]
    return state.nodes.draining.isdisjoint(attempt.live_nodes) and not np.isin(attempt.gpus, out).any()


# Protected -------------------------------------------------------------------------------------------------------


def starts_cost(state: State) -> bool:
    """Whether starting a job costs anything, so that jobs can be protected."""
    return bool(state.beliefs.costs.move_seconds) or "stays_until_s" in state.jobs.table.in_use


def has_min_run(state: State, rows: Ints) -> Bools | None:
    """Which of these jobs run and have not run for the minimum of their attempt. None: no job has a minimum."""
    jobs = state.jobs.table
    if "stays_until_s" not in jobs.in_use:
        return None
    found: Bools = (jobs.phase[rows] == Phase.RUNNING) & (jobs.stays_until_s[rows] > state.now_s)
    return found


def protected(state: State, rows: Ints) -> Bools:
    """Which of these jobs start, have made no step since, or have not run for their attempt's minimum; with partners."""
    jobs = state.jobs.table
    seconds, phase = state.now_s - jobs.phase_s[rows], jobs.phase[rows]
    # A step counts once it was reported, or once it is due at the believed rate.
    reported = jobs.steps_done[rows] - jobs.rate_window_steps[rows]
    made = np.maximum(reported, jobs.rate[rows] * seconds) >= 1.0 - ROUNDING
    found: Bools = (phase == Phase.STARTING) | ((phase == Phase.RUNNING) & ~made)
    found &= seconds < PATIENCE * jobs.move_seconds[rows]
    stays = has_min_run(state, rows)
    if stays is not None:
        found |= stays
    found &= jobs.option[rows] >= 0
    if not found.any():
        return found
    if state.nodes.planned.gpu_fractions:
        found |= np.isin(jobs.partner[rows], jobs.id[rows[found]])
    usable = state.usable()[0]
    for at in found.nonzero()[0].tolist():  # a job may not stay on GPUs that are out of service
        found[at] = usable[state.jobs.desired[jobs.id.item(rows[at])]].all()
    if state.nodes.windows and found.any():
        access = Access(state)
        for at in found.nonzero()[0].tolist():
            found[at] = access.may_keep(jobs.id.item(rows[at]))
    return found


def protected_until_s(state: State, rows: Ints) -> float:
    """When the first of these protected jobs will have made a step and run for its minimum, or has used up its patience.

    Only the latter is known of jobs that start. A job that is protected for its partner has made its step long ago."""
    jobs = state.jobs.table
    seconds = PATIENCE * jobs.move_seconds[rows]
    runs = jobs.phase[rows] == Phase.RUNNING
    seconds[runs] = np.minimum(seconds[runs], 1.0 / jobs.rate[rows[runs]])
    due_s = jobs.phase_s[rows] + seconds
    if "stays_until_s" in jobs.in_use:
        due_s[runs] = np.maximum(due_s[runs], jobs.stays_until_s[rows[runs]])
    return float(due_s[due_s > state.now_s].min(initial=FOREVER))
