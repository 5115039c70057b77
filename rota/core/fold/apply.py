"""Apply: folds what happened into the state. Each event is safe to see late, twice, or out of order."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rota.core.fold.attempts import (
    attached,
    end_on_node,
    exited,
    finish,
    saved,
    saves_after_all,
    started,
    suspended,
)
from rota.core.fold.deficits import subtract_mean_deficit
from rota.core.fold.dependencies import wait_for_others
from rota.core.fold.drains import drain_cancelled, follow_drains, gpus_drained, gpus_undrained, node_readmitted, node_removed
from rota.core.fold.measurements import abort_trials, begin_trial, measured
from rota.core.fold.node_events import (
    gpus_taken,
    keep_off_taken,
    mark_unreachable,
    node_drained,
    node_joined,
    node_left,
    node_lost,
    node_reported,
    nodes_reported,
)
from rota.core.fold.requests import cancel_requested, hold_requested, job_changed, requeue_requested
from rota.core.fold.run_limit import end_over_limit
from rota.core.fold.setbacks import clear_setbacks, end_pauses
from rota.core.fold.tenancy import adopt, reclaimed
from rota.core.learn.failing_nodes import review
from rota.core.learn.job_lengths import note
from rota.core.learn.learn_rates import learn
from rota.core.learn.slow_gpus import watch
from rota.core.settings import Settings
from rota.core.state.accounts import time_shares
from rota.core.state.job_table import NO_JOB
from rota.core.state.records import Attempt, AttemptEnd, InFlight, PolicyAnswer, same_gpus
from rota.core.state.state import State
from rota.model.allocation import Allocation, Assignment, CallJobs, Ranking, Shares
from rota.model.commands import JobCommand, Launch, Resize, Resume, Suspend, SuspendKind
from rota.model.events import (
    Allocated,
    Attached,
    CancelRequested,
    Decided,
    DrainCancelled,
    Event,
    Exited,
    GpusDrained,
    GpusTaken,
    GpusUndrained,
    HoldRequested,
    JobChanged,
    Measured,
    NodeDrainChanged,
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeReadmitted,
    NodeRemoved,
    NodeReported,
    NodesReported,
    PolicyFailed,
    PolicyTimedOut,
    Progressed,
    RequeueRequested,
    Started,
    Submitted,
    Suspended,
    TimerFired,
)
from rota.model.job import Phase
from rota.model.plan import PlacementChange
from rota.model.units import FOREVER, Floats, Ints

_ALLOCATIONS = (Ranking, Shares, Assignment)
_NUMBERS = (float, int, np.integer, np.floating)


def apply(state: State, settings: Settings, event: Event) -> None:
    """Fold one event. The state's clock has been set to the instant the core learned of it."""
    HANDLERS[type(event)](state, settings, event)


def set_clock(state: State, settings: Settings, now_s: float) -> None:
    """Advance the clock. While there are no jobs, the first round has not begun."""
    if now_s > state.now_s:
        state.now_s = now_s
    if state.jobs.ended_because:
        state.jobs.ended_because.clear()
    if not state.jobs.row:
        state.cycle.next_round_s = settings.decide.first_round_s(state.now_s)


def timer_was_set(state: State, wake_s: float) -> None:
    """Note the time for which the driver was asked to wake the scheduler."""
    state.cycle.timer_s = wake_s


def advance(state: State, settings: Settings) -> None:
    """Fold the passing of time: silent nodes become unreachable, leases end, and so do pauses."""
    now = state.now_s
    if state.nodes.failed_starts or state.nodes.failing or state.nodes.failing_jobs:
        review(state, settings)
    if state.jobs.setbacks:
        end_pauses(state)
    if "max_run_seconds" in state.jobs.table.in_use:
        end_over_limit(state)
    if settings.node_timeout_seconds < FOREVER:
        silent = state.nodes.node_up & (state.nodes.node_heard_s + settings.node_timeout_seconds <= now)
        for node in np.flatnonzero(silent).tolist():
            mark_unreachable(state, node)
    if settings.lease_seconds < FOREVER and state.jobs.attempts:
        table = state.jobs.table
        over = table.lease_s[: table.size] + settings.lease_margin_seconds <= now
        for job in table.id[: table.size][over].tolist():
            if job in state.jobs.attempts:
                end_on_node(state, job, None, now, AttemptEnd.LOST, saved(state, job))
    if state.nodes.taken:
        keep_off_taken(state)
    if state.nodes.drains or state.nodes.drained:
        follow_drains(state)


def _submitted(state: State, settings: Settings, event: Submitted) -> None:
    if event.job > state.jobs.last_job:  # numbers rise, so anything else is a repeat
        state.add_job(event.job, event.spec, event.at_s, settings.colocation)
        if state.tenants.tenants is not None:
            adopt(state, event.job, event.spec)
        if event.spec.after and not wait_for_others(state, event.job, event.spec.after):
            finish(state, event.job, state.jobs.row[event.job], Phase.CANCELLED, event.at_s)
        state.cycle.invalidate()


def _progressed(state: State, settings: Settings, event: Progressed) -> None:
    table = state.jobs.table
    if not table.size:
        return
    ids = table.id[: table.size]
    rows = np.minimum(ids.searchsorted(event.jobs), table.size - 1)
    known = (ids[rows] == event.jobs) & (table.attempt[rows] == event.attempts) & (table.gpus_in_use[rows] > 0)
    at_s = min(event.at_s, state.now_s)
    known &= at_s >= table.as_of_s[rows]  # an older report has nothing new to say
    rows = rows[known]
    elapsed = at_s - table.as_of_s[rows]
    table.run_seconds[rows] += elapsed
    table.attained_gpu_seconds[rows] += elapsed * table.gpus_in_use[rows]
    done, before_s = event.steps_done[known] - table.steps_done[rows], table.as_of_s[rows]
    table.received[rows, table.share_column[rows]] += settings.decide.worked_seconds(elapsed, done, table.rate[rows])
    table.as_of_s[rows] = at_s
    table.steps_done[rows] = event.steps_done[known]
    if settings.learn or settings.learn_variability:
        _learn_from(state, settings, rows, done, before_s, at_s)
    table.progress_known_s[rows] = at_s
    if state.jobs.setbacks or "saves" in table.in_use:
        for row in rows[event.steps_saved[known] > table.steps_saved[rows]].tolist():
            clear_setbacks(state, table.id.item(row))
            saves_after_all(state, row)
    table.steps_saved[rows] = np.maximum(table.steps_saved[rows], event.steps_saved[known])


def _learn_from(state: State, settings: Settings, rows: Ints, done: Floats, before_s: Floats, at_s: float) -> None:
    """Learn from the steps that running jobs did since `before_s`."""
    table = state.jobs.table
    # A report says nothing about the pace if the pace has changed since the last one, or if the job has done all its steps.
    clean = (table.progress_known_s[rows] == before_s) & (table.steps_done[rows] < table.steps_total[rows])
    clean &= table.phase[rows] != Phase.RESIZING
    if state.beliefs.sharing:  # trials measure pairs that have no option
        option = state.beliefs.options.by_share_column[table.kind[rows], table.share_column[rows]]
        clean &= (table.colocated_with[rows] == NO_JOB) | (state.beliefs.options.partner_kind[option] >= 0)
    if settings.learn:
        stands = table.steps_done[rows] <= table.rate_window_steps[rows]  # since the attempt began, so that short rounds add up
        seconds = np.where(stands, at_s - table.rate_window_s[rows], at_s - before_s)
        learn(state, rows[clean], done[clean], seconds[clean])
    if settings.learn_variability and state.beliefs.learning is not None:
        watch(state, settings, rows, clean, at_s)


def _allocated(state: State, settings: Settings, event: Allocated) -> None:
    if state.cycle.call_jobs is None or event.ticket != state.cycle.decision:
        return
    state.cycle.policy_fault = _fault(event.allocation, _asked_about(state), state.cycle.called_s)
    if state.cycle.policy_fault is not None:
        _policy_failed(state, settings, PolicyFailed(event.ticket, event.at_s, state.cycle.policy_fault))
        return
    _carry_deficits_over(state, settings)
    if isinstance(event.allocation, Shares):
        state.add_share_columns(event.allocation.option[event.allocation.share > 0])
    allocation = _with_memory(event.allocation, state.cycle.answer, event.policy)
    state.cycle.answer = PolicyAnswer(allocation, state.cycle.call_jobs, state.cycle.call_version, event.policy)
    state.cycle.call_jobs = None
    state.cycle.has_new_answer = True


def _with_memory(allocation: Allocation, before: PolicyAnswer | None, policy: str | None) -> Allocation:
    """Return the allocation with the policy's memory. A journal leaves large memories out; then the one of the last snapshot
    stays."""
    if not isinstance(allocation, Assignment) or not allocation.memory_in_snapshots or allocation.memory is not None:
        return allocation
    known = before is not None and before.policy == policy
    return replace(allocation, memory=before.allocation.memory) if before is not None and known else allocation


def _fault(allocation: object, asked: CallJobs, asked_s: float) -> str | None:
    """Return what is wrong with an answer; None if nothing is. An answer that cannot even be read must not stop the core."""
    if not isinstance(allocation, _ALLOCATIONS):
        return f"it is a {type(allocation).__name__}, not a Ranking, Shares or an Assignment"
    try:
        until_s: object = allocation.until_s
        if not isinstance(until_s, _NUMBERS) or until_s != until_s:
            return f"until_s is {until_s!r}, not a time"
        if not until_s > asked_s:
            return f"it holds until {until_s:g} s, but was asked at {asked_s:g} s"
        return allocation.fault(asked) or None
    except Exception as problem:
        return f"its answer cannot be read ({type(problem).__name__}: {problem})"


def _asked_about(state: State) -> CallJobs:
    """Return the jobs of the open policy call, against which its answer is checked. A wrong answer must not stop the core, now or
    when it recovers."""
    assert state.cycle.call_jobs is not None
    rows = state.jobs.rows
    if state.jobs.version != state.cycle.call_version:
        ids = state.jobs.table.id[: state.jobs.table.size]
        rows = np.minimum(ids.searchsorted(state.cycle.call_jobs), max(len(ids) - 1, 0))
    return CallJobs(rows, state.jobs.table.kind, state.beliefs.options, state.nodes.cluster.gpu_pool)


def _policy_failed(state: State, settings: Settings, event: PolicyFailed | PolicyTimedOut) -> None:
    if state.cycle.call_jobs is None or event.ticket != state.cycle.decision:
        return
    said = event.message if isinstance(event, PolicyFailed) else None
    state.cycle.policy_fault = said or state.cycle.policy_fault or "no answer in time"
    state.cycle.call_jobs = None
    state.cycle.invalidate()
    state.cycle.retry_policy_s = state.now_s + settings.policy_retry_seconds


def _carry_deficits_over(state: State, settings: Settings) -> None:
    """Close the accounts of the shares in force: time that they promised and did not give is owed from now on, and the time
    received starts at zero."""
    jobs, answer = state.jobs.table, state.cycle.answer
    if answer is None or not jobs.size or not isinstance(answer.allocation, Shares):
        state.cycle.shares_s = state.now_s  # only shares promise time
        return
    elapsed, state.cycle.shares_s = state.now_s - state.cycle.shares_s, state.now_s
    ids = jobs.id[: jobs.size]
    found = np.minimum(ids.searchsorted(answer.ids), jobs.size - 1)
    share = time_shares(answer.allocation, state.beliefs.options, jobs.kind[found])
    known = ids[found] == answer.ids
    rows = found[known]
    jobs.deficit[rows, : share.shape[1]] += share[known] * elapsed
    jobs.deficit[: jobs.size] -= state.received_seconds(np.arange(jobs.size))
    if settings.selection.saves_moves and state.beliefs.costs.move_seconds:
        subtract_mean_deficit(state, rows, share[known])
    most = settings.selection.max_deficit_seconds(settings.decide.turn_seconds)
    np.clip(jobs.deficit[: jobs.size], -most, most, out=jobs.deficit[: jobs.size])
    jobs.received[: jobs.size] = 0.0
    running = (jobs.gpus_in_use[: jobs.size] > 0).nonzero()[0]
    # The time of a running job up to now is settled, though it is booked only with the next report.
    jobs.received[running, jobs.share_column[running]] = jobs.as_of_s[running] - state.now_s


def _decided(state: State, settings: Settings, event: Decided) -> None:
    if event.plan is not None:
        slices = state.cycle.answer is not None and state.cycle.answer.allocation.reusable
        before: dict[int, int] = {}
        if state.sharing or state.beliefs.options.has_fractions:
            rows = {change.job: state.jobs.row[change.job] for change in event.plan.changes if change.job in state.jobs.row}
            before = {job: state.jobs.table.option.item(row) for job, row in rows.items()}
            for job, mine in rows.items():  # all give up their GPUs before any takes a fraction
                state.set_desired(job, mine, -1, None)
        row_of, options, want = state.jobs.row, state.jobs.table.option, state.set_desired
        for change in event.plan.changes:
            job = change.job
            row = row_of.get(job)
            if row is not None:
                option = before[job] if before else options.item(row)
                want(job, row, change.option, change.gpus, change.partner)
                if slices and option != change.option:
                    _new_slice(state, change, row)
        cycle, plan = state.cycle, event.plan
        cycle.until_s, cycle.has_waiting_jobs = plan.until_s, plan.has_waiting_jobs
        cycle.protects_unstarted, cycle.fragmented = plan.protects_unstarted, plan.fragmented
        cycle.stable_until_change = plan.stable_until_change
        for job in plan.moved:
            if job in row_of:
                state.jobs.table.own("moved_s")[row_of[job]] = state.now_s
        if plan.reclaimed:
            reclaimed(state, plan.reclaimed)
        if state.beliefs.trials:
            abort_trials(state)
        for trial in plan.trials:
            begin_trial(state, trial)
        cycle.has_new_answer = cycle.needs_plan = False
        cycle.plans += 1
        cycle.next_round_s = settings.decide.next_round_s(cycle.next_round_s, state.now_s, plan.until_s)
    if event.ticket is not None:
        state.cycle.begin_policy_call(event.ticket, state.jobs.table.id[state.jobs.rows], state.jobs.version, state.now_s)
        if settings.needs_predictions:
            note(state)
    for command in event.commands:
        _sent(state, command)
    for renewal in event.renewals:
        row = state.jobs.row[renewal.job]
        state.jobs.table.lease_s[row] = max(state.jobs.table.lease_s[row], renewal.lease_s)
    if event.plan is not None:
        for change in event.plan.changes:
            if change.job in state.jobs.row:
                state.requeue(change.job)
    state.jobs.unknown_attempts.clear()


def _new_slice(state: State, change: PlacementChange, row: int) -> None:
    """Begin a slice, as the option of a job changes: now if the job continues where it is, otherwise when it runs. A move alone
    begins no slice."""
    attempt = state.jobs.attempts.get(change.job)
    goes_on = attempt is not None and change.gpus is not None and same_gpus(attempt.gpus, change.gpus)
    state.jobs.table.slice_start_s[row] = state.now_s if goes_on and state.jobs.table.gpus_in_use.item(row) > 0 else FOREVER


def _launched(state: State, launch: Launch, row: int) -> Attempt:
    """Add an attempt, which holds its GPUs from now on."""
    jobs = state.jobs
    table, job, option = jobs.table, launch.job, launch.option
    account = state.beliefs.options.share_column.item(option)
    if account < 0:
        state.add_share_column(option)
        account = state.beliefs.options.share_column.item(option)
    jobs.transition(job, Phase.STARTING, state.now_s)
    table.attempt[row] = launch.attempt
    table.share_column[row] = account
    table.lease_s[row] = launch.lease_s
    state.occupy(job, launch.gpus)
    attempt = jobs.attempts[job] = Attempt(launch.attempt, option, launch.gpus, launch.nodes)
    return attempt


def _sent(state: State, command: JobCommand) -> None:
    """Note that a command is in flight, and what it occupies before it is answered."""
    job, jobs = command.job, state.jobs
    row, attempt, table = jobs.row.get(job), jobs.attempts.get(job), jobs.table
    if row is None:
        return
    if attempt is None and isinstance(command, Launch):
        attempt = _launched(state, command, row)
    if attempt is None or attempt.number != command.attempt:
        return
    if table.sequence.item(row) < command.sequence:
        table.sequence[row] = command.sequence
    jobs.in_flight[job] = InFlight(command, command.nodes, state.now_s)
    if isinstance(command, Launch):
        return
    if isinstance(command, Resume):
        if table.phase.item(row) == Phase.PARKED:
            state.occupy(job, attempt.gpus)
            state.jobs.transition(job, Phase.STARTING, state.now_s)
        table.lease_s[row] = max(table.lease_s[row], command.lease_s)
    elif isinstance(command, Suspend):
        if command.kind is SuspendKind.PARK and not attempt.host_memory_reserved:
            state.jobs.attempts[job] = state.memory.reserve(job, attempt)
        jobs.transition(job, Phase.SUSPENDING, state.now_s)
    elif isinstance(command, Resize):
        _resizing(state, command, attempt)


def _resizing(state: State, resize: Resize, attempt: Attempt) -> None:
    """Let a job that resizes hold the larger of its two sizes until it has answered."""
    job = resize.job
    state.add_share_column(resize.option)
    more = np.setdiff1d(resize.gpus, attempt.gpus)
    if len(more):
        state.occupy(job, more)
        state.jobs.attempts[job] = replace(attempt, gpus=resize.gpus)
    state.jobs.transition(job, Phase.RESIZING, state.now_s)


def _woke(state: State, settings: Settings, event: TimerFired) -> None:
    state.cycle.timer_s = FOREVER


HANDLERS: dict[type, Callable[[State, Settings, Any], None]] = {
    Submitted: _submitted,
    Started: started,
    Suspended: suspended,
    Exited: exited,
    Attached: attached,
    Progressed: _progressed,
    Measured: measured,
    CancelRequested: cancel_requested,
    HoldRequested: hold_requested,
    RequeueRequested: requeue_requested,
    JobChanged: job_changed,
    NodeReported: node_reported,
    NodesReported: nodes_reported,
    NodeLost: node_lost,
    NodeJoined: node_joined,
    NodeDrainChanged: node_drained,
    GpusDrained: gpus_drained,
    GpusUndrained: gpus_undrained,
    DrainCancelled: drain_cancelled,
    NodeRemoved: node_removed,
    NodeReadmitted: node_readmitted,
    GpusTaken: gpus_taken,
    NodeLeft: node_left,
    Allocated: _allocated,
    PolicyFailed: _policy_failed,
    PolicyTimedOut: _policy_failed,
    Decided: _decided,
    TimerFired: _woke,
}
"""Function that folds each type of event."""
