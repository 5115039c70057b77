"""Apply: folds what happened into the ledger. Each event is safe to see late, twice, or out of order."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rota.core.fold.incarnations import doom, end_part, exited, finish, refresh_schedulable, saved, started, suspended
from rota.core.fold.nodes import lose_sight, node_drained, node_joined, node_left, node_lost, node_reported
from rota.core.learn.rates import learn
from rota.core.learn.slow_gpus import watch
from rota.core.plan.candidates import CandidateTable
from rota.core.plan.grant import MOST_OWED
from rota.core.settings import Settings
from rota.core.state.ledger import Ledger
from rota.core.state.records import Answer, Incarnation, InFlight, Verdict, same_gpus
from rota.model.allocation import Allocation
from rota.model.commands import JobCommand, Launch, Resume, Suspend, SuspendKind
from rota.model.events import (
    Allocated,
    CancelAsked,
    Decided,
    Event,
    Exited,
    HoldAsked,
    NodeDrained,
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeReported,
    PolicyFailed,
    Progressed,
    Started,
    Submitted,
    Suspended,
    TimedOut,
    Woke,
)
from rota.model.job import Phase
from rota.model.plan import Change
from rota.model.units import FOREVER


def apply(state: Ledger, settings: Settings, event: Event) -> None:
    """Fold one event. The ledger's clock has been set to the instant the core learned of it."""
    _HANDLERS[type(event)](state, settings, event)


def advance(state: Ledger, settings: Settings) -> None:
    """Fold the passing of time: silent nodes become unreachable, leases end."""
    now = state.now_s
    if settings.node_timeout_seconds < FOREVER:
        silent = state.node_up & (state.node_heard_s + settings.node_timeout_seconds <= now)
        for node in np.flatnonzero(silent).tolist():
            lose_sight(state, node)
    if settings.leased and state.incarnations:
        jobs = state.jobs
        over = jobs.lease_s[: jobs.size] + settings.lease_margin_seconds <= now
        for job in jobs.id[: jobs.size][over].tolist():
            if job in state.incarnations:
                end_part(state, job, None, now, Verdict.LOST, saved(state, job))


def _submitted(state: Ledger, settings: Settings, event: Submitted) -> None:
    if event.job > state.last_job:  # numbers rise, so anything else is a repeat
        state.add_job(event.job, event.spec, event.at_s, settings.packing)
        state.touch()


def _progressed(state: Ledger, settings: Settings, event: Progressed) -> None:
    jobs = state.jobs
    if not jobs.size:
        return
    ids = jobs.id[: jobs.size]
    rows = np.minimum(ids.searchsorted(event.jobs), jobs.size - 1)
    known = (ids[rows] == event.jobs) & (jobs.incarnation[rows] == event.incarnations) & (jobs.using[rows] > 0)
    at_s = min(event.at_s, state.now_s)
    known &= at_s >= jobs.as_of_s[rows]  # an older report has nothing new to say
    rows = rows[known]
    elapsed = at_s - jobs.as_of_s[rows]
    jobs.run_seconds[rows] += elapsed
    jobs.attained[rows] += elapsed * jobs.using[rows]
    # Where rounds are of whole steps, a job that has done its own rests: only the time it worked counts as received.
    worked = (event.steps_done[known] - jobs.steps_done[rows]) / jobs.rate[rows] if settings.whole_steps else elapsed
    jobs.received[rows, jobs.account[rows]] += worked
    done, before_s = event.steps_done[known] - jobs.steps_done[rows], jobs.as_of_s[rows]
    jobs.as_of_s[rows] = at_s
    jobs.steps_done[rows] = event.steps_done[known]
    # Since it was last heard of its pace may have changed, and its steps were only believed; one that is done may only wait to be
    # noticed. That says nothing.
    clean = (jobs.told_s[rows] == before_s) & (jobs.steps_done[rows] < jobs.steps_total[rows])
    if settings.learn:
        stands = jobs.steps_done[rows] <= jobs.paced_steps[rows]  # since it began: short rounds add up
        seconds = np.where(stands, at_s - jobs.paced_s[rows], elapsed)
        learn(state, rows[clean], done[clean], seconds[clean])
    if settings.learn_variability and state.learning is not None:
        watch(state, settings, rows, clean, at_s)
    jobs.told_s[rows] = at_s
    jobs.steps_saved[rows] = np.maximum(jobs.steps_saved[rows], event.steps_saved[known])


def _cancel_asked(state: Ledger, settings: Settings, event: CancelAsked) -> None:
    row = state.row.get(event.job)
    if row is None:
        return
    if event.job in state.incarnations:
        state.cancelling.add(event.job)
        doom(state, event.job)
    else:
        finish(state, event.job, row, Phase.CANCELLED, event.at_s)


def _hold_asked(state: Ledger, settings: Settings, event: HoldAsked) -> None:
    row = state.row.get(event.job)
    if row is None or event.held == (event.job in state.held):
        return
    (state.held.add if event.held else state.held.discard)(event.job)
    if event.held:
        state.want(event.job, row, -1, None)
        state.unsettled.add(event.job)
    refresh_schedulable(state, event.job, row)
    state.touch()


def _allocated(state: Ledger, settings: Settings, event: Allocated) -> None:
    if state.asked is None or event.ticket != state.decision:
        return
    state.policy_fault = _fault(event.allocation, _asked_about(state, settings), state.asked_s)
    if state.policy_fault:
        _policy_failed(state, settings, PolicyFailed(event.ticket, event.at_s, state.policy_fault))
        return
    _close_accounts(state, settings)
    state.answer = Answer(event.allocation, state.asked, state.asked_version, event.policy)
    state.asked = None
    state.fresh = True


def _fault(allocation: Allocation, table: CandidateTable, asked_s: float) -> str:
    """What is wrong with an answer. One so odd that looking at it fails is wrong too: it must not stop the core."""
    try:
        until_s: object = allocation.until_s
        if not isinstance(until_s, int | float | np.integer | np.floating) or until_s != until_s:
            return f"until_s is {until_s!r}, not a time"
        if not until_s > asked_s:
            return f"it holds until {until_s:g} s, but was asked at {asked_s:g} s"
        return allocation.fault(table)
    except Exception as problem:
        return f"its answer cannot be read ({type(problem).__name__}: {problem})"


def _asked_about(state: Ledger, settings: Settings) -> CandidateTable:
    """The jobs of the open question. An answer is believed only if it fits them: a wrong one must not stop the core, now or when
    it recovers."""
    assert state.asked is not None
    if state.version == state.asked_version:
        return CandidateTable(state, state.rows, settings)
    ids = state.jobs.id[: state.jobs.size]
    return CandidateTable(state, np.minimum(ids.searchsorted(state.asked), max(len(ids) - 1, 0)), settings)


def _policy_failed(state: Ledger, settings: Settings, event: PolicyFailed | TimedOut) -> None:
    if state.asked is None or event.ticket != state.decision:
        return
    state.policy_fault = getattr(event, "message", "") or state.policy_fault or "no answer in time"
    state.asked = None
    state.touch()
    state.not_before_s = state.now_s + settings.policy_retry_seconds


def _close_accounts(state: Ledger, settings: Settings) -> None:
    """New shares: what the old ones promised and did not give is owed from now on, and time received counts from zero."""
    jobs, answer = state.jobs, state.answer
    if answer is None or not jobs.size or not answer.allocation.reusable:
        state.shares_s = state.now_s  # only shares promise time
        return
    elapsed, state.shares_s = state.now_s - state.shares_s, state.now_s
    ids = jobs.id[: jobs.size]
    found = np.minimum(ids.searchsorted(answer.ids), jobs.size - 1)
    table = CandidateTable(state, found, settings)
    share = answer.allocation.shares(table)
    if share is None:
        return
    known = ids[found] == answer.ids
    rows = found[known]
    jobs.deficit[rows, : share.shape[1]] += share[known] * elapsed
    every = CandidateTable(state, np.arange(jobs.size), settings)
    jobs.deficit[: jobs.size] -= every.received_seconds
    if not settings.deficits_break_ties:
        most = MOST_OWED * every.slice_seconds
        np.clip(jobs.deficit[: jobs.size], -most, most, out=jobs.deficit[: jobs.size])
    jobs.received[: jobs.size] = 0.0
    running = (jobs.using[: jobs.size] > 0).nonzero()[0]
    # What a running job has had so far was settled just now, though it is booked only with its next report.
    jobs.received[running, jobs.account[running]] = jobs.as_of_s[running] - state.now_s


def _decided(state: Ledger, settings: Settings, event: Decided) -> None:
    if event.plan is not None:
        slices = state.answer is not None and state.answer.allocation.reusable
        before: dict[int, int] = {}
        if state.options.shared or state.options.in_parts:
            rows = {change.job: state.row[change.job] for change in event.plan.changes if change.job in state.row}
            before = {job: state.jobs.option.item(row) for job, row in rows.items()}
            for job, mine in rows.items():  # all let go before any takes a part
                state.want(job, mine, -1, None)
        for change in event.plan.changes:
            row = state.row.get(change.job)
            if row is not None:
                option = before[change.job] if before else state.jobs.option.item(row)
                state.want(change.job, row, change.option, change.gpus, change.partner)
                state.unsettled.add(change.job)
                if slices and option != change.option:
                    _new_slice(state, change, row)
        state.until_s = event.plan.until_s
        state.somebody_waits = event.plan.somebody_waits
        state.fragmented = event.plan.fragmented
        state.fresh = state.replan = False
        state.plans += 1
        if settings.whole_steps:
            state.next_round_s = event.plan.until_s
        elif settings.round_seconds and state.now_s >= state.next_round_s:  # a late round is skipped
            number = int(state.now_s // settings.round_seconds) + 1
            state.next_round_s = (number + (number * settings.round_seconds <= state.now_s)) * settings.round_seconds
    if event.ticket:
        state.decision = event.ticket
        state.asked = state.jobs.id[state.rows]
        state.asked_version = state.version
        state.asked_s = state.now_s
        state.dirty = state.replan = False
    for command in event.commands:
        _sent(state, command)
    for renewal in event.renewals:
        row = state.row[renewal.job]
        state.jobs.lease_s[row] = max(state.jobs.lease_s[row], renewal.lease_s)
    if event.plan is not None:
        for change in event.plan.changes:
            if state.settled(change.job):
                state.unsettled.discard(change.job)
    state.orphans.clear()


def _new_slice(state: Ledger, change: Change, row: int) -> None:
    """A slice begins with another option: now if the job goes on where it is, else when it runs. A job that only moves keeps the
    slice that it has."""
    incarnation = state.incarnations.get(change.job)
    goes_on = incarnation is not None and change.gpus is not None and same_gpus(incarnation.gpus, change.gpus)
    state.jobs.slice_s[row] = state.now_s if goes_on and state.jobs.using.item(row) > 0 else FOREVER


def _launched(state: Ledger, launch: Launch, row: int) -> Incarnation:
    """A new incarnation: it holds its GPUs from now on."""
    jobs = state.jobs
    state.set_phase(row, Phase.STARTING, state.now_s)
    jobs.incarnation[row] = launch.incarnation
    jobs.account[row] = state.options.account[launch.option]
    jobs.lease_s[row] = launch.lease_s
    state.hold(launch.job, launch.gpus)
    incarnation = state.incarnations[launch.job] = Incarnation(launch.incarnation, launch.option, launch.gpus, launch.nodes)
    return incarnation


def _sent(state: Ledger, command: JobCommand) -> None:
    """A command left: book that it is in flight, and what it takes hold of before any answer."""
    job = command.job
    row, incarnation = state.row.get(job), state.incarnations.get(job)
    if row is None:
        return
    if incarnation is None and isinstance(command, Launch):
        incarnation = _launched(state, command, row)
    if incarnation is None or incarnation.number != command.incarnation:
        return
    jobs = state.jobs
    if jobs.sequence[row] < command.sequence:
        jobs.sequence[row] = command.sequence
    if isinstance(command, Resume):
        if jobs.phase.item(row) == Phase.PARKED:
            state.hold(job, incarnation.gpus)
            state.set_phase(row, Phase.STARTING, state.now_s)
        jobs.lease_s[row] = max(jobs.lease_s[row], command.lease_s)
    elif isinstance(command, Suspend):
        if command.kind is SuspendKind.PARK and not incarnation.reserved:
            state.host_gib[list(incarnation.parts)] -= state.gib_per_node(job, incarnation)
            state.incarnations[job] = replace(incarnation, reserved=True)
        if not state.out_of_reach(job):
            state.set_phase(row, Phase.SUSPENDING, state.now_s)
    state.in_flight[job] = InFlight(command, command.nodes, state.now_s)


def _woke(state: Ledger, settings: Settings, event: Woke) -> None:
    state.wake_s = FOREVER


_HANDLERS: dict[type, Callable[[Ledger, Settings, Any], None]] = {
    Submitted: _submitted,
    Started: started,
    Suspended: suspended,
    Exited: exited,
    Progressed: _progressed,
    CancelAsked: _cancel_asked,
    HoldAsked: _hold_asked,
    NodeReported: node_reported,
    NodeLost: node_lost,
    NodeJoined: node_joined,
    NodeDrained: node_drained,
    NodeLeft: node_left,
    Allocated: _allocated,
    PolicyFailed: _policy_failed,
    TimedOut: _policy_failed,
    Decided: _decided,
    Woke: _woke,
}
