"""Migrate: a running job moves to GPUs that are closer together, or to a faster pool that no waiting job could use, if that pays
(Gandiva, OSDI'18, section 4.2)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rota.core.plan.choose_gpus import request_for
from rota.core.plan.mover import Mover
from rota.core.plan.tactic import Tactic
from rota.model.allocation import Assignment, Ranking
from rota.model.units import FOREVER, MILLI, Bools, Ints
from rota.placers.close import closest


@dataclass(frozen=True)
class Migrate(Tactic):
    """A job moves only if it makes more progress within the horizon, including the cost of the move."""

    turn: ClassVar[int] = 40
    rest_seconds: float = 600.0
    max_moves: int = 8
    """Maximum number of jobs that move in one plan."""

    def move(self, mover: Mover) -> None:
        """Bring the GPUs of jobs closer together, then move jobs to faster pools."""
        _move_closer(mover, self)
        _move_to_faster(mover, self)

    def gain_seconds(self, seconds: float, price: float, faster: float) -> float:
        """Return how much more progress a job makes in this time if it pays the price of a move and is faster by this factor from
        then on, in seconds at its present rate. If it is negative, the job should stay."""
        return max(seconds - price, 0.0) * faster - seconds


def _move_closer(mover: Mover, tactic: Migrate) -> None:
    """Bring the GPUs of the jobs together that gain most by it. Free GPUs are left to gangs that wait for a place."""
    if not mover.room.any():
        return
    state, staying, cluster = mover.state, mover.staying, mover.state.nodes.cluster
    spread = (staying.first != staying.last) & (staying.movable_from_s < FOREVER)
    if not spread.any():
        return
    options, kinds = mover.table.options, list(mover.places.fragmented)
    waiting = options.pool[np.isin(options.kind, kinds)] if kinds else ()
    spread &= ~np.isin(staying.pool, waiting)
    found = []
    for at in spread.nonzero()[0].tolist():
        job, gpus, pool = staying.job.item(at), staying.gpus.item(at), staying.pool.item(at)
        now = state.locality_slowdown(job, state.jobs.desired[job])
        if now > 1.0:
            found.append((now * gpus, at, job, gpus, pool))
    later = np.zeros(len(spread), dtype=bool)
    for _, at, job, gpus, pool in sorted(found, key=lambda each: (-each[0], each[1])):
        if len(mover.moved) >= tactic.max_moves:
            break
        mine = state.jobs.desired[job]
        room = mover.room.copy()
        room[mine] = True
        there = _together(mover, room, pool, gpus)
        if cluster.spanned(there) >= cluster.spanned(mine) or not state.memory.fits(job, there):
            continue
        row = staying.row.item(at)
        seconds = min(mover.keeps_seconds(row), staying.seconds_left.item(at))
        faster = state.slowdown(job, mine) / state.slowdown(job, there)
        if tactic.gain_seconds(seconds, state.jobs.table.move_seconds.item(row), faster) <= 0:
            continue
        if staying.movable_from_s.item(at) > state.now_s:
            later[at] = True
            continue
        mover.assign(job, state.jobs.table.option.item(row), there)
    mover.look_again(later)


def _together(mover: Mover, room: Bools, pool: int, gpus: int) -> Ints:
    """Return free GPUs across as few levels of locality as possible: on the fullest node that has enough, or else on few
    nodes."""
    free = mover.room_by_node(pool, room)
    fits = (free >= gpus).nonzero()[0]
    parts = [(int(fits[np.argmin(free[fits])]), gpus)] if len(fits) else closest(mover.state.nodes.cluster.domains, free, gpus)
    return np.sort(np.concatenate([mover.take(room, node, count) for node, count in parts]))


def _move_to_faster(mover: Mover, tactic: Migrate) -> None:
    """Move the jobs that gain most to pools where they are faster, if the answer leaves the choice of pools to tactics."""
    options, table = mover.table.options, mover.table
    if options.elastic or len(table) == 0 or not _type_is_open(mover):
        return
    left = np.bincount(mover.state.nodes.cluster.gpu_pool[mover.room], minlength=len(mover.places.grants.left))
    wanted = options.by_kind[table.kind[mover.waits]]
    left[options.pool[wanted[wanted >= 0]]] = 0  # pools that a waiting job could use are left to it
    if not left.any():
        return
    state, staying = mover.state, mover.staying
    rows = options.by_kind[state.jobs.table.kind[staying.row]]
    held = state.jobs.table.option[staying.row]
    faster = np.where(rows >= 0, options.rate[rows] / options.rate[held][:, None], 0.0)
    faster[options.too_slow[rows] | (options.partner_kind[rows] >= 0) | (options.milligpus[rows] < MILLI)] = 0.0
    faster[options.gpus[rows] > left[options.pool[rows]]] = 0.0
    best = np.argmax(faster, axis=1)
    gain = faster[np.arange(len(best)), best]
    later = np.zeros(len(gain), dtype=bool)
    worth = (gain > 1.0).nonzero()[0]
    for at in worth[np.argsort(-gain[worth] * staying.gpus[worth], kind="stable")].tolist():
        if len(mover.moved) >= tactic.max_moves:
            break
        if _moves_to(mover, tactic, at, rows.item(at, int(best[at])), gain.item(at)):
            later[at] = True
    mover.look_again(later)


def _type_is_open(mover: Mover) -> bool:
    """Whether the answer leaves the type of GPU open and moves no job for it, or lets tactics move its jobs."""
    allocation = mover.allocation
    if isinstance(allocation, Assignment):
        return allocation.may_move
    if not isinstance(allocation, Ranking) or allocation.option is not None:
        return False
    return allocation.type_agnostic or not (allocation.preempt or mover.settings.selection.upgrades)


def _moves_to(mover: Mover, tactic: Migrate, at: int, option: int, faster: float) -> bool:
    """Move a job to GPUs of this option, if that pays. Return True if it would pay, but the job may not be moved yet."""
    state, staying, options = mover.state, mover.staying, mover.table.options
    job, row = staying.job.item(at), staying.row.item(at)
    pool, gpus = options.pool.item(option), options.gpus.item(option)
    price = state.jobs.table.move_seconds.item(row)
    cluster = state.nodes.cluster
    room = mover.room & (cluster.gpu_pool == pool)
    if int(room.sum()) < gpus:
        return False
    view = mover.draft.placement_view(room)
    request = request_for(state, job, pool, gpus, price)
    (there,) = mover.placer.place(view, [request])
    if mover.settings.wait_for_locality and len(state.nodes.nodes_of(there)) > state.fewest_nodes(pool, gpus):
        return False
    faster *= state.slowdown(job, state.jobs.desired[job]) / state.slowdown(job, there)
    seconds = min(mover.keeps_seconds(row), staying.seconds_left.item(at))
    if tactic.gain_seconds(seconds, price, faster) <= 0 or not state.memory.fits(job, there):
        return False
    if staying.movable_from_s.item(at) > state.now_s:
        return True
    mover.assign(job, option, there)
    at_table = int(mover.table.rows.searchsorted(row))
    if at_table < len(mover.table) and mover.table.rows.item(at_table) == row:
        mover.places.grants.option[at_table] = option
    return False
