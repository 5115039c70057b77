"""Defragment: running jobs move aside so that a gang gets whole nodes (Gandiva, OSDI'18, section 4.2).

They move if the gang gains more than the moves cost. A job that moves goes to GPUs that are free now, on one node that the gang
does not get.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from rota.core.plan.choose_gpus import request_for
from rota.core.plan.mover import Mover
from rota.core.plan.tactic import Tactic
from rota.model.plan import PlacementChange
from rota.model.units import FOREVER, MILLI, Ints
from rota.tactics.free_nodes import DefragmentPlan, Movable, free_nodes


@dataclass(frozen=True)
class Defragment(Tactic):
    """Let running jobs make room for a gang on as few nodes as possible, if that pays."""

    turn: ClassVar[int] = 30
    rest_seconds: float = 600.0
    max_gangs: int = 4
    """Maximum number of gangs considered in one plan."""

    def clear(self, mover: Mover) -> None:
        """Free nodes for gangs that wait for a place, or if jobs do not wait for places, for gangs that would start scattered."""
        if mover.settings.wait_for_locality:
            for position, option in _waiting_gangs(mover, self.max_gangs):
                _start(mover, position, option)
        else:
            for change in [each for each in mover.changes.values() if _scattered(mover, each)][: self.max_gangs]:
                _bring_together(mover, change)

    def move(self, mover: Mover) -> None:
        """Free nodes for gangs, and record which kinds still wait for a place."""
        self.clear(mover)
        places, waiting = mover.places, set(mover.table.kind[mover.waits].tolist())
        places.fragmented = tuple(kind for kind in places.fragmented if kind in waiting)


class _Layout(NamedTuple):
    """GPUs for the gang, and for the jobs that make room for it."""

    gang: Ints
    others: list[tuple[Movable, Ints]]


def _waiting_gangs(mover: Mover, most: int) -> Iterator[tuple[int, int]]:
    """Yield (position, option) of gangs that wait although enough GPUs are free, in the order of the policy, one of each kind. If
    no job may overtake another, only the first waiting job is considered."""
    candidates, options = mover.candidates, mover.table.options
    position = candidates.position
    way = options.best[mover.table.kind[position]] if candidates.option is None else candidates.option
    waits = mover.waits[position]
    if (candidates.blocking or candidates.reserve) and waits.any():
        waits &= position == position[waits][0]
    free = np.bincount(mover.state.nodes.cluster.gpu_pool[mover.room], minlength=len(mover.places.grants.left))
    gang = waits & (options.milligpus[way] > MILLI) & (options.partner_kind[way] < 0)
    gang &= options.gpus[way] <= free[options.pool[way]]
    seen: set[tuple[int, int]] = set()
    for at in gang.nonzero()[0].tolist():
        key = (mover.table.kind.item(position[at]), int(way[at]))
        if key not in seen and mover.waits[position[at]] and len(seen) < most:
            seen.add(key)
            yield position.item(at), int(way[at])


def _start(mover: Mover, position: int, option: int) -> None:
    """Free nodes for a waiting gang and grant it its option, if waiting would cost more than the moves."""
    state, options = mover.state, mover.table.options
    row = mover.table.rows.item(position)
    job, pool, gpus = state.jobs.table.id.item(row), options.pool.item(option), options.gpus.item(option)
    request = request_for(state, job, pool, gpus, state.jobs.table.move_seconds.item(row))
    if job in state.jobs.attempts or not mover.placer.keeps_together(request):
        return
    if mover.draft.limits is not None and not mover.within_limits(job, option):
        return
    nodes = state.fewest_nodes(pool, gpus)
    found = free_nodes(mover.room_by_node(pool), _movable(mover, pool), gpus, nodes)
    if found is None:
        mover.look_again(mover.staying.pool == pool)
        return
    layout = _lay_out(mover, found, gpus)
    wait = min(_seconds_to_wait(mover, pool, gpus, nodes), mover.keeps_seconds(row))
    works = min(wait, float(mover.table.steps_left[position]) / options.rate.item(option))
    if _pays(mover, layout, wait, works * gpus):
        _accept(mover, job, option, layout)
        grants = mover.places.grants
        grants.option[position] = option
        grants.position = np.append(grants.position, position)
        grants.left[pool] -= options.milligpus.item(option)
        mover.waits[position] = False


def _scattered(mover: Mover, change: PlacementChange) -> bool:
    """Return whether a job that starts spans more levels of locality than necessary, and is slower for it."""
    state = mover.state
    if change.gpus is None or len(change.gpus) == 1 or change.partner >= 0 or change.job in state.jobs.attempts:
        return False
    if not mover.is_open(change.gpus):
        return False
    return state.locality_slowdown(change.job, change.gpus) > 1.0


def _bring_together(mover: Mover, change: PlacementChange) -> None:
    """Give whole nodes to a gang that would start scattered, if it gains more than the moves cost."""
    state, options = mover.state, mover.table.options
    assert change.gpus is not None
    row, pool, gpus = state.jobs.row[change.job], options.pool.item(change.option), len(change.gpus)
    request = request_for(state, change.job, pool, gpus, state.jobs.table.move_seconds.item(row))
    if not mover.placer.keeps_together(request):
        return
    mover.room[change.gpus] = True
    found = free_nodes(mover.room_by_node(pool), _movable(mover, pool), gpus, state.fewest_nodes(pool, gpus))
    if found is not None:
        layout = _lay_out(mover, found, gpus)
        slow = state.slowdown(change.job, change.gpus)
        steps = state.jobs.table.steps_total.item(row) - state.jobs.table.steps_saved.item(row)
        seconds = min(mover.keeps_seconds(row), steps / options.rate.item(change.option) * slow)
        gained = seconds * (1.0 - state.slowdown(change.job, layout.gang) / slow)
        if _pays(mover, layout, gained, gained * gpus):
            _accept(mover, change.job, change.option, layout)
            return
    mover.room[change.gpus] = False


def _movable(mover: Mover, pool: int) -> list[Movable]:
    """Return the jobs on one node of a pool that may be moved now."""
    staying = mover.staying
    may = (staying.movable_from_s <= mover.state.now_s) & (staying.first == staying.last) & (staying.pool == pool)
    price = mover.state.jobs.table.move_seconds[staying.row[may]]
    columns = (staying.job[may], staying.first[may], staying.gpus[may], price)
    return [Movable(*each) for each in zip(*(column.tolist() for column in columns), strict=True)]


def _lay_out(mover: Mover, found: DefragmentPlan, gpus: int) -> _Layout:
    """Choose the GPUs of each job. The gang takes free GPUs before those that other jobs leave."""
    room, state = mover.room.copy(), mover.state
    gang = np.concatenate([mover.take(room, node, gpus) for node in found.nodes])
    others = [(job, mover.take(room, node, job.gpus)) for job, node in found.moves]
    left = [state.jobs.desired[job.job] for job, _ in found.moves]
    return _Layout(np.sort(np.concatenate([gang, *left])[:gpus]), others)


def _seconds_to_wait(mover: Mover, pool: int, gpus: int, nodes: int) -> float:
    """Return the seconds until a gang finds a place if no job moves: until enough nodes have room for its processes there."""
    staying, cluster = mover.staying, mover.state.nodes.cluster
    alone = (staying.first == staying.last) & (staying.pool == pool)
    node, size, left = staying.first[alone], staying.gpus[alone], staying.seconds_left[alone]
    order = np.lexsort((left, node))
    node, size, left = node[order], size[order], left[order]
    part, room = -(-gpus // nodes), mover.room_by_node(pool)
    total = np.cumsum(size)
    begin = np.searchsorted(node, node)
    enough = total - total[begin] + size[begin] + room[node] >= part
    when = np.full(len(cluster.nodes), FOREVER)
    np.minimum.at(when, node[enough], left[enough])
    when[room >= part] = 0.0
    when[cluster.node_pool != pool] = FOREVER
    return float(np.sort(when)[nodes - 1])


def _pays(mover: Mover, layout: _Layout, gained: float, gpu_seconds: float) -> bool:
    """Return whether the gain exceeds the cost of the moves, in seconds of jobs and in GPU-seconds. A move to slower GPUs costs
    more."""
    state, cost, seconds = mover.state, 0.0, 0.0
    for job, gpus in layout.others:
        if not state.memory.fits(job.job, gpus):
            return False
        slower = state.slowdown(job.job, gpus) / state.slowdown(job.job, state.jobs.desired[job.job])
        loses = job.seconds + max(slower - 1.0, 0.0) * mover.settings.horizon_seconds
        seconds += loses
        cost += loses * job.gpus
    return seconds < gained and cost < gpu_seconds


def _accept(mover: Mover, job: int, option: int, layout: _Layout) -> None:
    for other, gpus in layout.others:
        mover.assign(other.job, mover.state.jobs.table.option.item(mover.state.jobs.row[other.job]), gpus)
    mover.assign(job, option, layout.gang, moves=False)
    for _, gpus in layout.others:
        mover.room[gpus] = False  # a job may have moved to GPUs that the gang would have had, which `assign` has just freed
