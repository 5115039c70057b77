"""From the policy's answer to a plan, on one screen."""

from collections.abc import Sequence

import numpy as np

from rota.core.plan.candidates import jobs_of, list_candidates
from rota.core.plan.clear_first import find_places
from rota.core.plan.draft import Draft, Places
from rota.core.plan.fill import grant
from rota.core.plan.horizon import holds_until_s, overtaking, stable_until_change
from rota.core.plan.limited_fill import grant_within_limits, reclaimed_by, take_back_excess
from rota.core.plan.move import PlanMoves, move
from rota.core.plan.pinned import resume_in_place, unsaved, unsaved_and_moved
from rota.core.plan.placements import changes
from rota.core.plan.quotas import limits_arrays
from rota.core.plan.reserved_fill import grant_apart
from rota.core.plan.reserved_places import permitted
from rota.core.plan.tactic import act
from rota.core.settings import Settings
from rota.core.state.state import State
from rota.model.placement_view import Placer
from rota.model.plan import Plan
from rota.model.tenants import NO_FAIRNESS
from rota.model.trial import Trial
from rota.model.units import FOREVER, MIN_HOLD_SECONDS, Bools


def make_plan(state: State, settings: Settings, placer: Placer) -> Plan:
    """Turn the policy's answer into a plan: who runs where next.

    Pinned jobs keep what they have. Whether a job that saves nothing, or a parked one, could stay where it is shows only in the
    finished plan. If it could not, the plan is made again with that job pinned or waiting."""
    assert state.cycle.answer is not None
    rows, alive = jobs_of(state, state.cycle.answer)
    pinned = unsaved(state, rows)
    if pinned is not None:
        pinned = pinned if alive is None else pinned & alive
        alive = _without(alive, pinned)
    while True:
        plan = _draw_up(Draft(state, settings, placer, rows, alive, pinned))
        left_out = unsaved_and_moved(state, plan, rows)
        if left_out is not None:
            pinned = left_out if pinned is None else pinned | left_out
        else:
            plan, no_room = resume_in_place(state, plan, all_stay=settings.resume_in_place)
            left_out = np.isin(state.jobs.table.id[rows], no_room) if no_room else None
        if left_out is None:
            return plan
        alive = _without(alive, left_out)


def _without(alive: Bools | None, jobs: Bools) -> Bools:
    return ~jobs if alive is None else alive & ~jobs


def _draw_up(draft: Draft) -> Plan:
    """One pass over a draft, step by step. A step whose feature is not in use is skipped."""
    state, tactics = draft.state, draft.settings.tactics
    aside: tuple[int, ...] = ()

    # 1. The answer names candidates: (job, option) pairs, best first.
    list_candidates(draft)
    for tactic in tactics.ordering:
        act(tactic, "order", draft)
    # 2. Each job is granted its first option that still has room.
    if draft.access is not None:
        draft.places = grant_apart(draft, draft.access)
    elif state.tenants.tenants is None and ("array_limit" not in state.jobs.table.in_use or not limits_arrays(state)):
        draft.places = Places(grant(draft.candidates, draft.table, draft.capacity))
    else:
        draft.places = Places(grant_within_limits(draft))
    # 3. Gangs that wait for a place get one, or what they would have had goes to the jobs behind them.
    if draft.settings.wait_for_locality:
        aside = find_places(draft)
    # 4. Tactics improve the grants: a waiting job joins a running one, a running job gets idle GPUs.
    before = None if draft.limits is None else (draft.grants.option.copy(), draft.limits.copy())
    for tactic in tactics.improving:
        act(tactic, "improve", draft)
    if before is not None:
        take_back_excess(draft, *before)
    # 5. The placer picks GPUs for every job that starts, moves or changes its option. 6. What differs is a change.
    moved = PlanMoves(changes(draft))
    # 7. Tactics move running jobs, and may find a place for a gang by that.
    if tactics.moving:
        moved = move(draft, moved.changes)
    # 8. The plan holds until a rank changes, a slice ends, or something happens.
    granted = draft.grants.option >= 0
    if draft.pinned is not None:
        granted |= draft.pinned
    some_wait = bool(np.count_nonzero(granted) < len(granted))
    if draft.access is not None:
        moved = PlanMoves(permitted(draft, draft.access, moved.changes), moved.jobs, moved.look_s)
    overtakes = overtaking(draft, granted) if some_wait and draft.table.starts_cost else None
    until_s = holds_until_s(draft, granted, some_wait, overtakes)
    if state.beliefs.trials or draft.trials:
        draft.look_again(_next_given_up_s(state, draft.trials))
    if some_wait and state.tenants.tenants is not None and state.tenants.tenants.fairness != NO_FAIRNESS:
        draft.look_again(state.now_s + state.tenants.tenants.turn_seconds)  # other tenants may come first by then
    if draft.again_s < until_s:
        until_s = min(until_s, max(draft.again_s, state.now_s + MIN_HOLD_SECONDS))
    if moved.look_s < until_s and draft.settings.decide.at_events:
        until_s = moved.look_s
    stable = not some_wait and draft.alive is None and draft.placer.sticky and stable_until_change(draft)
    return Plan(
        moved.changes,
        until_s,
        some_wait,
        draft.places.fragmented,
        overtakes is not None,
        tuple(draft.trials),
        stable,
        (*aside, *moved.jobs),
        reclaimed_by(draft, [change.job for change in moved.changes if change.gpus is None]) if len(draft.owed) else (),
    )


def _next_given_up_s(state: State, begun: Sequence[Trial]) -> float:
    """When the next trial is given up because it was not measured in time."""
    ends_s = (trial.given_up_s for trial in (*state.beliefs.trials.values(), *begun))
    return min((end_s for end_s in ends_s if end_s > state.now_s), default=FOREVER)
