"""Reconcile: the fewest safe commands from what is observed to what is desired. It only diffs; it decides nothing."""

from dataclasses import dataclass, field, replace

import numpy as np

from rota.core.settings import Settings
from rota.core.state.job_table import NO_JOB
from rota.core.state.parkable import may_park
from rota.core.state.phases import ASKED_TO_STOP, LEAVES_FOR_STORAGE, OUT_OF_TIME
from rota.core.state.records import Attempt, InFlight, same_gpus
from rota.core.state.state import State
from rota.model.commands import JobCommand, Kill, Launch, Renew, Resize, Resume, Suspend, SuspendKind
from rota.model.job import Phase
from rota.model.occupancy import FREE
from rota.model.plan import PlacementChange, Plan
from rota.model.units import FOREVER, Bools, Floats, Ints


@dataclass(slots=True)
class PassGrants:
    """GPUs granted earlier in this pass."""

    jobs: set[int] = field(default_factory=set)
    """Jobs that start."""
    milli: dict[int, int] = field(default_factory=dict)
    """Thousandths of each GPU."""
    tasks: dict[int, int] = field(default_factory=dict)
    """Tasks that run, of each array with a limit of which a task is to start: those that ran before, and those that start."""


def reconcile(state: State, settings: Settings, plan: Plan | None) -> list[JobCommand]:
    """At most one command per job, and a launch only on GPUs that are observed free, or held by its partner alone."""
    todo = state.jobs.to_reconcile
    changes = {}
    if plan is not None and plan.changes:
        changes = {change.job: change for change in plan.changes}
        todo = todo | changes.keys()
    if not todo and (settings.retry_seconds == FOREVER or not state.jobs.in_flight):
        return []
    jobs, nodes = state.jobs, state.nodes
    taken = nodes.observed.holder != FREE
    if np.count_nonzero(nodes.node_up) < len(nodes.node_up):
        taken |= ~nodes.node_up[nodes.cluster.gpu_node]
    given = PassGrants()
    host_gib = nodes.host_gib.copy()  # what is left of it after the parking of this pass
    commands: list[JobCommand] = []
    starts: list[PlacementChange] = []
    for job in sorted(todo):
        if job in jobs.in_flight and not jobs.to_kill(job):
            continue  # a command is on its way to it
        wish = changes.get(job)
        if wish is None:
            table, row = jobs.table, jobs.row[job]
            wish = PlacementChange(job, table.option.item(row), jobs.desired.get(job), table.partner.item(row))
        attempt = jobs.attempts.get(job)
        if attempt is not None:
            command = _next_command(state, settings, wish, attempt, host_gib, taken, given)
            if command is not None:
                commands.append(command)
        elif wish.gpus is not None:
            starts.append(wish)
    if starts:
        commands.extend(_launches(state, settings, starts, taken, given))
    if settings.retry_seconds < FOREVER and state.jobs.in_flight:
        commands.extend(_repeats(state, settings, {command.job for command in commands}))
    return commands


def _launches(state: State, settings: Settings, starts: list[PlacementChange], taken: Bools, given: PassGrants) -> list[Launch]:
    """Return launches of all jobs whose GPUs are free for them."""
    table, boots = state.jobs.table, state.nodes.node_boot
    lease_s = state.now_s + settings.lease_seconds
    batch_size = state.beliefs.options.batch_size
    found = []
    for wish in starts:
        job, option, want = wish.job, wish.option, wish.gpus
        if want is not None and _has_room(state, job, want, wish.partner, taken, given):
            row, nodes = state.jobs.row[job], state.nodes.nodes_of(want)
            attempt, sequence = table.attempt.item(row) + 1, table.sequence.item(row) + 1
            at_boots = (boots.item(nodes[0]),) if len(nodes) == 1 else tuple([boots.item(node) for node in nodes])
            saved = table.steps_saved.item(row)
            partner, batch = None if wish.partner == NO_JOB else wish.partner, batch_size.item(option) or None
            found.append(Launch(job, attempt, sequence, option, want, nodes, at_boots, saved, lease_s, partner, batch))
    return found


def _has_room(state: State, job: int, want: Ints, partner: int, taken: Bools, given: PassGrants) -> bool:
    """Return whether a job may have these GPUs: they are free, only its partner has them, or they have room for the requested
    fraction; and fewer tasks of its array run than its limit. `given`: GPUs that other jobs get in this pass."""
    gpu, limit = want.item(0), state.jobs.specs[job].array
    if limit is not None:
        if limit.array not in given.tasks:
            given.tasks[limit.array] = len(running_tasks(state, limit.array))
        if given.tasks[limit.array] >= limit.at_once:
            return False  # tasks that the plan suspends are still saving
    if not state.memory.fits(job, want, partner, partner_comes=partner in given.jobs):
        return False  # parked jobs are being written to storage
    if not (taken.item(gpu) if len(want) == 1 else taken[want].any()) or _only_partner(state, want, partner):
        given.jobs.add(job)
        if limit is not None:
            given.tasks[limit.array] += 1
        return True
    if state.jobs.specs[job].gpus >= 1:
        return False
    part = state.jobs.specs[job].milli_per_gpu
    if not state.nodes.node_up[state.nodes.cluster.gpu_node[gpu]]:
        return False
    if state.nodes.observed.room(gpu) - given.milli.get(gpu, 0) < part:
        return False
    # What a job leaves of a GPU that it shares is for its partner, also before that has come.
    if any(state.jobs.specs[other].gpus >= 1 for other in state.nodes.observed.holders(want)):
        return False
    given.milli[gpu] = given.milli.get(gpu, 0) + part
    if limit is not None:
        given.tasks[limit.array] += 1
    return True


def running_tasks(state: State, array: int) -> list[int]:
    """Return the tasks of an array with a limit that run, those that start, resume or are still saving among them."""
    jobs, found = state.jobs, []
    for job, attempt in jobs.attempts.items():
        limit, flight = jobs.specs[job].array, jobs.in_flight.get(job)
        resumes = flight is not None and isinstance(flight.command, Resume)
        if limit is not None and limit.array == array and (resumes or not attempt.parked):
            found.append(job)
    return sorted(found)


def _only_partner(state: State, want: Ints, partner: int) -> bool:
    """Return whether these GPUs are up and only the partner holds them, exactly these and not some of an earlier placement."""
    attempt = state.jobs.attempts.get(partner)
    if attempt is None or not same_gpus(attempt.gpus, want) or not state.nodes.node_up[state.nodes.cluster.gpu_node[want]].all():
        return False
    return state.nodes.observed.holders(want) <= {partner}


def _next_command(
    state: State,
    settings: Settings,
    wish: PlacementChange,
    attempt: Attempt,
    host_gib: Floats,
    taken: Bools,
    given: PassGrants,
) -> JobCommand | None:
    """Return the next command for an attempt; None: there is nothing to do."""
    job, want = wish.job, wish.gpus
    flight = state.jobs.in_flight.get(job)
    sequence = state.jobs.table.sequence.item(state.jobs.row[job]) + 1
    if state.jobs.to_kill(job):
        if flight is not None and isinstance(flight.command, Kill):
            return None
        return Kill(job, attempt.number, sequence, attempt.live_nodes)
    if flight is not None or state.jobs.is_unreachable(job):
        return None
    if attempt.parked:
        return _for_parked(state, settings, wish, attempt, sequence, taken, given)
    if want is not None and state.runs_by(attempt, wish.option, want):
        return None
    if want is not None and _may_resize(state, wish, want, attempt):
        if taken[np.setdiff1d(want, attempt.gpus)].any():
            return None  # the jobs that have them are leaving
        batch_size = state.beliefs.options.batch_size.item(wish.option) or None
        return Resize(job, attempt.number, sequence, wish.option, want, attempt.live_nodes, batch_size)
    leaves = job in state.jobs.unschedulable_holders and state.jobs.is_blocked(job, LEAVES_FOR_STORAGE)
    parks = want is None and not leaves and may_park(state, job, attempt, host_gib)
    kind = SuspendKind.PARK if parks else SuspendKind.CHECKPOINT
    if kind is SuspendKind.CHECKPOINT and not _may_lose(state, job, attempt):
        return None
    return Suspend(job, attempt.number, sequence, attempt.live_nodes, kind)


def _may_lose(state: State, job: int, attempt: Attempt) -> bool:
    """Return whether a job may be suspended to storage: it saves its state, or it has to leave anyway, since its user gives up
    its work or its GPUs go out of service."""
    table, row = state.jobs.table, state.jobs.row[job]
    if table.saves.item(row):
        return True
    if state.jobs.is_blocked(job, ASKED_TO_STOP):  # what it holds counts as not usable
        if state.jobs.is_blocked(job, OUT_OF_TIME):
            return True
        drained = not state.nodes.draining.isdisjoint(attempt.live_nodes)
        return not table.keeps_work.item(row) or drained or bool(np.isin(attempt.gpus, state.out_of_service()).any())
    return not state.nodes.draining.isdisjoint(attempt.live_nodes) or not state.usable()[0][attempt.gpus].all()


def _may_resize(state: State, wish: PlacementChange, want: Ints, attempt: Attempt) -> bool:
    """Return whether a job can resize in place: it supports that, stays on its nodes, only grows or only shrinks, and has no
    partner. A job that shrinks never waits for another, so that jobs cannot wait for each other."""
    if not state.jobs.specs[wish.job].can_resize or wish.partner >= 0:
        return False
    if state.jobs.table.phase.item(state.jobs.row[wish.job]) != Phase.RUNNING:
        return False
    if state.nodes.nodes_of(want) != attempt.live_nodes or not state.nodes.node_up[list(attempt.live_nodes)].all():
        return False
    common = len(np.intersect1d(want, attempt.gpus))
    if common != min(len(want), len(attempt.gpus)):
        return False
    return bool((state.nodes.observed.holder[attempt.gpus] == wish.job).all())


def _for_parked(
    state: State,
    settings: Settings,
    wish: PlacementChange,
    attempt: Attempt,
    sequence: int,
    taken: Bools,
    given: PassGrants,
) -> JobCommand | None:
    """Return the next command for a parked attempt. It resumes where it is, or first writes its state to storage to go
    elsewhere."""
    job, want = wish.job, wish.gpus
    leaves = job in state.jobs.unschedulable_holders and state.jobs.is_blocked(job, LEAVES_FOR_STORAGE)
    drained = not state.nodes.draining.isdisjoint(attempt.live_nodes) or (
        state.nodes.drained and state.may_leave_drained(job, attempt)
    )
    if want is None and not (leaves or drained or state.memory.crowded(attempt.gpus)):
        return None
    if want is None and not _may_lose(state, job, attempt):
        return None
    if want is None or not state.runs_by(attempt, wish.option, want):
        return Suspend(job, attempt.number, sequence, attempt.live_nodes, SuspendKind.CHECKPOINT)
    if not _has_room(state, job, want, wish.partner, taken, given):
        return None
    partner = None if wish.partner == NO_JOB else wish.partner
    return Resume(job, attempt.number, sequence, attempt.live_nodes, state.now_s + settings.lease_seconds, partner)


def unknown_attempt_kills(state: State) -> list[Kill]:
    """Return kills of unknown attempts. The sequence only has to be higher than that of any command to the attempt."""
    return [
        Kill(
            job,
            attempt,
            int(state.jobs.table.sequence[state.jobs.row[job]]) + 1 if job in state.jobs.row else 1 << 40,
            (node,),
        )
        for job, attempt, node in sorted(state.jobs.unknown_attempts)
    ]


def _repeats(state: State, settings: Settings, spoken_to: set[int]) -> list[JobCommand]:
    """Repeat commands whose answer is late, to the nodes that owe it. An agent that has already carried out a command only
    answers."""
    return [
        _again(state, settings, flight)
        for job, flight in sorted(state.jobs.in_flight.items())
        if flight.sent_s + settings.retry_seconds <= state.now_s and job not in spoken_to and not state.jobs.is_unreachable(job)
    ]


def _again(state: State, settings: Settings, flight: InFlight) -> JobCommand:
    command = flight.command
    if isinstance(command, Launch):
        return command  # whole: its nodes must agree on the gang
    return replace(command, nodes=flight.waiting)


def renewals(state: State, settings: Settings) -> list[Renew]:
    """Renew the leases that are due, except for attempts that are unreachable or to be killed."""
    if not settings.leased or not state.jobs.attempts:
        return []
    table = state.jobs.table
    rows = (table.lease_s[: table.size] - settings.renewed_at_seconds <= state.now_s).nonzero()[0]
    found = []
    for row in rows.tolist():
        job = table.id.item(row)
        attempt = state.jobs.attempts.get(job)
        if attempt is not None and not state.jobs.to_kill(job) and not state.jobs.is_unreachable(job):
            found.append(Renew(job, attempt.number, attempt.live_nodes, state.now_s + settings.lease_seconds))
    return found
