"""How long a plan holds if nothing happens."""

import numpy as np

from rota.core.decision_timing import AtEvents, WholeSteps
from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.draft import Draft
from rota.core.plan.order import holds_seconds
from rota.core.plan.pinned import protected_until_s
from rota.core.state.state import State
from rota.model.allocation import Ranking
from rota.model.job import Phase
from rota.model.units import FOREVER, MIN_HOLD_SECONDS, Bools, Floats, Ints


def overtaking(draft: Draft, granted: Bools) -> Bools | None:
    """Jobs that keep their GPUs only because they are protected, while a job that ranks before them waits. None: no job."""
    allocation, table = draft.allocation, draft.table
    found: Bools = table.protected & granted
    if "priority" in draft.state.jobs.table.in_use and found.any() and not granted.all():
        lower: Bools = found & (table.priority < table.priority[~granted].max())
        if lower.any():
            return lower
    if not isinstance(allocation, Ranking) or not found.any():
        return None
    rank = np.full(len(table), len(table))
    rank[allocation.order] = np.arange(len(allocation.order))
    found &= rank > rank[~granted].min()
    return found if found.any() else None


def stable_until_change(draft: Draft) -> bool:
    """Whether jobs that all run under a ranking continue as they are when one of them ends: each has only one option, and neither
    the policy nor the cluster has a reason of its own to change anything."""
    state, settings, allocation = draft.state, draft.settings, draft.allocation
    if not isinstance(allocation, Ranking) or len(allocation.order) < len(draft.table) or allocation.option is not None:
        return False
    if allocation.until_s < FOREVER or (allocation.memory is not None and not allocation.memory_can_wait):
        return False
    options, nodes, decide = state.beliefs.options, state.nodes, settings.decide
    if options.by_kind.shape[1] > 1 or options.has_fractions:
        return False
    if nodes.draining or nodes.cordoned or nodes.taken or nodes.drains:
        return False
    if settings.tactics or settings.wait_for_locality:
        return False  # another job may use what one gives back
    return isinstance(decide, AtEvents) and not decide.solve_every_seconds


def holds_until_s(draft: Draft, granted: Bools, some_wait: bool, overtakes: Bools | None) -> float:
    """Until the answer ends, a rank changes, a slice ends, or a job that overtakes others is no longer protected. In rounds of
    whole steps: until all jobs have done theirs."""
    state, allocation, decide = draft.state, draft.allocation, draft.settings.decide
    if type(decide) is WholeSteps:  # `isinstance` takes a detour over the abstract base class
        return _all_done_s(decide, draft, granted)
    if not len(draft.table):
        return FOREVER
    holds = holds_seconds(allocation, granted, some_wait, draft.table)
    # Before the policy may be asked again, an answer that has ended can only be used again, if it is reusable.
    may_ask_s = decide.may_ask_s(state.cycle.called_s)
    if allocation.reusable:
        until_s = min(max(allocation.until_s, may_ask_s), state.now_s + holds)
    else:
        until_s = max(min(allocation.until_s, state.now_s + holds), may_ask_s)
    if overtakes is not None:
        until_s = min(until_s, protected_until_s(state, draft.table.rows[overtakes]))
    return max(until_s, state.now_s + MIN_HOLD_SECONDS)


def _all_done_s(rounds: WholeSteps, draft: Draft, granted: Bools) -> float:
    """When all jobs, pinned ones too, will have started and done the whole steps of this round. If none runs: when the policy may
    be asked again, or a round later if it may be asked now and has no better answer."""
    state, table, grants = draft.state, draft.table, draft.grants
    position, option = grants.position, grants.option[grants.position]
    if draft.pinned is not None:
        left = (granted & (grants.option < 0)).nonzero()[0]
        position = np.concatenate((position, left))
        option = np.concatenate((option, state.jobs.table.option[table.rows[left]]))
    if not len(position):
        may_ask_s = rounds.may_ask_s(state.cycle.called_s)
        return may_ask_s if may_ask_s > state.now_s else state.now_s + rounds.round_seconds
    rate = state.beliefs.options.rate[option]
    steps = np.minimum(rounds.steps_per_round(rate), table.steps_left[position])
    seconds = steps / rate + _start_seconds(state, table, position, option)
    return state.now_s + max(float(seconds.max()), MIN_HOLD_SECONDS)


def _start_seconds(state: State, table: CandidateTable, position: Ints, option: Ints) -> Floats:
    """How long each of these jobs is believed to take until it runs by its option: the cost of moving it, given its GPU memory. A
    parked job resumes sooner where it is, but may have to go elsewhere: it counts as taking as long as a job usually does."""
    jobs, costs = state.jobs, state.beliefs.costs
    rows = table.rows[position]
    found = np.zeros(len(rows))
    if costs.starts_are_free:
        return found
    phase = jobs.table.phase[rows]
    continues = (phase == Phase.RUNNING) & (option == table.granted_option[position])
    for at in (~continues).nonzero()[0].tolist():
        spec = jobs.specs[jobs.table.id.item(rows[at])]
        found[at] = max(costs.resume_of(spec), costs.move_seconds) if phase[at] == Phase.PARKED else costs.move_of(spec)
    return found
