"""The mechanism: from an allocation to who runs now. No GPU twice, gangs whole, nothing idle that the allocation permits."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.first_fit import first_fit
from rota.core.plan.order import Candidates
from rota.model.units import FOREVER, MILLI, Bools, Floats, Ints

FEW = 512
"""Number of candidates below which a loop is faster than many small arrays."""


@dataclass(slots=True, eq=False)
class Grants:
    """Which jobs run, by which options."""

    position: Ints
    """Granted jobs, in the order they were granted."""
    option: Ints
    """Per position of the table: the option granted, -1: none."""
    left: Ints
    """Milli-GPUs each pool has left."""
    partner: Ints | None = None
    """Per position: the position it shares its GPUs with, -1: it has them to itself. None: no jobs share."""
    split: Sequence["SplitGpu"] = ()
    """GPUs that are granted in parts."""


@dataclass(slots=True, eq=False)
class SplitGpu:
    """A GPU that jobs take parts of."""

    pool: int
    gpu: int
    """-1: any of its pool, which the placer picks."""
    room: int
    """Thousandths that are left of it."""
    members: list[int] = field(default_factory=list)
    """Positions of the jobs, in the order they were granted."""
    gpu_class: int = 0
    """Class of the GPU by the windows in which it is."""


def grant(candidates: Candidates, table: CandidateTable, capacity: Ints) -> Grants:
    """Walk the candidates in order and grant each job its first option that has room."""
    option = np.empty(len(table.rows), dtype=np.int64)
    option.fill(-1)
    left = capacity * MILLI
    options = table.options
    position, wanted = candidates.position, candidates.option
    if candidates.preference is not None:
        granted, by = first_fit(candidates, candidates.preference, table, left)
        option[granted] = by
        return Grants(granted, option, left)
    if options.has_fractions:
        wanted = options.best[table.kind[position]] if wanted is None else wanted
        return _fill_with_fractions(candidates, wanted, table, left)
    if wanted is None and len(left) == 1 and not candidates.reserve:
        granted = _fill_one_pool(position, table, left, candidates.blocking)
        option[granted] = options.best[table.kind[granted]]
        return Grants(granted, option, left)
    if wanted is None:
        wanted = options.best[table.kind[position]]
    shared = options.has_colocated and bool((options.partner_row[wanted] >= 0).any())
    if shared or (len(position) < FEW and not (candidates.reserve or candidates.blocking)):
        granted, by, partner = _fill_units(position, wanted, table, left)
        option[granted] = by
        return Grants(granted, option, left, partner if shared else None)
    if candidates.reserve:
        taken = _fill_with_reservation(position, wanted, table, left)
    else:
        taken = fill_in_order(position, options.pool[wanted], options.milligpus[wanted], left, candidates.blocking)
    granted = position[taken]
    option[granted] = wanted[taken]
    return Grants(granted, option, left)


def _fill_with_fractions(candidates: Candidates, wanted: Ints, table: CandidateTable, left: Ints) -> Grants:
    """Greedy in order where some jobs ask for a part of a GPU. A part goes where the job has one already, else to the fullest GPU
    that is split and has room, else to a GPU of its own. Where others may overtake the first job that does not fit only without
    delaying it, they must end before any job ends that was granted before it: till then it cannot start."""
    options, room = table.options, left.tolist()
    option, partner = np.full(len(table.rows), -1, dtype=np.int64), np.full(len(table.rows), -1, dtype=np.int64)
    split = [SplitGpu(table.gpu_pool.item(gpu), gpu, table.room_at(gpu)) for gpu in table.kept_fractional_gpus()]
    waiting: dict[int, list[int]] = {}
    order: list[int] = []
    seconds = table.steps_left[candidates.position] / options.rate[wanted] if candidates.reserve else np.zeros(len(wanted))
    soonest = FOREVER
    """When the first job ends of those that were granted before the first job that does not fit."""
    stuck = False
    position = candidates.position.tolist()
    last = {job: number for number, job in enumerate(position)}
    columns = (wanted, options.partner_row[wanted], options.pool[wanted], options.milligpus[wanted])
    for number, (job, way, other_side, pool, need) in enumerate(
        zip(position, *(column.tolist() for column in columns), strict=True)
    ):
        if option[job] >= 0 or (stuck and not seconds[number] <= soonest):
            continue
        if need < MILLI:
            part = part_for(table, job, way, pool, need, split, room[pool])
            if part is not None:
                room[pool] -= 0 if part.members or part.gpu in table.kept_gpus else MILLI
                part.members.append(job)
                part.room -= need
                option[job] = way
                order.append(job)
        elif need <= room[pool]:
            other = -1
            if other_side >= 0:
                other = next((member for member in waiting.get(other_side, ()) if option[member] < 0 and member != job), -1)
                if other < 0:
                    waiting.setdefault(way, []).append(job)
                    continue
                option[other], partner[job], partner[other] = other_side, other, job
                order.append(other)
            option[job] = way
            order.append(job)
            room[pool] -= need
        if option[job] >= 0 and not stuck:
            soonest = min(soonest, float(seconds[number]))
        elif option[job] < 0 and last[job] == number and (candidates.blocking or candidates.reserve):
            stuck = True
            if candidates.blocking:
                break
    left[:] = room
    granted = np.array(order, dtype=np.int64)
    used = [each for each in split if each.members]
    return Grants(granted, option, left, partner if options.has_colocated else None, used)


def part_for(
    table: CandidateTable, job: int, option: int, pool: int, need: int, split: list[SplitGpu], room: int
) -> SplitGpu | None:
    """Where a job takes its part; None: there is no room. A GPU that is not split yet costs a whole one."""
    home = table.current_gpu(job, option)
    if home >= 0:
        mine = next((each for each in split if each.gpu == home), None)
        if mine is None and (room >= MILLI or home in table.kept_gpus):
            mine = SplitGpu(pool, home, table.room_at(home))
            split.append(mine)
        if mine is not None and mine.room >= need:
            return mine
    fits = [each for each in split if each.pool == pool and each.room >= need]
    if fits:
        return min(fits, key=lambda each: each.room)
    if room < MILLI:
        return None
    split.append(SplitGpu(pool, -1, MILLI))
    return split[-1]


def _fill_one_pool(position: Ints, table: CandidateTable, left: Ints, blocking: bool) -> Ints:
    """Greedy in order, one pool and one option per job. Looks only as far as GPUs are left: a full cluster is full soon,
    however long the queue."""
    kind, kind_need = table.kind, table.options.kind_need[:, 0]
    free, start, end = left.item(0), 0, len(position)
    taken = []
    while free >= MILLI and start < end:
        window = position[start : start + max(free // MILLI, 64)]
        need = kind_need[kind[window]]
        start += len(window)
        total = need.cumsum()
        count = int(total.searchsorted(free, side="right"))
        if count:
            free -= total.item(count - 1)
            taken.append(window[:count])
        if count == len(window):
            continue
        if blocking or free < MILLI:
            break
        rest = (need[count:] <= free).nonzero()[0] + count
        fitting = []
        for at, wants in zip(rest.tolist(), need[rest].tolist(), strict=True):
            if wants <= free:
                fitting.append(at)
                free -= wants
        if fitting:
            taken.append(window[fitting])
    left[0] = free
    if not taken:
        return np.empty(0, dtype=np.int64)
    return taken[0] if len(taken) == 1 else np.concatenate(taken)


def fill_in_order(job: Ints, pool: Ints, need: Ints, left: Ints, blocking: bool = False) -> Ints:
    """Greedy in order with several pools. A pass takes everything up to the first that does not fit where it wanted;
    that closes a pool to its size for good, so there are at most pools x sizes passes."""
    taken: list[Ints] = []
    jobs = int(job.max()) + 1 if len(job) else 0
    done = np.zeros(jobs, dtype=bool)
    first = np.empty(jobs, dtype=np.int64)
    index = np.flatnonzero(need <= left[pool])
    while len(index):
        if blocking:
            index = index[index < _first_hopeless(job, done, index)]
        here = np.arange(len(index))
        first[job[index[::-1]]] = here[::-1]
        front = index[first[job[index]] == here]  # each job's best option that is still open to it
        fits = _fits(pool[front], need[front], left)
        run = front if fits.all() else front[: int(np.argmin(fits))]
        left -= np.bincount(pool[run], weights=need[run], minlength=len(left)).astype(np.int64)
        done[job[run]] = True
        taken.append(run)
        if len(run) == len(front):
            break
        index = index[(need[index] <= left[pool[index]]) & ~done[job[index]]]
    return np.concatenate(taken) if taken else np.empty(0, dtype=np.int64)


def _fill_units(position: Ints, option: Ints, table: CandidateTable, left: Ints) -> tuple[Ints, Ints, Ints]:
    """Greedy in order where some options share GPUs. A side that has its turn waits for the first of the other side that is still
    without GPUs; so a unit is as urgent as the less urgent of its two members."""
    options = table.options
    partner_row, pool, need = options.partner_row[option], options.pool[option], options.milligpus[option]
    partner = np.full(len(table.rows), -1, dtype=np.int64)
    room = left.tolist()
    done = [False] * len(table.rows)
    taken: list[int] = []
    by: list[int] = []
    smallest = int(need.min(initial=MILLI))
    if not options.has_colocated:
        for job, way, where, wants in zip(position.tolist(), option.tolist(), pool.tolist(), need.tolist(), strict=True):
            if not done[job] and wants <= room[where]:
                taken.append(job)
                by.append(way)
                done[job] = True
                room[where] -= wants
                if max(room) < smallest:
                    break
        left[:] = room
        return np.array(taken, dtype=np.int64), np.array(by, dtype=np.int64), partner
    waiting: dict[int, list[int]] = {}
    rows = zip(position.tolist(), option.tolist(), partner_row.tolist(), pool.tolist(), need.tolist(), strict=True)
    for job, way, other_side, where, wants in rows:
        if done[job] or wants > room[where]:
            continue
        if other_side < 0:
            taken.append(job)
            by.append(way)
        else:
            queue = waiting.get(other_side, ())
            other = next((member for member in queue if not done[member] and member != job), -1)
            if other < 0:
                waiting.setdefault(way, []).append(job)
                continue
            taken += (other, job)
            by += (other_side, way)
            partner[job], partner[other] = other, job
            done[other] = True
        done[job] = True
        room[where] -= wants
        if max(room) < smallest:
            break
    left[:] = room
    return np.array(taken, dtype=np.int64), np.array(by, dtype=np.int64), partner


def _first_hopeless(job: Ints, done: Bools, index: Ints) -> int:
    """Number of the first candidate whose job has no GPUs and no option left that could give it some."""
    hopeful = done.copy()
    hopeful[job[index]] = True
    hopeless = np.flatnonzero(~hopeful[job])
    return int(hopeless[0]) if len(hopeless) else len(job)


def _fits(pool: Ints, need: Ints, left: Ints) -> Bools:
    """Whether each candidate fits if all before it are taken."""
    fits = np.empty(len(pool), dtype=bool)
    for number, free in enumerate(left.tolist()):
        here = pool == number
        fits[here] = np.cumsum(need[here]) <= free
    return fits


def _fill_with_reservation(job: Ints, option: Ints, table: CandidateTable, left: Ints) -> Ints:
    """Backfill: the first job that fits nowhere gets a reservation where it can start soonest; others may overtake it only
    if they end before that, or leave enough GPUs for it."""
    pool, need = table.options.pool[option], table.options.milligpus[option]
    before = fill_in_order(job, pool, need, left, blocking=True)
    waits = ~np.isin(job, job[before])
    if not waits.any():
        return before
    seconds = table.steps_left[job] / table.options.rate[option]
    head = job == job[waits][0]
    start, spare, reserved = np.inf, 0, np.isin(pool, pool[head])
    for mine in np.flatnonzero(head).tolist():
        there = pool[before] == pool[mine]
        soonest, extra = _earliest(seconds[before][there], need[before][there], int(left[pool[mine]]), int(need[mine]))
        if soonest < start:
            start, spare, reserved = soonest, extra, pool == pool[mine]
    taken = [before]
    open_to = waits & ~head
    # If it isn't known when the head could start, no job may overtake it.
    in_time = seconds <= (start if np.isfinite(start) else -1.0)
    uses_spare = reserved & ~in_time
    while True:
        open_to &= (need <= left[pool]) & (~uses_spare | (need <= spare))
        index = open_to.nonzero()[0]
        if not len(index):
            return np.concatenate(taken)
        # Each job's best option that is open to it; all of them up to the first that no longer fits beside the others.
        front = index[np.sort(np.unique(job[index], return_index=True)[1])]
        fits = _fits(pool[front], need[front], left) & ((need[front] * uses_spare[front]).cumsum() <= spare)
        run = front if fits.all() else front[: int(np.argmin(fits))]
        left -= np.bincount(pool[run], weights=need[run], minlength=len(left)).astype(np.int64)
        spare -= int((need[run] * uses_spare[run]).sum())
        taken.append(run)
        open_to &= ~np.isin(job, job[run])


def _earliest(seconds: Floats, need: Ints, free: int, wanted: int) -> tuple[float, int]:
    """When a pool will have `wanted` free as its jobs end, and how much more than that it will have then."""
    order = np.argsort(seconds, kind="stable")
    total = free + np.cumsum(need[order])
    enough = np.flatnonzero(total >= wanted)
    if not len(enough):
        return np.inf, 0
    return float(seconds[order][enough[0]]), int(total[enough[0]] - wanted)
