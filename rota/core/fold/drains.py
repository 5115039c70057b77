"""Drains: operators take GPUs out of service, at once or at a time, until they end the drain or its time is over.

No job is put on a drained GPU. Jobs that save their state leave. A job that is not known to save keeps its GPUs until it ends, or
until it saves: it is barred from scheduling meanwhile, so no plan counts on its GPUs. If it is parked there, it resumes there,
since its work would be lost elsewhere.

A reservation is a drain that some jobs may use (`core/state/windows.py`). All other jobs that can be suspended leave when it
begins. One that cannot keeps its GPUs until it ends, but it is not started there shortly before.
"""

import numpy as np

from rota.core.fold.absent_drains import without
from rota.core.fold.node_events import node_left
from rota.core.settings import Settings
from rota.core.state.phases import STAYS
from rota.core.state.records import Drain, same_gpus
from rota.core.state.state import State
from rota.core.state.windows import Access, windows
from rota.model.events import DrainCancelled, GpusDrained, GpusUndrained, NodeLeft, NodeReadmitted, NodeRemoved
from rota.model.job import Phase
from rota.model.units import FOREVER, Ints

_ON_GPUS = (Phase.STARTING, Phase.RUNNING, Phase.RESIZING)


def gpus_drained(state: State, settings: Settings, event: GpusDrained) -> None:
    nodes = state.nodes
    if event.number <= nodes.last_drain:
        return  # a repeat
    nodes.last_drain = event.number
    gpus = tuple(sorted(gpu for gpu in set(event.gpus) if _exists(state, gpu)))
    if not gpus or event.until_s <= state.now_s:
        return
    drain = Drain(
        event.number, gpus, event.from_s, event.until_s, event.reason, event.by, event.by_check, event.tenants, event.users
    )
    if event.from_s <= state.now_s and not drain.reserves:
        without(state, set(gpus), begun=True)  # the latest reason and end count
    nodes.drains[event.number] = drain
    follow_drains(state)


def gpus_undrained(state: State, settings: Settings, event: GpusUndrained) -> None:
    without(state, set(event.gpus), begun=True)
    follow_drains(state)


def drain_cancelled(state: State, settings: Settings, event: DrainCancelled) -> None:
    state.nodes.drains.pop(event.number, None)
    follow_drains(state)


def node_removed(state: State, settings: Settings, event: NodeRemoved) -> None:
    if event.node >= len(state.nodes.cluster.nodes) or event.node in state.nodes.gone:
        return
    name = state.nodes.cluster.nodes[event.node].name
    node_left(state, settings, NodeLeft(event.node, event.at_s))
    state.nodes.removed.add(name)
    state.nodes.absent_drains.pop(name, None)
    follow_drains(state)


def node_readmitted(state: State, settings: Settings, event: NodeReadmitted) -> None:
    state.nodes.removed.discard(event.name)


def follow_drains(state: State) -> None:
    """Begin and end drains, and note which jobs keep drained GPUs."""
    nodes, now_s = state.nodes, state.now_s
    for number, drain in list(nodes.drains.items()):
        if drain.until_s <= now_s:
            del nodes.drains[number]
    begun = [drain for drain in nodes.drains.values() if drain.from_s <= now_s and not drain.reserves]
    drained = tuple(sorted({gpu for drain in begun for gpu in drain.gpus}))
    if drained != nodes.drained:
        new = np.array(sorted(set(drained) - set(nodes.drained)), dtype=np.int64)
        state.set_drained(drained)
        _withdraw(state, new)
        for job in [job for job, attempt in state.jobs.attempts.items() if attempt.parked]:
            state.requeue(job)
    _follow_windows(state)
    _let_unsaved_stay(state)


def next_change_s(state: State) -> float:
    """Return the time at which the next drain begins or ends."""
    return min(
        (drain.from_s if drain.from_s > state.now_s else drain.until_s for drain in state.nodes.drains.values()),
        default=FOREVER,
    )


def _exists(state: State, gpu: int) -> bool:
    nodes = state.nodes
    return 0 <= gpu < nodes.cluster.gpus and nodes.cluster.gpu_node.item(gpu) not in nodes.gone


def _withdraw(state: State, gpus: Ints) -> None:
    """Withdraw the placement of jobs that were to start or resume on these GPUs, or to move there."""
    jobs = state.jobs
    for job in sorted(state.nodes.planned.holders(gpus)) if len(gpus) else ():
        attempt = jobs.attempts.get(job)
        if attempt is None or attempt.parked or not same_gpus(attempt.gpus, jobs.desired[job]):
            state.set_desired(job, jobs.row[job], -1, None)
            state.requeue(job)


def _follow_windows(state: State) -> None:
    """Note which windows there are, and withdraw the placement of jobs that may no longer start where they were to."""
    nodes, jobs = state.nodes, state.jobs
    found = tuple((drain.number, drain.from_s <= state.now_s) for drain in windows(state))
    if found != nodes.windows:
        nodes.windows = found
        state.cycle.invalidate()
    if not found:
        return
    unsettled = sorted((jobs.to_reconcile & jobs.desired.keys()) - jobs.in_flight.keys())
    access = Access(state) if unsettled else None
    for job in unsettled:
        if access is not None and not access.may_keep(job):
            state.set_desired(job, jobs.row[job], -1, None)
            state.requeue(job)
            state.cycle.invalidate()


def _let_unsaved_stay(state: State) -> None:
    """Bar jobs that run on drained GPUs and are not known to save from scheduling, and no others."""
    jobs, table = state.jobs, state.jobs.table
    before, now = jobs.staying, set[int]()
    if state.nodes.drained and "saves" in table.in_use:
        now = {job for job in state.nodes.observed.holders(np.array(state.nodes.drained)) if _stays(state, job)}
    for job in before - now:
        jobs.unblock(job, STAYS)
    for job in now - before:
        jobs.block(job, STAYS)
    if before != now:
        state.cycle.invalidate()


def _stays(state: State, job: int) -> bool:
    """Whether a job has a placement, and its processes run or start on it or on a part of it, and would lose their work."""
    jobs = state.jobs
    row, want, attempt = jobs.row[job], jobs.desired.get(job), jobs.attempts[job]
    if want is None or attempt.parked or jobs.table.saves.item(row):
        return False
    resizes = jobs.table.phase.item(row) == Phase.RESIZING
    return jobs.table.phase.item(row) in _ON_GPUS and (resizes or same_gpus(want, attempt.gpus))
