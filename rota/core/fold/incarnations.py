"""How an incarnation begins, stops, is parked and ends. A gang is whole or not at all."""

from dataclasses import replace
from types import UnionType

from rota.core.fold import partners
from rota.core.settings import Settings
from rota.core.state.ledger import Ledger
from rota.core.state.records import Incarnation, Verdict
from rota.model.commands import Kill, Launch, Resume, Suspend, SuspendKind
from rota.model.events import Exited, Outcome, Started, Suspended
from rota.model.job import Phase
from rota.model.units import FOREVER, SHORTEST_HOLD_SECONDS

VERDICT = {
    Outcome.FINISHED: Verdict.FINISHED,
    Outcome.YIELDED: Verdict.SUSPENDED,
    Outcome.FAILED: Verdict.FAILED,
    Outcome.LOST: Verdict.LOST,
}


def started(state: Ledger, settings: Settings, event: Started) -> None:
    if event.job not in state.doomed and _answered(state, event, Launch | Resume):
        if event.from_step is not None:
            row = state.row[event.job]
            state.jobs.steps_done[row] = event.from_step
            if not state.incarnations[event.job].parked:
                state.jobs.steps_saved[row] = event.from_step
        begin(state, event.job, event.at_s)


def begin(state: Ledger, job: int, at_s: float) -> None:
    """All parts are up: the job runs, as far as we believe at its option's rate."""
    row, incarnation = state.row[job], state.incarnations[job]
    jobs = state.jobs
    if incarnation.parked:
        _unpark(state, job, incarnation)
    if state.out_of_reach(job):
        return  # it counts as running once its node is back in sight
    at_s = min(at_s, state.now_s)
    if jobs.phase.item(row) == Phase.STARTING:  # what starting took is the least that moving costs
        jobs.move_seconds[row] = max(jobs.move_seconds.item(row), at_s - jobs.phase_s.item(row))
    state.set_phase(row, Phase.RUNNING, at_s)
    jobs.as_of_s[row] = jobs.told_s[row] = jobs.paced_s[row] = at_s
    jobs.paced_steps[row] = jobs.steps_done[row]
    jobs.rate[row] = state.options.rate[incarnation.option] / state.slowdown(job, incarnation.gpus)
    jobs.using[row] = jobs.gpus[row]
    jobs.account[row] = state.options.account[incarnation.option]
    partners.began(state, job, at_s)
    if jobs.slice_s.item(row) == FOREVER:
        jobs.slice_s[row] = at_s
    first = jobs.first_run_s.item(row)
    if first != first:  # not a number: it never ran
        jobs.first_run_s[row] = at_s
    if state.settled(job):
        state.unsettled.discard(job)
    if state.answer is not None and state.somebody_waits:
        position = int(state.answer.ids.searchsorted(job))
        if position < len(state.answer.ids) and state.answer.ids[position] == job:
            holds = state.answer.allocation.start_holds_seconds(position)
            state.until_s = min(state.until_s, state.now_s + max(holds, SHORTEST_HOLD_SECONDS))


def suspended(state: Ledger, settings: Settings, event: Suspended) -> None:
    incarnation = state.incarnations.get(event.job)
    if incarnation is None or incarnation.number != event.incarnation:
        return
    if event.kind is SuspendKind.CHECKPOINT:
        end_part(state, event.job, event.node, event.at_s, Verdict.SUSPENDED, event.steps_done)
        return
    if event.job not in state.doomed and _answered(state, event, Suspend):
        _settle(state, event.job, event.at_s)
        row = state.row[event.job]
        state.jobs.steps_done[row] = event.steps_done
        state.jobs.suspensions[row] += 1
        _park(state, event.job, incarnation)
        if not state.out_of_reach(event.job):
            state.set_phase(row, Phase.PARKED, min(event.at_s, state.now_s))
        if state.settled(event.job):
            state.unsettled.discard(event.job)


def _park(state: Ledger, job: int, incarnation: Incarnation) -> None:
    """It sleeps: its GPUs are free, its memory was set aside when it was told."""
    state.incarnations[job] = replace(incarnation, parked=True)
    state.let_go(job, state.gpus_of(job))


def _unpark(state: Ledger, job: int, incarnation: Incarnation) -> None:
    state.host_gib[list(incarnation.parts)] += state.gib_per_node(job, incarnation)
    state.incarnations[job] = replace(incarnation, parked=False, reserved=False)


def exited(state: Ledger, settings: Settings, event: Exited) -> None:
    incarnation = state.incarnations.get(event.job)
    if incarnation is not None and incarnation.number == event.incarnation:
        end_part(state, event.job, event.node, event.at_s, VERDICT[event.outcome], event.steps_saved)


def _answered(state: Ledger, event: Started | Suspended, expected: type | UnionType) -> bool:
    """Strike a node off the list of those that owe an answer. True once all have answered."""
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
    at_s = min(at_s, state.now_s)
    if jobs.using.item(row):
        partners.book(jobs, row, at_s)
        jobs.using[row] = 0.0
        jobs.rate[row] = 0.0
        partners.stopped(state, job, at_s)
    jobs.as_of_s[row] = at_s


def end_part(state: Ledger, job: int, node: int | None, at_s: float, verdict: Verdict, steps: float) -> None:
    """Processes of one node (None: of all) are gone; with the last of them the incarnation is over."""
    incarnation = state.incarnations[job]
    if node is not None and node not in incarnation.parts:
        return
    if verdict is Verdict.FAILED and _asked_to_stop(state, job):
        verdict = Verdict.LOST
    left = () if node is None else tuple(n for n in incarnation.parts if n != node)
    gone = state.gpus_of(job)
    if left:
        gone = gone[state.cluster.gpu_node[gone] == node]
    state.let_go(job, gone)
    if incarnation.reserved:
        state.host_gib[list(incarnation.parts) if node is None else [node]] += state.gib_per_node(job, incarnation)
    worst = max(incarnation.verdict, verdict)
    fewest = min(incarnation.steps, steps)
    if left:
        state.incarnations[job] = replace(incarnation, parts=left, verdict=worst, steps=fewest)
        flight = state.in_flight.get(job)
        if flight is not None and node in flight.waiting:
            state.in_flight[job] = replace(flight, waiting=tuple(n for n in flight.waiting if n != node))
        _settle(state, job, at_s)
        # A gang is whole or not at all: what is left of it must go, unless it is leaving by itself.
        flight = state.in_flight.get(job)
        saving = flight is not None and isinstance(flight.command, Suspend) and flight.command.kind is SuspendKind.CHECKPOINT
        if not (verdict is Verdict.FINISHED or (verdict is Verdict.SUSPENDED and saving)):
            doom(state, job)
    else:
        _end_life(state, job, at_s, worst, fewest)


def _asked_to_stop(state: Ledger, job: int) -> bool:
    flight = state.in_flight.get(job)
    return job in state.doomed or (flight is not None and isinstance(flight.command, Suspend | Kill))


def doom(state: Ledger, job: int) -> None:
    state.doomed.add(job)
    state.unsettled.add(job)
    row = state.row[job]
    state.want(job, row, -1, None)
    if state.jobs.phase.item(row) != Phase.UNREACHABLE:
        state.set_phase(row, Phase.STOPPING, state.now_s)
    refresh_schedulable(state, job, row)


def _end_life(state: Ledger, job: int, at_s: float, verdict: Verdict, steps: float) -> None:
    row, jobs = state.row[job], state.jobs
    at_s = min(at_s, state.now_s)
    _settle(state, job, at_s)
    del state.incarnations[job]
    flight = state.in_flight.pop(job, None)
    suspending = flight is not None and isinstance(flight.command, Suspend)
    state.doomed.discard(job)
    jobs.lease_s[row] = FOREVER
    if verdict is Verdict.FINISHED:
        state.history[state.finished % len(state.history)] = jobs.attained[row]
        state.finished += 1
        finish(state, job, row, Phase.FINISHED, at_s)
        return
    if job in state.cancelling:
        finish(state, job, row, Phase.CANCELLED, at_s)
        return
    if verdict is Verdict.FAILED:
        jobs.failures[row] += 1
        if jobs.failures[row] > state.specs[job].retries:
            finish(state, job, row, Phase.FAILED, at_s)
            return
    if steps < FOREVER:
        jobs.steps_saved[row] = max(jobs.steps_saved[row], steps)
    jobs.steps_done[row] = jobs.steps_saved[row]
    if verdict is Verdict.SUSPENDED or suspending:
        jobs.suspensions[row] += 1
    if verdict is not Verdict.SUSPENDED or not suspending:
        state.touch()
    state.set_phase(row, Phase.CHECKPOINTED if jobs.steps_saved[row] > 0 else Phase.QUEUED, at_s)
    want = state.desired.get(job)
    if want is not None and not state.node_up[state.cluster.gpu_node[want]].all():
        state.want(job, row, -1, None)
        state.touch()
    refresh_schedulable(state, job, row)
    if state.settled(job):
        state.unsettled.discard(job)
    else:
        state.unsettled.add(job)


def finish(state: Ledger, job: int, row: int, phase: Phase, at_s: float) -> None:
    state.set_phase(row, phase, at_s)
    if job in state.barred:
        state.barred.discard(job)
        state._usable = None
    state.forget(job, row)
    state.touch()


def saved(state: Ledger, job: int) -> float:
    return float(state.jobs.steps_saved[state.row[job]])


def refresh_schedulable(state: Ledger, job: int, row: int) -> None:
    """A job may be scheduled if it has options, is not held, and no incarnation of it is out of reach."""
    possible = state.options.by_kind[state.jobs.kind[row], 0] >= 0
    free = job not in state.held and job not in state.doomed and state.jobs.phase.item(row) != Phase.UNREACHABLE
    state.set_schedulable(job, row, bool(possible and free))
