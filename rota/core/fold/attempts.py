"""How an attempt begins, stops, is parked and ends. A gang is whole or not at all."""

from dataclasses import replace

import numpy as np

from rota.core.fold import colocation
from rota.core.fold.dependencies import settle_waiting
from rota.core.fold.measurements import abort_trials
from rota.core.fold.run_limit import is_over_limit
from rota.core.fold.setbacks import clear_setbacks, set_back
from rota.core.fold.tenancy import began
from rota.core.learn.cordon import cordon
from rota.core.learn.failing_nodes import note_exit, review
from rota.core.learn.job_lengths import finished
from rota.core.settings import Settings
from rota.core.state.job_table import NO_JOB
from rota.core.state.phases import HELD, TO_CANCEL
from rota.core.state.records import Attempt, AttemptEnd, same_gpus
from rota.core.state.state import State
from rota.model.allocation import Ranking
from rota.model.commands import Kill, Launch, Resize, Resume, Suspend, SuspendKind
from rota.model.events import Attached, Exited, Outcome, Started, Suspended
from rota.model.job import Phase
from rota.model.units import FOREVER, MILLI, MIN_HOLD_SECONDS

ROUNDING = 1e-6
"""Rates below this count as zero, in steps per second."""

_STARTS = (Launch, Resume, Resize)
"""Commands that are answered when the job runs."""

FAR = 0.1
"""Relative difference beyond which a measured time replaces the believed one."""

VERDICT = {
    Outcome.FINISHED: AttemptEnd.FINISHED,
    Outcome.YIELDED: AttemptEnd.SUSPENDED,
    Outcome.FAILED: AttemptEnd.FAILED,
    Outcome.LOST: AttemptEnd.LOST,
}


def started(state: State, settings: Settings, event: Started) -> None:
    flight = state.jobs.in_flight.get(event.job)
    if flight is not None and isinstance(flight.command, Suspend):
        if flight.command.kind is SuspendKind.PARK and not state.jobs.to_kill(event.job) and _answered(state, event, (Suspend,)):
            _keep_running(state, event.job)
        return
    if flight is not None and not state.jobs.to_kill(event.job) and _answered(state, event, _STARTS):
        if event.can_park is not None and event.can_park != state.jobs.table.can_park.item(state.jobs.row[event.job]):
            state.jobs.table.own("can_park")[state.jobs.row[event.job]] = event.can_park
        if isinstance(flight.command, Resize):
            _resized(state, flight.command, event)
            return
        if event.from_step is not None:
            row = state.jobs.row[event.job]
            state.jobs.table.steps_done[row] = event.from_step
            if not state.jobs.attempts[event.job].parked:
                state.jobs.table.steps_saved[row] = event.from_step
        begin(state, event.job, event.at_s, settings.min_run_factor)


def _keep_running(state: State, job: int) -> None:
    """Let a job run on that could not be parked. It keeps its GPUs, and jobs that were to get them wait."""
    jobs, row, planned = state.jobs, state.jobs.row[job], state.nodes.planned
    attempt = jobs.attempts[job]
    jobs.table.own("can_park")[row] = False
    if attempt.host_memory_reserved:
        jobs.attempts[job] = attempt = state.memory.unreserve(attempt)
    jobs.transition(job, Phase.RUNNING, state.now_s)
    if jobs.table.keeps_work.item(row) and not jobs.table.saves.item(row):
        jobs.unblock(job, HELD)  # to stop it would lose the work that its user wants to keep
    for other in sorted(planned.holders(attempt.gpus) - {job}):
        mine = jobs.attempts.get(other)
        if mine is None or not same_gpus(mine.gpus, attempt.gpus):
            state.set_desired(other, jobs.row[other], -1, None)
            state.requeue(other)
    fits = all(planned.room(gpu) >= jobs.specs[job].milli_per_gpu for gpu in attempt.gpus.tolist())
    if job not in jobs.desired and job not in jobs.unschedulable_holders and fits:
        state.set_desired(job, row, state.beliefs.options.alone.item(attempt.option), attempt.gpus)
    state.requeue(job)
    state.cycle.invalidate()


def attached(state: State, settings: Settings, event: Attached) -> None:
    """Note whether a session saves. A spec that says that the job does not save has the last word."""
    attempt = state.jobs.attempts.get(event.job)
    if attempt is None or attempt.number != event.attempt:
        return
    row, spec = state.jobs.row[event.job], state.jobs.specs[event.job]
    if spec.saves is None and not event.saves and not spec.preemptible:
        state.jobs.table.own("saves")[row] = False
    elif event.saves and spec.saves is not False:
        _known_to_save(state, row)


def saves_after_all(state: State, row: int) -> None:
    """Note that a job saves, as a checkpoint of it was seen."""
    if not state.jobs.table.saves.item(row) and state.jobs.specs[state.jobs.table.id.item(row)].saves is None:
        _known_to_save(state, row)


def _known_to_save(state: State, row: int) -> None:
    """Let a job be suspended from now on, so that waiting jobs may get its GPUs."""
    if not state.jobs.table.saves.item(row):
        state.jobs.table.own("saves")[row] = True
        state.cycle.invalidate()


def _resized(state: State, resize: Resize, event: Started) -> None:
    """Let a job continue with another size, and free the GPUs that it gave up."""
    job, row = event.job, state.jobs.row[event.job]
    _learn_resize(state, row, event.at_s)
    _settle(state, job, event.at_s)
    if event.from_step is not None:
        state.jobs.table.steps_done[row] = event.from_step
    attempt = state.jobs.attempts[job]
    given_up = np.setdiff1d(attempt.gpus, resize.gpus)
    if len(given_up):
        state.vacate(job, given_up)
    state.jobs.attempts[job] = replace(attempt, option=resize.option, gpus=resize.gpus)
    begin(state, job, event.at_s)


def _learn_resize(state: State, row: int, at_s: float) -> None:
    """Believe the measured time of a resize if it is far from the believed one."""
    table = state.jobs.table
    if table.phase.item(row) != Phase.RESIZING:
        return
    seconds, believed = max(at_s - table.phase_s.item(row), 0.0), table.resize_seconds.item(row)
    if abs(seconds - believed) > FAR * max(seconds, believed):
        table.resize_seconds[row] = seconds
        table.own("resize_measured")[row] = True


def begin(state: State, job: int, at_s: float, min_run_factor: float = 0.0) -> None:
    """Begin to run a job whose processes have all started, at the believed rate of its option. `min_run_factor`: as in the
    settings."""
    jobs, options, cycle = state.jobs, state.beliefs.options, state.cycle
    row, attempt, table, sharing = jobs.row[job], jobs.attempts[job], jobs.table, state.sharing
    if attempt.parked:
        _unpark(state, job, attempt)
    phase, option = table.phase.item(row), attempt.option
    if phase == Phase.UNREACHABLE:  # it counts as running once its node is reachable again
        state.requeue(job)
        return
    if at_s > state.now_s:
        at_s = state.now_s
    if phase == Phase.STARTING:
        seconds = at_s - table.phase_s.item(row)
        if attempt.parked:
            table.own("resume_seconds")[row] = max(seconds, 0.0)
        elif seconds > table.move_seconds.item(row):  # a move costs at least what the start took
            table.move_seconds[row] = seconds
            table.own("move_measured")[row] = True
        if min_run_factor:
            _set_min_run(state, row, attempt, at_s, min_run_factor)
    jobs.transition(job, Phase.RUNNING, at_s)
    table.as_of_s[row] = table.progress_known_s[row] = table.rate_window_s[row] = at_s
    table.rate_window_steps[row] = table.steps_done.item(row)
    table.rate[row] = options.rate.item(option) / state.slowdown(job, attempt.gpus)
    table.gpus_in_use[row] = options.milligpus.item(option) / MILLI
    table.share_column[row] = options.share_column.item(option)
    if sharing:
        if table.colocated_with.item(row) != NO_JOB:
            table.own("colocated_with")[row] = NO_JOB
        table.own("colocated_since_s")[row] = at_s
        colocation.began(state, job, at_s)
    if table.slice_start_s.item(row) == FOREVER:
        table.slice_start_s[row] = at_s
    first = table.first_run_s.item(row)
    if first != first:  # not a number: it never ran
        table.first_run_s[row] = at_s
        if state.tenants.tenants is not None:
            began(state, row, at_s)
    state.requeue(job)
    if cycle.protects_unstarted:  # when it has made a step, the job that it overtakes may have its turn
        seconds = max(1.0 / max(table.rate.item(row), ROUNDING), MIN_HOLD_SECONDS, table.stays_until_s.item(row) - state.now_s)
        cycle.until_s = min(cycle.until_s, state.now_s + seconds)
    if cycle.has_waiting_jobs and cycle.answer is not None:
        ranking, ids = cycle.answer.allocation, cycle.answer.ids
        if isinstance(ranking, Ranking) and ranking.run_seconds is not None:  # a rank changes after this run time
            position = int(ids.searchsorted(job))
            if position < len(ids) and ids[position] == job:
                holds = max(float(ranking.run_seconds[position]), MIN_HOLD_SECONDS)
                cycle.until_s = min(cycle.until_s, state.now_s + holds)


def _set_min_run(state: State, row: int, attempt: Attempt, at_s: float, factor: float) -> None:
    """The minimum run time of an attempt that begins now, from what its start took and what its last stop cost. What was believed
    of a move before either was measured is the minimum, unless the job was parked."""
    table = state.jobs.table
    seconds = max(at_s - table.phase_s.item(row), 0.0)
    if attempt.parked:
        seconds += table.park_seconds.item(row)
    else:
        seconds = max(seconds + table.stop_seconds.item(row), table.move_seconds.item(row))
    table.own("stays_until_s")[row] = at_s + factor * seconds


def _learn_stop(state: State, row: int, at_s: float, saved_some: bool) -> None:
    """Note what it cost to stop a job: the time that it took, and all work since the start if nothing was saved."""
    table = state.jobs.table
    since_s = table.phase_s.item(row) if saved_some else min(table.rate_window_s.item(row), table.phase_s.item(row))
    table.own("stop_seconds")[row] = max(at_s - since_s, 0.0)


def suspended(state: State, settings: Settings, event: Suspended) -> None:
    attempt = state.jobs.attempts.get(event.job)
    if attempt is None or attempt.number != event.attempt:
        return
    if event.kind is SuspendKind.CHECKPOINT:
        if not event.saved and not state.jobs.specs[event.job].preemptible:
            state.jobs.table.own("saves")[state.jobs.row[event.job]] = False
        end_on_node(state, event.job, event.node, event.at_s, AttemptEnd.SUSPENDED, event.steps_done, setback=event.setback)
        if state.nodes.failing:
            _leave_failing(state, settings, event.job)
        return
    if not state.jobs.to_kill(event.job) and _answered(state, event, (Suspend,)):
        _settle(state, event.job, event.at_s)
        row = state.jobs.row[event.job]
        state.jobs.table.steps_done[row] = event.steps_done
        state.jobs.table.suspensions[row] += 1
        if state.jobs.table.phase.item(row) == Phase.SUSPENDING:
            _learn_price(state, row, attempt, event.at_s)
        _park(
            state,
            event.job,
            state.memory.note_parked(attempt, event.host_gib, event.keeps_host_memory) if event.host_gib else attempt,
        )
        state.jobs.transition(event.job, Phase.PARKED, min(event.at_s, state.now_s))
        state.requeue(event.job)


def _learn_price(state: State, row: int, attempt: Attempt, at_s: float) -> None:
    """Believe that parking will take the time that it took. The first time of an attempt takes longer, since host memory has to
    be allocated, so it is only an upper bound."""
    table = state.jobs.table
    seconds = max(at_s - table.phase_s.item(row), 0.0)
    if attempt.parked_before or seconds < table.park_seconds.item(row):
        table.own("park_seconds")[row] = seconds


def _park(state: State, job: int, attempt: Attempt) -> None:
    """Mark a job as parked and free its GPUs. Its host memory was reserved when the command was sent."""
    state.jobs.attempts[job] = replace(attempt, parked=True, parked_before=True)
    state.vacate(job, attempt.gpus)


def _unpark(state: State, job: int, attempt: Attempt) -> None:
    state.jobs.attempts[job] = replace(state.memory.unreserve(attempt), parked=False)


def exited(state: State, settings: Settings, event: Exited) -> None:
    attempt = state.jobs.attempts.get(event.job)
    if attempt is not None and attempt.number == event.attempt:
        if settings.cordon_failing_starts < FOREVER:
            note_exit(state, settings, event)
        end_on_node(state, event.job, event.node, event.at_s, VERDICT[event.outcome], event.steps_saved, setback=event.setback)
        if state.nodes.failed_starts or state.nodes.failing:
            _leave_failing(state, settings, event.job)


def _leave_failing(state: State, settings: Settings, job: int) -> None:
    """Cordon the free GPUs of failing nodes, as an attempt has ended there, and let its job go to other nodes."""
    review(state, settings)
    cordon(state, settings)
    want, nodes = state.jobs.desired.get(job), state.nodes
    if want is not None and job not in state.jobs.attempts and not nodes.failing.keys().isdisjoint(nodes.nodes_of(want)):
        state.set_desired(job, state.jobs.row[job], -1, None)
        state.requeue(job)
        state.cycle.invalidate()


def _answered(state: State, event: Started | Suspended, expected: tuple[type, ...]) -> bool:
    """Take a node off the list of nodes that owe an answer. Return whether all have answered."""
    flight = state.jobs.in_flight.get(event.job)
    if flight is None or not isinstance(flight.command, expected):
        return False
    if flight.command.attempt != event.attempt or flight.command.sequence != event.sequence:
        return False
    waiting = () if event.node is None else tuple(n for n in flight.waiting if n != event.node)
    if waiting:
        state.jobs.in_flight[event.job] = replace(flight, waiting=waiting)
        return False
    del state.jobs.in_flight[event.job]
    return True


def _settle(state: State, job: int, at_s: float) -> None:
    """Book the service that a job received up to now, and stop counting."""
    row, table = state.jobs.row[job], state.jobs.table
    if at_s > state.now_s:
        at_s = state.now_s
    if table.gpus_in_use.item(row):
        colocation.accrue_service(table, row, at_s)
        table.gpus_in_use[row] = 0.0
        table.rate[row] = 0.0
        if state.sharing:
            colocation.stopped(state, job, at_s)
    table.as_of_s[row] = at_s


def end_on_node(
    state: State, job: int, node: int | None, at_s: float, verdict: AttemptEnd, steps: float, *, setback: str | None = None
) -> None:
    """Note that the processes of an attempt on one node are gone, or on all nodes if None. With the last of them the attempt
    ends."""
    attempt = state.jobs.attempts[job]
    if node is not None and node not in attempt.live_nodes:
        return
    if verdict is AttemptEnd.FAILED and _asked_to_stop(state, job):
        verdict = AttemptEnd.LOST
    left = () if node is None else tuple(n for n in attempt.live_nodes if n != node)
    gone = attempt.gpus
    if left:
        gone = gone[state.nodes.cluster.gpu_node[gone] == node]
    state.vacate(job, gone)
    if attempt.host_gib or attempt.host_memory_reserved:
        state.memory.free(attempt, attempt.live_nodes if node is None else (node,))
    worst = max(attempt.end, verdict)
    fewest = min(attempt.steps, steps)
    setback = setback or attempt.setback
    if left:
        state.jobs.attempts[job] = replace(attempt, live_nodes=left, end=worst, steps=fewest, setback=setback)
        flight = state.jobs.in_flight.get(job)
        if flight is not None and node in flight.waiting:
            state.jobs.in_flight[job] = replace(flight, waiting=tuple(n for n in flight.waiting if n != node))
        _settle(state, job, at_s)
        # A gang runs whole or not at all: the rest of it is killed, unless it is ending by itself.
        flight = state.jobs.in_flight.get(job)
        saving = flight is not None and isinstance(flight.command, Suspend) and flight.command.kind is SuspendKind.CHECKPOINT
        if not (verdict is AttemptEnd.FINISHED or (verdict is AttemptEnd.SUSPENDED and saving)):
            mark_for_kill(state, job)
    else:
        _end_attempt(state, job, at_s, worst, fewest, setback)


def _asked_to_stop(state: State, job: int) -> bool:
    flight = state.jobs.in_flight.get(job)
    return state.jobs.to_kill(job) or (flight is not None and isinstance(flight.command, Suspend | Kill))


def mark_for_kill(state: State, job: int) -> None:
    state.set_desired(job, state.jobs.row[job], -1, None)
    state.jobs.transition(job, Phase.STOPPING, state.now_s)
    state.requeue(job)


def _end_attempt(state: State, job: int, at_s: float, verdict: AttemptEnd, steps: float, setback: str | None) -> None:
    jobs = state.jobs
    row, table = jobs.row[job], jobs.table
    at_s = min(at_s, state.now_s)
    _settle(state, job, at_s)
    flight = jobs.in_flight.get(job)
    suspending = flight is not None and isinstance(flight.command, Suspend)
    if verdict is AttemptEnd.FINISHED:
        state.beliefs.finish(table.attained_gpu_seconds.item(row))
        finished(state, job, row)
        finish(state, job, row, Phase.FINISHED, at_s)
        return
    if jobs.is_blocked(job, TO_CANCEL):
        finish(state, job, row, Phase.CANCELLED, at_s)
        return
    if "max_run_seconds" in table.in_use and is_over_limit(state, job, row):
        finish(state, job, row, Phase.FAILED, at_s)
        return
    if verdict is AttemptEnd.FAILED:
        table.failures[row] += 1
        if table.failures[row] > jobs.specs[job].retries:
            finish(state, job, row, Phase.FAILED, at_s)
            return
    if setback and set_back(state, job, setback):
        finish(state, job, row, Phase.FAILED, at_s)
        return
    saved = table.steps_saved.item(row)
    saved_some = saved < steps < FOREVER
    if saved_some:
        table.steps_saved[row] = saved = steps
        if "saves" in table.in_use:
            saves_after_all(state, row)
    table.steps_done[row] = saved
    if setback:  # other jobs may have its GPUs while it pauses
        state.set_desired(job, row, -1, None)
        state.cycle.invalidate()
    elif verdict is AttemptEnd.SUSPENDED:
        clear_setbacks(state, job)
    if suspending and "stays_until_s" in table.in_use:
        _learn_stop(state, row, at_s, saved_some)
    if verdict is AttemptEnd.SUSPENDED or suspending:
        table.suspensions[row] += 1
    want, nodes = jobs.desired.get(job), state.nodes
    # A job that had to leave its GPUs and got no others may now run elsewhere.
    had_to_leave = want is None and bool(nodes.draining or nodes.cordoned or nodes.drained)
    if verdict is not AttemptEnd.SUSPENDED or not suspending or had_to_leave:
        state.cycle.invalidate()
    jobs.transition(job, Phase.CHECKPOINTED if saved > 0 else Phase.QUEUED, at_s)
    is_drained = want is not None and bool(nodes.drained) and bool(np.isin(want, nodes.drained).any())
    if want is not None and (is_drained or not nodes.node_up[nodes.cluster.gpu_node[want]].all()):
        state.set_desired(job, row, -1, None)
        state.cycle.invalidate()
    state.requeue(job)


def finish(state: State, job: int, row: int, phase: Phase, at_s: float) -> None:
    state.forget(job, row)
    state.jobs.transition(job, phase, at_s)
    if state.beliefs.trials:
        abort_trials(state)
    state.cycle.job_ended()
    if job in state.jobs.awaited_by:
        for waiting in settle_waiting(state, job, phase):
            finish(state, waiting, state.jobs.row[waiting], Phase.CANCELLED, at_s)


def saved(state: State, job: int) -> float:
    return float(state.jobs.table.steps_saved[state.jobs.row[job]])
