"""Gandiva (OSDI'18): every job runs soon. Jobs of one size take turns on the same nodes, and no job waits if it can share. The
policy declares the tactics pack, grow, migrate and defragment, and follows the jobs that they move.

The goals are early feedback for all jobs and busy GPUs, not fairness between users or short completion times.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rota.errors import OptionError
from rota.model.allocation import Assignment
from rota.model.needs import Needs
from rota.model.units import FOREVER, MIN_HOLD_SECONDS
from rota.model.view import View
from rota.policies.slots import Slot, SlotMap, SlotMemory

MIN_SLICE_SECONDS = 10.0
ROUNDING = 1e-6


@dataclass(frozen=True)
class Gandiva:
    """Over-subscribes GPUs instead of queueing jobs. A turn is long compared with the cost of a switch."""

    slice_seconds: float = 60.0
    """Minimum length of a turn, in seconds."""
    max_switch_fraction: float = 0.02
    """Largest fraction of a turn that switching may take. Turns become longer for jobs that cost more to switch."""
    patience_slices: int = 10
    """Turns after which a waiting job gets nodes that other jobs use, if none are for its size."""
    balance_seconds: float = 600.0
    """Minimum time between two changes of a node from one job size to another that needs it more, in seconds."""

    needs: ClassVar[Needs] = Needs(tactics="pack:min_gain=0,grow,migrate,defragment")

    def __post_init__(self) -> None:
        if not MIN_SLICE_SECONDS <= self.slice_seconds < FOREVER:
            raise OptionError(
                "must be 10 s or more.", field="gandiva slice_seconds", value=self.slice_seconds, hint="gandiva:slice_seconds=60"
            )
        if not 0 < self.max_switch_fraction < 1:
            raise OptionError(
                "must be between 0 and 1.", field="gandiva max_switch_fraction", value=self.max_switch_fraction, hint="0.02"
            )

    def allocate(self, view: View) -> Assignment:
        view = _with_sizes_that_fit(view)
        jobs = view.jobs
        where = {job: at for at, job in enumerate(jobs.ids.tolist())}
        tick = int((view.now_s + ROUNDING) // self.slice_seconds)
        before: SlotMemory | None = view.memory
        slot_map = SlotMap.of(before, view.cluster, view.usable, set(where))
        slot_map.join(_partners(view, where))
        held = _held(view, where)
        slot_map.follow(held, tick)
        _leave_slow_slots(view, slot_map, where)
        refused = self._refused(view, slot_map, where, before)
        waits = dict(before.waiting) if before is not None else {}
        seated = {job for slot in slot_map.slots for job in slot.jobs}
        arrived = [(waits.get(job, view.now_s), job) for job in where if job not in seated]
        waiting = [job for _, job in sorted(arrived) if not self._seat(view, slot_map, job, where, tick, job in refused)]
        self._spread_out(view, slot_map, where, tick, refused)
        balanced_s = before.balanced_s if before is not None else view.now_s
        if waiting:
            waiting = self._make_room(view, slot_map, waiting, waits, where, tick)
        if view.now_s - balanced_s >= self.balance_seconds - ROUNDING:
            balanced_s = view.now_s
            waiting += self._balance(view, slot_map, where, tick, refused)
        shared = [slot for slot in slot_map.slots if len(slot.jobs) > 1]
        for slot in shared:
            tried = view.jobs.pinned.item(where[slot.jobs[0]])
            if not tried and tick - slot.turn >= self._ticks(view, slot, where):
                slot.jobs.append(slot.jobs.pop(0))
                slot.turn = tick
        # An exclusive job leaves its GPUs before it gets others: it stops with this answer and starts with the next.
        alone = {job: gpus for job, gpus in held.items() if view.jobs.partner[where[job]] < 0}
        leaving = [slot for slot in slot_map.slots if alone.get(slot.jobs[0], slot.gpus) != slot.gpus]
        runs = [(where[slot.jobs[0]], slot) for slot in slot_map.slots if slot not in leaving]
        option = [_option(view, at, slot_map.pool_of(slot), slot.width) for at, slot in runs]
        # A job whose free GPUs are on too many nodes names none: it waits for locality, or other jobs move aside for it.
        gpus = {at: slot.gpus for at, slot in runs if slot.jobs[0] in view.placements or not slot_map.spans_more(slot)}
        for at in (where[job] for job in waiting if job in refused):
            runs.append((at, Slot((), True, tick, view.now_s)))
            option.append(_widest_room(view, slot_map, at))
        later = bool(shared) or bool(waiting) or len(gpus) < len(runs)
        return Assignment(
            position=np.array([at for at, _ in runs], dtype=np.int64),
            option=np.array(option, dtype=np.int64),
            gpus=gpus,
            may_move=True,
            until_s=view.now_s + MIN_HOLD_SECONDS if leaving else (tick + 1) * self.slice_seconds if later else FOREVER,
            memory=slot_map.seating([(job, waits.get(job, view.now_s)) for job in waiting], balanced_s, refused.items()),
            key="turns in slots",
        )

    def _refused(self, view: View, slot_map: SlotMap, where: dict[int, int], before: SlotMemory | None) -> dict[int, float]:
        """Return the jobs that `wait_for_locality` kept from starting on more nodes than they need, with the time. While they
        wait, and for at least `patience_slices` turns, they take no such slot, so that the GPUs serve other
        jobs."""
        recent_s = view.now_s - self.patience_slices * self.slice_seconds + ROUNDING
        waiting = {job for job, _ in before.waiting} if before is not None else set()
        known = before.refused if before is not None else ()
        refused = {job: at_s for job, at_s in known if job in where and (job in waiting or at_s > recent_s)}
        for slot in [each for each in slot_map.slots if each.jobs[0] not in view.placements and slot_map.spans_more(each)]:
            refused |= dict.fromkeys(slot.jobs, view.now_s)
            slot_map.close(slot)
        return refused

    def _seat(self, view: View, slot_map: SlotMap, job: int, where: dict[int, int], tick: int, together: bool = False) -> bool:
        """Give a job a slot, in the order of the paper: on a node for its size, on a new node, on any free GPUs, and then in the
        slot that the fewest jobs share."""
        at = where[job]
        pools = list(_pools(view, at))
        for pool, width, _ in pools:
            slot = slot_map.open(width, pool, tick, view.now_s, together=together)
            if slot is not None:
                slot.jobs.append(job)
                return True
        found = [(slot, rate) for pool, width, rate in pools if (slot := slot_map.shortest(width, pool)) is not None]
        if not found:
            return False
        slot, _ = min(found, key=lambda each: (len(each[0].jobs) + 1) / each[1])
        slot.jobs.insert(_turn(view, slot, at, where), job)
        return True

    def _spread_out(self, view: View, slot_map: SlotMap, where: dict[int, int], tick: int, refused: Collection[int]) -> None:
        """Give free GPUs to jobs that share a slot, those of the fullest slots first. The GPUs have the same type, or another on
        which the job is faster than in turns."""
        while True:
            shared = sorted((s for s in slot_map.slots if len(s.jobs) > 1), key=lambda s: -len(s.jobs))
            for slot in shared:
                job, here = slot.jobs[-1], slot_map.pool_of(slot)
                pools = [(here, slot.width), *_faster_than_turns(view, where[job], here, len(slot.jobs))]
                opened = (slot_map.open(width, pool, tick, view.now_s, together=job in refused) for pool, width in pools)
                new = next((each for each in opened if each is not None), None)
                if new is not None:
                    new.jobs.append(slot.jobs.pop())
                    break
            else:
                return

    def _make_room(
        self, view: View, slot_map: SlotMap, waiting: list[int], waits: dict[int, float], where: dict[int, int], tick: int
    ) -> list[int]:
        """Give a job that has waited too long for its size the least used nodes. The jobs of these nodes take other slots, or
        wait."""
        patience = self.patience_slices * self.slice_seconds
        left: list[int] = []
        for job in waiting:
            since_s = waits.setdefault(job, view.now_s)
            if view.now_s - since_s < patience - ROUNDING or not self._displace(view, slot_map, job, where, tick, waits, left):
                left.append(job)
        return left

    def _displace(
        self,
        view: View,
        slot_map: SlotMap,
        job: int,
        where: dict[int, int],
        tick: int,
        waits: dict[int, float],
        left: list[int],
    ) -> bool:
        patience = self.patience_slices * self.slice_seconds
        for pool, width, _ in _pools(view, where[job]):
            nodes = self._least_used(view, slot_map, width, pool, patience)
            if not nodes:
                continue
            out = [slot for slot in slot_map.slots if not nodes.isdisjoint(slot_map.nodes_of(slot))]
            for slot in out:
                slot_map.close(slot)
            mine = slot_map.open(width, pool, tick, view.now_s, own=True)
            if mine is None:
                slot_map.reopen(out)
                continue
            mine.jobs.append(job)
            for other in [each for slot in out for each in slot.jobs]:
                if not self._seat(view, slot_map, other, where, tick):
                    waits[other] = view.now_s
                    left.append(other)
            return True
        return False

    def _least_used(self, view: View, slot_map: SlotMap, width: int, pool: int, tenure: float) -> set[int]:
        """Return as many nodes as a job needs, those with the fewest jobs, but none that has just been given to its jobs."""
        young = {node for s in slot_map.slots if view.now_s - s.since_s < tenure - ROUNDING for node in slot_map.nodes_of(s)}
        load = {node: 0 for node in view.cluster.pool_nodes[pool] if node not in young and slot_map.node_gpus[node]}
        for slot in slot_map.slots:
            for node in slot_map.nodes_of(slot):
                if node in load:
                    load[node] += len(slot.jobs)
        chosen, gpus = set[int](), 0
        one_will_do = any(slot_map.node_gpus[node] >= width for node in view.cluster.pool_nodes[pool])
        for node in sorted(load, key=lambda n: (load[n], n)):
            size = slot_map.node_gpus[node]
            if size >= width:
                return {node}
            if one_will_do:
                continue
            chosen.add(node)
            gpus += size
            if gpus >= width:
                return chosen
        return set()

    def _balance(self, view: View, slot_map: SlotMap, where: dict[int, int], tick: int, refused: Collection[int]) -> list[int]:
        """Move a node from the job size that shares least to the one that shares most, if that evens them out. Return the jobs
        that find no other slot."""
        left: list[int] = []
        for pool in range(len(view.cluster.pools)):
            widths = {slot.width for slot in slot_map.slots if slot_map.pool_of(slot) == pool and not slot.foreign}
            widths = {w for w in widths if w <= max(slot_map.node_gpus[node] for node in view.cluster.pool_nodes[pool])}
            if len(widths) < 2:
                continue
            high = max(widths, key=lambda w: slot_map.height(w, pool))
            low = min(widths, key=lambda w: slot_map.height(w, pool))
            nodes = [node for node in view.cluster.pool_nodes[pool] if slot_map.affinity[node] == low]
            if len(nodes) < 2 or high == low:
                continue
            node = min(nodes, key=lambda n: sum(len(s.jobs) for s in slot_map.slots if n in slot_map.nodes_of(s)))
            size = slot_map.node_gpus[node]
            jobs = slot_map.height(low, pool) * slot_map.room(low, pool)
            after = jobs / max(slot_map.room(low, pool) - size // low, 1e-9)
            shared = [s for s in slot_map.slots if s.width == high and len(s.jobs) > 1 and slot_map.pool_of(s) == pool]
            if not shared or size < high or after >= slot_map.height(high, pool):
                continue
            out = [slot for slot in slot_map.slots if node in slot_map.nodes_of(slot)]
            for slot in out:
                slot_map.close(slot)
            new = slot_map.open(high, pool, tick, view.now_s, own=True)
            if new is not None:
                new.jobs.append(max(shared, key=lambda s: len(s.jobs)).jobs.pop())
            moved = [job for slot in out for job in slot.jobs]
            left += [job for job in moved if not self._seat(view, slot_map, job, where, tick, job in refused)]
            self._spread_out(view, slot_map, where, tick, refused)
        return left

    def _ticks(self, view: View, slot: Slot, where: dict[int, int]) -> int:
        """Return how many ticks a turn lasts, given what a switch between these jobs costs."""
        cost = max(view.jobs.switch_seconds.item(where[job]) for job in slot.jobs)
        return max(int(np.ceil(cost / self.max_switch_fraction / self.slice_seconds - ROUNDING)), 1)


def _turn(view: View, slot: Slot, at: int, where: dict[int, int]) -> int:
    """Return the position at which a job joins the order of a slot. A job that never ran comes soon: every other turn is for new
    jobs."""
    ran = view.jobs.run_seconds
    if ran.item(at) > 0:
        return len(slot.jobs)
    new = [ran.item(where[job]) == 0 for job in slot.jobs]
    return min(1 + new[0] + 2 * sum(new[1:]), len(slot.jobs))


def _with_sizes_that_fit(view: View) -> View:
    """Return the view with a requested size that fits for every job: in each pool the nearest number of GPUs that the job
    accepts, and of its batch sizes the fastest. Otherwise a job whose requested size fits nowhere would never run."""
    options = view.options
    if not options.elastic:
        return view
    asked = options.requested
    if options.lasting:  # nodes have left
        asked = asked & (options.gpus <= np.array(options.lasting)[options.pool])
    fits = np.zeros(len(options.by_kind), dtype=bool)
    fits[options.kind[asked]] = True
    kinds, first = np.unique(view.jobs.kind, return_index=True)
    if fits[kinds].all():
        return view
    sizes = options.requested.copy()
    for kind, at in zip(kinds[~fits[kinds]].tolist(), first[~fits[kinds]].tolist(), strict=True):
        every = options.by_kind[kind]  # the fastest first
        rows = every = every[every >= 0]
        if options.lasting:
            rows = every[options.gpus[every] <= np.array(options.lasting)[options.pool[every]]]
        if not len(rows):
            continue
        sizes[every] = False
        beyond = np.abs(options.gpus[rows] - view.jobs.gpus.item(at))
        for pool in np.unique(options.pool[rows]).tolist():
            here = options.pool[rows] == pool
            sizes[rows[here][beyond[here].argmin()]] = True
    return replace(view, options=replace(options, requested=sizes))


def _pools(view: View, at: int) -> Iterator[tuple[int, int, float]]:
    """Yield the pools on which a job can run at its requested size, with GPUs and rate, fastest first. Pools where it is too slow
    count only if there are no others."""
    options = view.options
    rows = options.by_kind[view.jobs.kind.item(at)]
    rows = rows[(rows >= 0) & options.requested[rows]]
    worth = ~options.too_slow[rows]
    rows = rows[worth] if worth.any() else rows
    for row in rows[np.argsort(-options.rate[rows], kind="stable")].tolist():
        yield options.pool.item(row), options.gpus.item(row), options.rate.item(row)


def _leave_slow_slots(view: View, slot_map: SlotMap, where: dict[int, int]) -> None:
    """Remove jobs from slots in which they are too slow, or whose size is no longer theirs. They find other slots as new jobs
    do."""
    for slot in list(slot_map.slots) if view.options.has_too_slow or view.options.elastic else ():
        here = slot_map.pool_of(slot), slot.width
        slot.jobs = [job for job in slot.jobs if any((pool, width) == here for pool, width, _ in _pools(view, where[job]))]
        if not slot.jobs:
            slot_map.close(slot)


def _faster_than_turns(view: View, at: int, here: int, jobs: int) -> list[tuple[int, int]]:
    """Return other pools on which a job is faster than in turns with this many jobs, with GPUs, fastest first."""
    pools = list(_pools(view, at))
    in_turns = next(rate for pool, _, rate in pools if pool == here) / jobs
    return [(pool, width) for pool, width, rate in pools if pool != here and rate > in_turns]


def _option(view: View, at: int, pool: int, width: int) -> int:
    options = view.options
    rows = options.by_kind[view.jobs.kind.item(at)]
    return int(rows[(rows >= 0) & options.requested[rows] & (options.pool[rows] == pool) & (options.gpus[rows] == width)][0])


def _widest_room(view: View, slot_map: SlotMap, at: int) -> int:
    """Return the option of a job in the pool with the most free GPUs. The fastest pool wins ties."""
    free = np.bincount(view.cluster.gpu_pool[slot_map.free], minlength=len(view.cluster.pools))
    pool, width, _ = max(_pools(view, at), key=lambda each: int(free[each[0]]) - each[1])
    return _option(view, at, pool, width)


def _held(view: View, where: dict[int, int]) -> dict[int, tuple[int, ...]]:
    """Return the GPUs of exclusive jobs at their requested size whose GPUs are all available."""
    options, option = view.options, view.jobs.option
    whole = (option >= 0) & options.requested[option] & (options.partner_kind[option] < 0) & (view.jobs.gpus >= 1)
    held = {}
    for job, gpus in view.placements.items():
        at = where.get(job)
        if at is not None and whole[at] and (view.usable is None or view.usable[gpus].all()):
            held[job] = tuple(gpus.tolist())
    return held


def _partners(view: View, where: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the jobs that share GPUs in the plan, with their partners. Pairs of different sizes are left out: an elastic job may
    join a larger one, but has no turns in a slot of that size."""
    jobs = view.jobs
    for at in np.flatnonzero(jobs.partner >= 0).tolist():
        other = where.get(jobs.partner.item(at))
        if other is not None and jobs.gpus.item(at) == jobs.gpus.item(other):
            yield jobs.ids.item(at), jobs.ids.item(other)
