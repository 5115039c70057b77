"""Apply: folds what happened into the ledger. Each event is safe to see late, twice, or out of order."""

from collections.abc import Callable
from dataclasses import replace
from types import UnionType
from typing import Any

import numpy as np

from rota.core.ledger import NOBODY, Answer, InFlight, Ledger, Life, Verdict
from rota.core.lifecycle import LEGAL_CODES, refuse
from rota.core.settings import Settings
from rota.model.commands import JobCommand, Kill, Launch, Resume, Suspend, SuspendKind
from rota.model.events import (
    Allocated,
    CancelAsked,
    Decided,
    Event,
    Exited,
    HoldAsked,
    NodeLost,
    NodeReported,
    Outcome,
    Part,
    PartState,
    PolicyFailed,
    Progressed,
    Started,
    Submitted,
    Suspended,
    TimedOut,
    Woke,
)
from rota.model.job import Phase
from rota.model.units import FOREVER

_VERDICT = {
    Outcome.FINISHED: Verdict.FINISHED,
    Outcome.YIELDED: Verdict.SUSPENDED,
    Outcome.FAILED: Verdict.FAILED,
    Outcome.LOST: Verdict.LOST,
}


def apply(state: Ledger, settings: Settings, event: Event) -> None:
    """Fold one event. The ledger's clock has been set to the instant the core learned of it."""
    _HANDLERS[type(event)](state, settings, event)


def advance(state: Ledger, settings: Settings) -> None:
    """Fold the passing of time: silent nodes become unreachable, leases end."""
    now = state.now_s
    if settings.node_timeout_seconds < FOREVER:
        silent = state.node_up & (state.node_heard_s + settings.node_timeout_seconds <= now)
        for node in np.flatnonzero(silent).tolist():
            _lose_sight(state, node)
    if settings.leased and state.lives:
        jobs = state.jobs
        over = jobs.lease_s[: jobs.size] + settings.lease_margin_seconds <= now
        for job in jobs.id[: jobs.size][over].tolist():
            if job in state.lives:
                _end_part(state, job, None, now, Verdict.LOST, _saved(state, job))


# Jobs ------------------------------------------------------------------------------------------------------------


def _submitted(state: Ledger, settings: Settings, event: Submitted) -> None:
    if event.job > state.last_job:  # numbers rise, so anything else is a repeat
        state.add_job(event.job, event.spec, event.at_s)
        state.dirty = True


def _started(state: Ledger, settings: Settings, event: Started) -> None:
    if _answered(state, event, Launch | Resume):
        if event.from_step is not None:
            row = state.row[event.job]
            state.jobs.steps_done[row] = event.from_step
            if not state.lives[event.job].parked:
                state.jobs.steps_saved[row] = event.from_step
        _begin(state, event.job, event.at_s)


def _begin(state: Ledger, job: int, at_s: float) -> None:
    """All parts are up: the job runs, as far as we believe at its option's rate."""
    row, life = state.row[job], state.lives[job]
    jobs = state.jobs
    if jobs.phase[row] == Phase.UNREACHABLE:
        return
    if life.parked:
        _unpark(state, job, life)
    if jobs.phase[row] == Phase.STARTING:  # what starting took is the least that moving costs
        jobs.move_seconds[row] = max(jobs.move_seconds[row], at_s - jobs.phase_s[row])
    state.set_phase(row, Phase.RUNNING, at_s)
    jobs.as_of_s[row] = at_s
    jobs.rate[row] = state.options.rate[life.option]
    jobs.using[row] = len(life.gpus)
    if np.isnan(jobs.first_run_s[row]):
        jobs.first_run_s[row] = at_s
    if state.settled(job):
        state.unsettled.discard(job)


def _suspended(state: Ledger, settings: Settings, event: Suspended) -> None:
    life = state.lives.get(event.job)
    if life is None or life.incarnation != event.incarnation:
        return
    if event.kind is SuspendKind.CHECKPOINT:
        _end_part(state, event.job, event.node, event.at_s, Verdict.SUSPENDED, event.steps_done)
        return
    if _answered(state, event, Suspend):
        _settle(state, event.job, event.at_s)
        row = state.row[event.job]
        state.jobs.steps_done[row] = event.steps_done
        state.jobs.suspensions[row] += 1
        _park(state, event.job, life)
        state.set_phase(row, Phase.PARKED, event.at_s)
        if state.settled(event.job):
            state.unsettled.discard(event.job)


def _park(state: Ledger, job: int, life: Life) -> None:
    """It sleeps: its GPUs are free, its memory was set aside when it was told."""
    state.lives[job] = replace(life, parked=True)
    state.gpu_job[state.gpus_of(job)] = NOBODY


def _unpark(state: Ledger, job: int, life: Life) -> None:
    state.host_gib[list(life.parts)] += state.gib_per_node(job, life)
    state.lives[job] = replace(life, parked=False, reserved=False)


def _exited(state: Ledger, settings: Settings, event: Exited) -> None:
    life = state.lives.get(event.job)
    if life is not None and life.incarnation == event.incarnation:
        _end_part(state, event.job, event.node, event.at_s, _VERDICT[event.outcome], event.steps_saved)


def _progressed(state: Ledger, settings: Settings, event: Progressed) -> None:
    jobs = state.jobs
    ids = jobs.id[: jobs.size]
    rows = np.minimum(np.searchsorted(ids, event.jobs), max(jobs.size - 1, 0))
    known = (ids[rows] == event.jobs) & (jobs.incarnation[rows] == event.incarnations) & (jobs.using[rows] > 0)
    rows = rows[known]
    elapsed = np.maximum(event.at_s - jobs.as_of_s[rows], 0.0)
    jobs.run_seconds[rows] += elapsed
    jobs.attained[rows] += elapsed * jobs.using[rows]
    jobs.received[rows, jobs.pool[rows]] += elapsed
    jobs.as_of_s[rows] = np.maximum(jobs.as_of_s[rows], event.at_s)
    jobs.steps_done[rows] = event.steps_done[known]
    jobs.steps_saved[rows] = np.maximum(jobs.steps_saved[rows], event.steps_saved[known])


def _cancel_asked(state: Ledger, settings: Settings, event: CancelAsked) -> None:
    row = state.row.get(event.job)
    if row is None:
        return
    if event.job in state.lives:
        state.cancelling.add(event.job)
        _doom(state, event.job)
    else:
        _finish(state, event.job, row, Phase.CANCELLED, event.at_s)


def _hold_asked(state: Ledger, settings: Settings, event: HoldAsked) -> None:
    row = state.row.get(event.job)
    if row is None or event.held == (event.job in state.held):
        return
    (state.held.add if event.held else state.held.discard)(event.job)
    if event.held:
        state.want(event.job, row, -1, None)
        state.unsettled.add(event.job)
    _refresh_schedulable(state, event.job, row)
    state.dirty = True


# Lives -----------------------------------------------------------------------------------------------------------


def _answered(state: Ledger, event: Started | Suspended, expected: type | UnionType) -> bool:
    """Strike a node off the list of those that owe an answer. True once nobody does: the flight is over."""
    flight = state.in_flight.get(event.job)
    if flight is None or not isinstance(flight.command, expected):
        return False
    if flight.command.incarnation != event.incarnation or flight.command.sequence != event.sequence:
        return False
    waiting = () if event.node is None else tuple(n for n in flight.waiting if n != event.node)
    if waiting:
        state.in_flight[event.job] = replace(flight, waiting=waiting)
        return False
    del state.in_flight[event.job]
    return True


def _settle(state: Ledger, job: int, at_s: float) -> None:
    """Book the service received up to now; the job runs no more."""
    row, jobs = state.row[job], state.jobs
    if jobs.using[row]:
        elapsed = max(at_s - jobs.as_of_s[row], 0.0)
        jobs.run_seconds[row] += elapsed
        jobs.attained[row] += elapsed * jobs.using[row]
        jobs.received[row, jobs.pool[row]] += elapsed
        jobs.steps_done[row] += elapsed * jobs.rate[row]
        jobs.using[row] = 0
        jobs.rate[row] = 0.0
    jobs.as_of_s[row] = at_s


def _end_part(state: Ledger, job: int, node: int | None, at_s: float, verdict: Verdict, steps: float) -> None:
    """Processes of one node (None: of all) are gone; with the last of them the incarnation is over."""
    life = state.lives[job]
    if node is not None and node not in life.parts:
        return
    if verdict is Verdict.FAILED and _asked_to_stop(state, job):
        verdict = Verdict.LOST
    left = () if node is None else tuple(n for n in life.parts if n != node)
    gone = state.gpus_of(job)
    if left:
        gone = gone[state.cluster.gpu_node[gone] == node]
    state.gpu_job[gone] = NOBODY
    if life.reserved:
        state.host_gib[list(life.parts) if node is None else [node]] += state.gib_per_node(job, life)
    if job in state.barred:
        state._usable = None
    worst = max(life.verdict, verdict)
    fewest = min(life.steps, steps)
    if left:
        state.lives[job] = replace(life, parts=left, verdict=worst, steps=fewest)
        flight = state.in_flight.get(job)
        if flight is not None and node in flight.waiting:
            state.in_flight[job] = replace(flight, waiting=tuple(n for n in flight.waiting if n != node))
        _settle(state, job, at_s)
        # A gang is whole or not at all: what is left of it must go, unless it is leaving by itself.
        leaving = verdict is Verdict.FINISHED or (verdict is Verdict.SUSPENDED and _asked_to_stop(state, job))
        if not leaving:
            _doom(state, job)
    else:
        _end_life(state, job, at_s, worst, fewest)


def _asked_to_stop(state: Ledger, job: int) -> bool:
    flight = state.in_flight.get(job)
    return job in state.doomed or (flight is not None and isinstance(flight.command, Suspend | Kill))


def _doom(state: Ledger, job: int) -> None:
    state.doomed.add(job)
    state.unsettled.add(job)
    row = state.row[job]
    state.want(job, row, -1, None)
    if state.jobs.phase[row] != Phase.UNREACHABLE:
        state.set_phase(row, Phase.STOPPING, state.now_s)
    _refresh_schedulable(state, job, row)


def _end_life(state: Ledger, job: int, at_s: float, verdict: Verdict, steps: float) -> None:
    row, jobs = state.row[job], state.jobs
    _settle(state, job, at_s)
    del state.lives[job]
    flight = state.in_flight.pop(job, None)
    suspending = flight is not None and isinstance(flight.command, Suspend)
    state.doomed.discard(job)
    jobs.lease_s[row] = FOREVER
    if verdict is Verdict.FINISHED:
        state.history[state.finished % len(state.history)] = jobs.attained[row]
        state.finished += 1
        _finish(state, job, row, Phase.FINISHED, at_s)
        return
    if job in state.cancelling:
        _finish(state, job, row, Phase.CANCELLED, at_s)
        return
    if verdict is Verdict.FAILED:
        jobs.failures[row] += 1
        if jobs.failures[row] > state.specs[job].retries:
            _finish(state, job, row, Phase.FAILED, at_s)
            return
    if steps < FOREVER:
        jobs.steps_saved[row] = max(jobs.steps_saved[row], steps)
    jobs.steps_done[row] = jobs.steps_saved[row]
    if verdict is Verdict.SUSPENDED or suspending:
        jobs.suspensions[row] += 1
    if verdict is not Verdict.SUSPENDED or not suspending:
        state.dirty = True
    state.set_phase(row, Phase.CHECKPOINTED if jobs.steps_saved[row] > 0 else Phase.QUEUED, at_s)
    want = state.desired.get(job)
    if want is not None and not state.node_up[state.cluster.gpu_node[want]].all():
        state.want(job, row, -1, None)
    _refresh_schedulable(state, job, row)
    if state.settled(job):
        state.unsettled.discard(job)
    else:
        state.unsettled.add(job)


def _finish(state: Ledger, job: int, row: int, phase: Phase, at_s: float) -> None:
    state.set_phase(row, phase, at_s)
    if job in state.barred:
        state.barred.discard(job)
        state._usable = None
    state.forget(job, row)
    state.dirty = True


def _saved(state: Ledger, job: int) -> float:
    return float(state.jobs.steps_saved[state.row[job]])


def _refresh_schedulable(state: Ledger, job: int, row: int) -> None:
    """A job may be scheduled if it has options, nobody holds it, and no incarnation of it is beyond our command."""
    possible = state.options.by_kind[state.jobs.kind[row], 0] >= 0
    free = job not in state.held and job not in state.doomed and state.jobs.phase[row] != Phase.UNREACHABLE
    state.set_schedulable(job, row, bool(possible and free))


# Nodes -----------------------------------------------------------------------------------------------------------


def _node_reported(state: Ledger, settings: Settings, event: NodeReported) -> None:
    node = event.node
    if event.boot < state.node_boot[node]:
        return
    if event.boot > state.node_boot[node]:
        state.node_boot[node] = event.boot
        _bury(state, node, event.at_s)
    state.node_heard_s[node] = state.now_s
    if not state.node_up[node]:
        state.set_node(node, True)
        for job, life in list(state.lives.items()):
            if node in life.parts:
                _regain(state, job, life)
    for part in event.inventory:
        _see_part(state, settings, event, part)


def _see_part(state: Ledger, settings: Settings, event: NodeReported, part: Part) -> None:
    life = state.lives.get(part.job)
    if life is None or life.incarnation != part.incarnation or event.node not in life.parts:
        if part.state is not PartState.ENDED:
            state.orphans.add((part.job, part.incarnation, event.node))
    elif part.state is PartState.ENDED:
        _end_part(state, part.job, event.node, event.at_s, _VERDICT[part.outcome], part.steps)
    elif part.state is PartState.RUNNING:
        _started(state, settings, Started(part.job, part.incarnation, part.sequence, event.at_s, event.node))
    else:
        answer = Suspended(part.job, part.incarnation, part.sequence, event.at_s, SuspendKind.PARK, part.steps, event.node)
        _suspended(state, settings, answer)


def _node_lost(state: Ledger, settings: Settings, event: NodeLost) -> None:
    state.node_boot[event.node] += 1
    _bury(state, event.node, event.at_s)
    _take_down(state, event.node)


def _bury(state: Ledger, node: int, at_s: float) -> None:
    """Everything this node had is dead."""
    for job, life in list(state.lives.items()):
        if node in life.parts:
            _end_part(state, job, node, at_s, Verdict.LOST, _saved(state, job))


def _lose_sight(state: Ledger, node: int) -> None:
    """A node went silent. What runs there keeps its lease and nobody may take its place until that ends."""
    _take_down(state, node)
    for job, life in list(state.lives.items()):
        if node in life.parts:
            row = state.row[job]
            state.set_phase(row, Phase.UNREACHABLE, state.now_s)
            _refresh_schedulable(state, job, row)


def _take_down(state: Ledger, node: int) -> None:
    state.set_node(node, False)
    first, end = state.cluster.node_first[node], state.cluster.node_first[node + 1]
    for job in set(state.gpu_wanted[first:end].tolist()) - {NOBODY}:
        if job not in state.lives:
            state.want(job, state.row[job], -1, None)
            state.unsettled.discard(job)


def _regain(state: Ledger, job: int, life: Life) -> None:
    """A node is back and its boot is the same: the job is where it was, unless another of its nodes is still silent."""
    row = state.row[job]
    if state.jobs.phase[row] != Phase.UNREACHABLE or not state.node_up[list(life.parts)].all():
        return
    flight = state.in_flight.get(job)
    phase = Phase.PARKED if life.parked else Phase.RUNNING
    if job in state.doomed:
        phase = Phase.STOPPING
    elif flight is not None:
        phase = Phase.SUSPENDING if isinstance(flight.command, Suspend) else Phase.STARTING
    state.set_phase(row, phase, state.now_s)
    if phase is Phase.RUNNING and not state.jobs.using[row]:
        _begin(state, job, state.now_s)
    _refresh_schedulable(state, job, row)
    if not state.settled(job):
        state.unsettled.add(job)
    state.dirty = True


# Decisions -------------------------------------------------------------------------------------------------------


def _allocated(state: Ledger, settings: Settings, event: Allocated) -> None:
    if state.asked is None or event.ticket != state.decision:
        return
    _accrue(state)
    state.answer = Answer(event.allocation, state.asked, state.asked_version)
    state.memory = event.allocation.memory
    state.asked = None
    state.fresh = True


def _policy_failed(state: Ledger, settings: Settings, event: PolicyFailed | TimedOut) -> None:
    if state.asked is None or event.ticket != state.decision:
        return
    state.asked = None
    state.dirty = True
    state.not_before_s = state.now_s + settings.policy_retry_seconds


def _accrue(state: Ledger) -> None:
    """Credit every job with the time its share promised since the last time this was done."""
    elapsed, state.accrued_s = state.now_s - state.accrued_s, state.now_s
    if state.answer is None or elapsed <= 0:
        return
    share = state.answer.allocation.share_by_option(len(state.options))
    if share is None:
        return
    rows = state.rows
    present = np.minimum(elapsed, state.now_s - state.jobs.submitted_s[rows])
    for column in state.options.by_kind[state.jobs.kind[rows]].T:
        real = column >= 0
        pool = state.options.pool[column[real]]
        state.jobs.credit[rows[real], pool] += share[column[real]] * present[real]


def _decided(state: Ledger, settings: Settings, event: Decided) -> None:
    if event.plan is not None:
        _accrue(state)
        for change in event.plan.changes:
            row = state.row.get(change.job)
            if row is not None:
                state.want(change.job, row, change.option, change.gpus)
                state.unsettled.add(change.job)
        state.until_s = event.plan.until_s
        state.fresh = False
        state.plans += 1
        if settings.round_seconds:
            state.round = int(state.now_s // settings.round_seconds) + 1
    if event.ticket:
        state.decision = event.ticket
        state.asked = state.jobs.id[state.rows]
        state.asked_version = state.version
        state.asked_s = state.now_s
        state.dirty = False
    launches = [c for c in event.commands if isinstance(c, Launch) and c.job not in state.lives and c.job in state.row]
    if launches:
        _launched(state, launches)
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


def _launched(state: Ledger, launches: list[Launch]) -> None:
    """New incarnations: their GPUs are theirs from now on. Written column by column, since there may be thousands."""
    jobs, now_s = state.jobs, state.now_s
    rows = [state.row[launch.job] for launch in launches]
    for row, before in zip(rows, jobs.phase[rows].tolist(), strict=True):
        if (before, int(Phase.STARTING)) not in LEGAL_CODES:
            raise refuse(int(jobs.id[row]), before, Phase.STARTING)
    jobs.phase[rows] = Phase.STARTING
    jobs.phase_s[rows] = now_s
    jobs.incarnation[rows] = [launch.incarnation for launch in launches]
    jobs.pool[rows] = state.options.pool[[launch.option for launch in launches]]
    jobs.lease_s[rows] = [launch.lease_s for launch in launches]
    for launch in launches:
        state.gpu_job[launch.gpus] = launch.job
        state.lives[launch.job] = Life(launch.incarnation, launch.option, launch.gpus, launch.nodes)


def _sent(state: Ledger, command: JobCommand) -> None:
    """A command left: book that it is in flight, and what it takes hold of before any answer."""
    job = command.job
    row, life = state.row.get(job), state.lives.get(job)
    if row is None or life is None or life.incarnation != command.incarnation:
        return
    jobs = state.jobs
    if jobs.sequence[row] < command.sequence:
        jobs.sequence[row] = command.sequence
    if isinstance(command, Resume):
        if jobs.phase[row] == Phase.PARKED:
            state.gpu_job[life.gpus] = job
            state.set_phase(row, Phase.STARTING, state.now_s)
    elif isinstance(command, Suspend):
        if command.kind is SuspendKind.PARK and not life.reserved:
            state.host_gib[list(life.parts)] -= state.gib_per_node(job, life)
            state.lives[job] = replace(life, reserved=True)
        if not state.out_of_reach(job):
            state.set_phase(row, Phase.SUSPENDING, state.now_s)
    state.in_flight[job] = InFlight(command, command.nodes, state.now_s)


def _woke(state: Ledger, settings: Settings, event: Woke) -> None:
    state.wake_s = FOREVER


_HANDLERS: dict[type, Callable[[Ledger, Settings, Any], None]] = {
    Submitted: _submitted,
    Started: _started,
    Suspended: _suspended,
    Exited: _exited,
    Progressed: _progressed,
    CancelAsked: _cancel_asked,
    HoldAsked: _hold_asked,
    NodeReported: _node_reported,
    NodeLost: _node_lost,
    Allocated: _allocated,
    PolicyFailed: _policy_failed,
    TimedOut: _policy_failed,
    Decided: _decided,
    Woke: _woke,
}
