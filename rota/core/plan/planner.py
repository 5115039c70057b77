"""From the policy's answer to a plan, on one screen."""

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.candidates import jobs_of, list_candidates
from rota.core.plan.clear_first import GangPlaces, find_places
from rota.core.plan.fill import grant
from rota.core.plan.gang_search import Places
from rota.core.plan.grow_jobs import grow
from rota.core.plan.horizon import all_go_on, holds_until_s, overtaking
from rota.core.plan.improve import guests_last, improve
from rota.core.plan.left_running import keeps_gpus_unsaved, moved_unsaved
from rota.core.plan.move import PlanMoves, move
from rota.core.plan.mover import Mover
from rota.core.plan.placements import changes, with_parked_in_place
from rota.core.plan.protected import starts_cost
from rota.core.settings import Settings
from rota.core.state.state import State
from rota.model.placement_view import Placer
from rota.model.plan import Plan
from rota.model.trial import Trial
from rota.model.units import FOREVER, SHORTEST_HOLD_SECONDS, Bools, Ints


def make_plan(state: State, settings: Settings, placer: Placer) -> Plan:
    """Turn the policy's answer into who runs where next.

    A job that is left running keeps what it has, as do those that the answer does not know. A parked job that saves nothing, and
    any if parked jobs are to stay, goes on where it sleeps if its GPUs are free; else it waits. Where the plan has it otherwise,
    it is made again without these jobs."""
    assert state.question.answer is not None
    rows, alive = jobs_of(state, state.question.answer)
    kept = keeps_gpus_unsaved(state, rows)
    if kept is not None:
        kept = kept if alive is None else kept & alive
        alive = ~kept if alive is None else alive & ~kept
    while True:
        plan = _make(state, settings, placer, rows, alive, kept)
        left_out = moved_unsaved(state, plan, rows)
        if left_out is not None:
            kept = left_out if kept is None else kept | left_out
        else:
            plan, sleepers = with_parked_in_place(state, plan, all_stay=settings.parked_stay)
            left_out = np.isin(state.jobs.table.id[rows], sleepers) if sleepers else None
        if left_out is None:
            return plan
        alive = ~left_out if alive is None else alive & ~left_out


def _make(state: State, settings: Settings, placer: Placer, rows: Ints, alive: Bools | None, kept: Bools | None = None) -> Plan:
    """`alive`: which of the jobs that the answer speaks of may be scheduled; None: all, and there are no others. `kept`: which of
    the rest keep the GPUs that they have.

    1. The answer names candidates: (job, option) pairs, best first.
    2. `grant` walks them and gives each job its first option that still has room.
    3. If jobs wait for places, a search finds a place for each gang, or gives what it would have had to those behind it. Tactics
       may move running jobs for a gang before that.
    4. Tactics may improve the grants: a job that waits joins one that runs, one that runs has idle GPUs.
    5. The placer picks GPUs for every job that starts, moves or changes its option.
    6. What differs from the plan in force becomes a change.
    7. Tactics may move running jobs, and by that find a place for a gang.
    8. The plan holds until a rank changes, a slice ends, or something happens.
    """
    assert state.question.answer is not None
    allocation = state.question.answer.allocation
    table = CandidateTable(state, rows, settings)
    candidates, capacity = list_candidates(state, settings, allocation, table, alive)
    if settings.tactics:
        candidates = guests_last(state, settings, candidates, table)
    grants = grant(candidates, table, capacity)
    if settings.wait_for_place:
        places, aside = find_places(state, settings, placer, allocation, candidates, table, grants, alive)
    else:
        places, aside = GangPlaces(Places(grants))
    trials: tuple[Trial, ...] = ()
    again_s = FOREVER
    if settings.tactics:
        trials = improve(state, settings, allocation, table, places.grants, alive)
    if settings.tactics.grow is not None:
        again_s = grow(state, settings.tactics.grow, table, places.grants, alive)
    changed = changes(state, settings, placer, allocation, table, places, alive)
    moved = PlanMoves(changed)
    if settings.tactics.moves:
        moved = move(Mover(state, settings, placer, allocation, candidates, table, places, alive, changed), changed)
    granted = places.grants.option >= 0 if kept is None else (places.grants.option >= 0) | kept
    somebody_waits = not granted.all()
    overtakes = overtaking(allocation, table, granted) if somebody_waits and starts_cost(state) else None
    until_s = holds_until_s(state, settings, allocation, table, places.grants, granted, overtakes)
    for trial in (*state.knowledge.trials.values(), *trials):  # one that was not measured in time is given up
        again_s = min(again_s, trial.given_up_s if trial.given_up_s > state.now_s else FOREVER)
    until_s = min(until_s, max(again_s, state.now_s + SHORTEST_HOLD_SECONDS))
    if moved.look_s < until_s and settings.decide.at_events:
        until_s = moved.look_s
    on = not somebody_waits and alive is None and placer.sticky and all_go_on(state, settings, allocation, len(table))
    return Plan(
        moved.changes, until_s, somebody_waits, places.fragmented, overtakes is not None, trials, on, (*aside, *moved.jobs)
    )
