"""Node events: what the report or the loss of a node means for the attempts on it."""

import numpy as np

from rota.core.fold.absent_drains import note_absent, resume_drains
from rota.core.fold.attempts import VERDICT, begin, end_on_node, saved, started, suspended
from rota.core.learn.failing_nodes import acquit
from rota.core.settings import Settings
from rota.core.state.records import AttemptEnd, same_gpus
from rota.core.state.state import State
from rota.model.commands import SuspendKind
from rota.model.events import (
    GpusTaken,
    InventoryItem,
    NodeDrainChanged,
    NodeJoined,
    NodeLeft,
    NodeLost,
    NodeReported,
    NodesReported,
    ProcessState,
    Started,
    Suspended,
)
from rota.model.job import Phase
from rota.model.units import Ints


def node_reported(state: State, settings: Settings, event: NodeReported) -> None:
    node = event.node
    if node >= len(state.nodes.cluster.nodes) or node in state.nodes.gone:
        return  # it has to join first
    if event.boot < state.nodes.node_boot[node]:
        return
    if event.boot > state.nodes.node_boot[node]:
        state.nodes.node_boot[node] = event.boot
        drop_attempts_on(state, node, event.at_s)
        acquit(state, settings, node)
    state.nodes.node_heard_s[node] = state.now_s
    if not state.nodes.node_up[node]:
        state.set_node(node, True)
        for job in list(state.jobs.attempts):
            _mark_reachable(state, job)
    for part in event.inventory:
        _see_part(state, settings, event, part)


def nodes_reported(state: State, settings: Settings, event: NodesReported) -> None:
    for report in event.reports():
        node_reported(state, settings, report)


def _see_part(state: State, settings: Settings, event: NodeReported, part: InventoryItem) -> None:
    attempt = state.jobs.attempts.get(part.job)
    if attempt is None or attempt.number != part.attempt or event.node not in attempt.live_nodes:
        if part.state is not ProcessState.ENDED:
            state.jobs.unknown_attempts.add((part.job, part.attempt, event.node))
    elif part.state is ProcessState.ENDED:
        end_on_node(state, part.job, event.node, event.at_s, VERDICT[part.outcome], part.steps)
    elif part.state is ProcessState.RUNNING:
        started(state, settings, Started(part.job, part.attempt, part.sequence, event.at_s, event.node))
    else:
        answer = Suspended(part.job, part.attempt, part.sequence, event.at_s, SuspendKind.PARK, part.steps, event.node)
        suspended(state, settings, answer)


def node_lost(state: State, settings: Settings, event: NodeLost) -> None:
    if (
        event.node >= len(state.nodes.cluster.nodes)
        or event.node in state.nodes.gone
        or event.boot < state.nodes.node_boot[event.node]
    ):
        return
    state.nodes.node_boot[event.node] = event.boot + 1
    drop_attempts_on(state, event.node, event.at_s)
    _take_down(state, event.node)


def node_joined(state: State, settings: Settings, event: NodeJoined) -> None:
    here = [node.name for number, node in enumerate(state.nodes.cluster.nodes) if number not in state.nodes.gone]
    if event.node.name in here:
        return  # a repeat
    if event.node.name in state.nodes.removed:
        return
    state.add_node(event.node, settings.colocation)
    if event.node.name in state.nodes.absent_drains:
        resume_drains(state, event.node.name)
    for job in state.jobs.row:
        state.refresh_fit(job)


def node_drained(state: State, settings: Settings, event: NodeDrainChanged) -> None:
    if event.node >= len(state.nodes.cluster.nodes) or event.node in state.nodes.gone:
        return
    state.set_draining(event.node, event.draining)
    for job in [job for job, mine in state.jobs.attempts.items() if mine.parked and event.node in mine.live_nodes]:
        state.requeue(job)


def gpus_taken(state: State, settings: Settings, event: GpusTaken) -> None:
    if event.node >= len(state.nodes.cluster.nodes) or event.node in state.nodes.gone:
        return
    first, end = state.nodes.cluster.node_first[event.node : event.node + 2].tolist()
    mine = {gpu: by for gpu, by in zip(event.gpus, event.by, strict=True) if first <= gpu < end}
    state.set_taken({gpu: by for gpu, by in state.nodes.taken.items() if not first <= gpu < end} | mine)


def keep_off_taken(state: State) -> None:
    """Plan nothing on free GPUs that other programs use. A job that was to start there waits."""
    free = [gpu for gpu in state.nodes.taken if state.nodes.observed.free[gpu]]
    if free:
        _plan_nothing_on(state, np.array(free))


def node_left(state: State, settings: Settings, event: NodeLeft) -> None:
    if event.node >= len(state.nodes.cluster.nodes) or event.node in state.nodes.gone:
        return
    drop_attempts_on(state, event.node, event.at_s)
    _take_down(state, event.node)
    state.nodes.host_gib[event.node] = 0.0
    gpus_taken(state, settings, GpusTaken(event.node, (), (), event.at_s))
    state.set_draining(event.node, False)
    if state.nodes.drains:
        note_absent(state, event.node)
    state.nodes.gone.add(event.node)
    state.note_lasting_gpus()
    acquit(state, settings, event.node)
    for job in state.jobs.row:
        state.refresh_fit(job)


def drop_attempts_on(state: State, node: int, at_s: float) -> None:
    """End all attempts of a node, whose processes are gone."""
    for job, attempt in list(state.jobs.attempts.items()):
        if node in attempt.live_nodes:
            end_on_node(state, job, node, at_s, AttemptEnd.LOST, saved(state, job))
            _mark_reachable(state, job)  # its other nodes may all be reachable


def mark_unreachable(state: State, node: int) -> None:
    """Mark a silent node and its jobs as unreachable. No job gets their GPUs before their leases end."""
    _take_down(state, node)
    for job, attempt in list(state.jobs.attempts.items()):
        if node in attempt.live_nodes:
            row = state.jobs.row[job]
            if not same_gpus(state.jobs.desired.get(job, attempt.gpus), attempt.gpus):
                # It cannot move now, and must not keep other jobs from the GPUs that it was to get.
                state.set_desired(job, row, -1, None)
            state.jobs.transition(job, Phase.UNREACHABLE, state.now_s)
            state.requeue(job)


def _take_down(state: State, node: int) -> None:
    state.set_node(node, False)
    _plan_nothing_on(state, np.arange(state.nodes.cluster.node_first[node], state.nodes.cluster.node_first[node + 1]))


def _plan_nothing_on(state: State, gpus: Ints) -> None:
    """Withdraw the placement of jobs that were to start on these GPUs, or to move there."""
    for job in sorted(state.nodes.planned.holders(gpus)):
        attempt = state.jobs.attempts.get(job)
        if attempt is None or not same_gpus(attempt.gpus, state.jobs.desired[job]):
            state.set_desired(job, state.jobs.row[job], -1, None)
            if state.nodes.taken:
                state.cycle.invalidate()
            state.requeue(job)


def _mark_reachable(state: State, job: int) -> None:
    """Mark a job as reachable, unless another of its nodes is still silent."""
    attempt = state.jobs.attempts.get(job)
    if attempt is None or not state.jobs.is_unreachable(job) or not state.nodes.node_up[list(attempt.live_nodes)].all():
        return
    phase = state.jobs.reappear(job, state.now_s)
    if phase is Phase.RUNNING and not state.jobs.table.gpus_in_use[state.jobs.row[job]]:
        begin(state, job, state.now_s)
    state.requeue(job)
    state.cycle.invalidate()
