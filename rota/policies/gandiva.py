"""Gandiva (OSDI'18): every job runs soon. Jobs of one size take turns on servers of their own; no job waits while one could be
shared. Packing, migration, defragmentation and growing are tactics: `--policy gandiva` turns them on, and it looks where they
have put its jobs.

It wants early feedback for all and busy GPUs. Fairness between users and short completion times are not what it is for.
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

LEAST_SLICE_SECONDS = 10.0
ROUNDING = 1e-6


@dataclass(frozen=True)
class Gandiva:
    """Over-subscription before queueing, and turns that are long against what a switch costs."""

    slice_seconds: float = 60.0
    """How long a turn is at least."""
    most_lost: float = 0.02
    """A turn is so long that switching takes no more than this part of it."""
    patience_slices: int = 10
    """A job for whose size there are no servers gets some after so many turns."""
    balance_seconds: float = 600.0
    """How often a server may go from one size of jobs to another that needs it more."""

    needs: ClassVar[Needs] = Needs(tactics="pack:least_gain=0,grow,migrate,defragment")

    def __post_init__(self) -> None:
        if not LEAST_SLICE_SECONDS <= self.slice_seconds < FOREVER:
            raise OptionError(
                "must be 10 s or more.", field="gandiva slice_seconds", value=self.slice_seconds, hint="gandiva:slice_seconds=60"
            )
        if not 0 < self.most_lost < 1:
            raise OptionError("must be between 0 and 1.", field="gandiva most_lost", value=self.most_lost, hint="0.02")

    def allocate(self, view: View) -> Assignment:
        view = _with_sizes_that_fit(view)
        jobs = view.jobs
        where = {job: at for at, job in enumerate(jobs.ids.tolist())}
        tick = int((view.now_s + ROUNDING) // self.slice_seconds)
        before: SlotMemory | None = view.memory
        servers = SlotMap.of(before, view.cluster, view.usable, set(where))
        servers.join(_partners(view, where))
        held = _held(view, where)
        servers.follow(held, tick)
        _leave_hopeless(view, servers, where)
        refused = self._refused(view, servers, where, before)
        waits = dict(before.waiting) if before is not None else {}
        seated = {job for slot in servers.slots for job in slot.jobs}
        arrived = [(waits.get(job, view.now_s), job) for job in where if job not in seated]
        waiting = [job for _, job in sorted(arrived) if not self._seat(view, servers, job, where, tick, job in refused)]
        self._spread_out(view, servers, where, tick, refused)
        balanced_s = before.balanced_s if before is not None else view.now_s
        if waiting:
            waiting = self._make_room(view, servers, waiting, waits, where, tick)
        if view.now_s - balanced_s >= self.balance_seconds - ROUNDING:
            balanced_s = view.now_s
            waiting += self._balance(view, servers, where, tick, refused)
        shared = [slot for slot in servers.slots if len(slot.jobs) > 1]
        for slot in shared:
            tried = view.jobs.pinned.item(where[slot.jobs[0]])
            if not tried and tick - slot.turn >= self._ticks(view, slot, where):
                slot.jobs.append(slot.jobs.pop(0))
                slot.turn = tick
        # A job that has GPUs to itself leaves them before it is given others: it stops by this answer and starts by the next.
        alone = {job: gpus for job, gpus in held.items() if view.jobs.partner[where[job]] < 0}
        leaving = [slot for slot in servers.slots if alone.get(slot.jobs[0], slot.gpus) != slot.gpus]
        runs = [(where[slot.jobs[0]], slot) for slot in servers.slots if slot not in leaving]
        option = [_option(view, at, servers.pool_of(slot), slot.width) for at, slot in runs]
        # A job for which GPUs are free on too many servers names none: it gets those, or others move aside for it.
        gpus = {at: slot.gpus for at, slot in runs if slot.jobs[0] in view.placements or not servers.spans_more(slot)}
        for at in (where[job] for job in waiting if job in refused):
            runs.append((at, Slot((), True, tick, view.now_s)))
            option.append(_widest_room(view, servers, at))
        later = bool(shared) or bool(waiting) or len(gpus) < len(runs)
        return Assignment(
            position=np.array([at for at, _ in runs], dtype=np.int64),
            option=np.array(option, dtype=np.int64),
            gpus=gpus,
            may_move=True,
            until_s=view.now_s + MIN_HOLD_SECONDS if leaving else (tick + 1) * self.slice_seconds if later else FOREVER,
            memory=servers.seating([(job, waits.get(job, view.now_s)) for job in waiting], balanced_s, refused.items()),
            key="turns in slots",
        )

    def _refused(self, view: View, servers: SlotMap, where: dict[int, int], before: SlotMemory | None) -> dict[int, float]:
        """Jobs that were to start on more servers than they need and were not let (`wait_for_place`), and when. While they wait,
        and for some turns in any case, they take no such slot, so that the GPUs serve others."""
        recent_s = view.now_s - self.patience_slices * self.slice_seconds + ROUNDING
        waiting = {job for job, _ in before.waiting} if before is not None else set()
        known = before.refused if before is not None else ()
        refused = {job: at_s for job, at_s in known if job in where and (job in waiting or at_s > recent_s)}
        for slot in [each for each in servers.slots if each.jobs[0] not in view.placements and servers.spans_more(each)]:
            refused |= dict.fromkeys(slot.jobs, view.now_s)
            servers.close(slot)
        return refused

    def _seat(self, view: View, servers: SlotMap, job: int, where: dict[int, int], tick: int, together: bool = False) -> bool:
        """The order of the paper: a server for its size, a new one, any free GPUs, and then a slot that others have already."""
        at = where[job]
        pools = list(_pools(view, at))
        for pool, width, _ in pools:
            slot = servers.open(width, pool, tick, view.now_s, together=together)
            if slot is not None:
                slot.jobs.append(job)
                return True
        found = [(slot, rate) for pool, width, rate in pools if (slot := servers.shortest(width, pool)) is not None]
        if not found:
            return False
        slot, _ = min(found, key=lambda each: (len(each[0].jobs) + 1) / each[1])
        slot.jobs.insert(_turn(view, slot, at, where), job)
        return True

    def _spread_out(self, view: View, servers: SlotMap, where: dict[int, int], tick: int, refused: Collection[int]) -> None:
        """Free GPUs go to jobs that share a slot, those of the fullest slots first: GPUs of the same type, or of another on which
        a job is faster than in turns."""
        while True:
            shared = sorted((s for s in servers.slots if len(s.jobs) > 1), key=lambda s: -len(s.jobs))
            for slot in shared:
                job, here = slot.jobs[-1], servers.pool_of(slot)
                pools = [(here, slot.width), *_faster_than_turns(view, where[job], here, len(slot.jobs))]
                opened = (servers.open(width, pool, tick, view.now_s, together=job in refused) for pool, width in pools)
                new = next((each for each in opened if each is not None), None)
                if new is not None:
                    new.jobs.append(slot.jobs.pop())
                    break
            else:
                return

    def _make_room(
        self, view: View, servers: SlotMap, waiting: list[int], waits: dict[int, float], where: dict[int, int], tick: int
    ) -> list[int]:
        """A job that has waited too long for servers of its size gets the least used ones. Those who were there find others, or
        wait in their turn."""
        patience = self.patience_slices * self.slice_seconds
        left: list[int] = []
        for job in waiting:
            since_s = waits.setdefault(job, view.now_s)
            if view.now_s - since_s < patience - ROUNDING or not self._displace(view, servers, job, where, tick, waits, left):
                left.append(job)
        return left

    def _displace(
        self,
        view: View,
        servers: SlotMap,
        job: int,
        where: dict[int, int],
        tick: int,
        waits: dict[int, float],
        left: list[int],
    ) -> bool:
        patience = self.patience_slices * self.slice_seconds
        for pool, width, _ in _pools(view, where[job]):
            nodes = self._least_used(view, servers, width, pool, patience)
            if not nodes:
                continue
            out = [slot for slot in servers.slots if not nodes.isdisjoint(servers.nodes_of(slot))]
            for slot in out:
                servers.close(slot)
            mine = servers.open(width, pool, tick, view.now_s, own=True)
            if mine is None:
                servers.reopen(out)
                continue
            mine.jobs.append(job)
            for other in [each for slot in out for each in slot.jobs]:
                if not self._seat(view, servers, other, where, tick):
                    waits[other] = view.now_s
                    left.append(other)
            return True
        return False

    def _least_used(self, view: View, servers: SlotMap, width: int, pool: int, tenure: float) -> set[int]:
        """As many servers as a job needs, those with the fewest jobs; none that was given to its jobs just now."""
        young = {node for s in servers.slots if view.now_s - s.since_s < tenure - ROUNDING for node in servers.nodes_of(s)}
        load = {node: 0 for node in view.cluster.pool_nodes[pool] if node not in young and servers.node_gpus[node]}
        for slot in servers.slots:
            for node in servers.nodes_of(slot):
                if node in load:
                    load[node] += len(slot.jobs)
        chosen, gpus = set[int](), 0
        one_will_do = any(servers.node_gpus[node] >= width for node in view.cluster.pool_nodes[pool])
        for node in sorted(load, key=lambda n: (load[n], n)):
            size = servers.node_gpus[node]
            if size >= width:
                return {node}
            if one_will_do:
                continue
            chosen.add(node)
            gpus += size
            if gpus >= width:
                return chosen
        return set()

    def _balance(self, view: View, servers: SlotMap, where: dict[int, int], tick: int, refused: Collection[int]) -> list[int]:
        """A server goes from the size whose jobs share least to the one whose jobs share most, if both are better off so.
        Answers with the jobs that find no other slot."""
        left: list[int] = []
        for pool in range(len(view.cluster.pools)):
            widths = {slot.width for slot in servers.slots if servers.pool_of(slot) == pool and not slot.foreign}
            widths = {w for w in widths if w <= max(servers.node_gpus[node] for node in view.cluster.pool_nodes[pool])}
            if len(widths) < 2:
                continue
            high = max(widths, key=lambda w: servers.height(w, pool))
            low = min(widths, key=lambda w: servers.height(w, pool))
            nodes = [node for node in view.cluster.pool_nodes[pool] if servers.affinity[node] == low]
            if len(nodes) < 2 or high == low:
                continue
            node = min(nodes, key=lambda n: sum(len(s.jobs) for s in servers.slots if n in servers.nodes_of(s)))
            size = servers.node_gpus[node]
            jobs = servers.height(low, pool) * servers.room(low, pool)
            after = jobs / max(servers.room(low, pool) - size // low, 1e-9)
            shared = [s for s in servers.slots if s.width == high and len(s.jobs) > 1 and servers.pool_of(s) == pool]
            if not shared or size < high or after >= servers.height(high, pool):
                continue
            out = [slot for slot in servers.slots if node in servers.nodes_of(slot)]
            for slot in out:
                servers.close(slot)
            new = servers.open(high, pool, tick, view.now_s, own=True)
            if new is not None:
                new.jobs.append(max(shared, key=lambda s: len(s.jobs)).jobs.pop())
            moved = [job for slot in out for job in slot.jobs]
            left += [job for job in moved if not self._seat(view, servers, job, where, tick, job in refused)]
            self._spread_out(view, servers, where, tick, refused)
        return left

    def _ticks(self, view: View, slot: Slot, where: dict[int, int]) -> int:
        """How many ticks a turn lasts, by what switching from one of these jobs to another costs."""
        cost = max(view.jobs.switch_seconds.item(where[job]) for job in slot.jobs)
        return max(int(np.ceil(cost / self.most_lost / self.slice_seconds - ROUNDING)), 1)


def _turn(view: View, slot: Slot, at: int, where: dict[int, int]) -> int:
    """Where in the order of a slot a job joins. One that never ran has its first turn soon: every other turn is for newcomers."""
    ran = view.jobs.run_seconds
    if ran.item(at) > 0:
        return len(slot.jobs)
    new = [ran.item(where[job]) == 0 for job in slot.jobs]
    return min(1 + new[0] + 2 * sum(new[1:]), len(slot.jobs))


def _with_sizes_that_fit(view: View) -> View:
    """The view in which a job that can nowhere have the size that it asked for asks for the nearest one that it accepts in each
    pool: as many GPUs as fit, and of several batch sizes the one that it is fastest with. Else such a job would never run."""
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
    """Pools on which a job can run at the size that it asked for, GPUs and rate; the fastest first. Those where it
    hardly gets further count only if there are no others."""
    options = view.options
    rows = options.by_kind[view.jobs.kind.item(at)]
    rows = rows[(rows >= 0) & options.requested[rows]]
    worth = ~options.too_slow[rows]
    rows = rows[worth] if worth.any() else rows
    for row in rows[np.argsort(-options.rate[rows], kind="stable")].tolist():
        yield options.pool.item(row), options.gpus.item(row), options.rate.item(row)


def _leave_hopeless(view: View, servers: SlotMap, where: dict[int, int]) -> None:
    """Jobs leave slots in which, as is known by now, they hardly get further, and slots whose size is not theirs any more. They
    find others as if they had just come."""
    for slot in list(servers.slots) if view.options.has_too_slow or view.options.elastic else ():
        here = servers.pool_of(slot), slot.width
        slot.jobs = [job for job in slot.jobs if any((pool, width) == here for pool, width, _ in _pools(view, where[job]))]
        if not slot.jobs:
            servers.close(slot)


def _faster_than_turns(view: View, at: int, here: int, jobs: int) -> list[tuple[int, int]]:
    """Other pools on which a job does more than in its turns in a slot of so many jobs, and GPUs; the fastest first."""
    pools = list(_pools(view, at))
    in_turns = next(rate for pool, _, rate in pools if pool == here) / jobs
    return [(pool, width) for pool, width, rate in pools if pool != here and rate > in_turns]


def _option(view: View, at: int, pool: int, width: int) -> int:
    options = view.options
    rows = options.by_kind[view.jobs.kind.item(at)]
    return int(rows[(rows >= 0) & options.requested[rows] & (options.pool[rows] == pool) & (options.gpus[rows] == width)][0])


def _widest_room(view: View, servers: SlotMap, at: int) -> int:
    """The option of a job where most GPUs are free; of several such, where it is fastest."""
    free = np.bincount(view.cluster.gpu_pool[servers.free], minlength=len(view.cluster.pools))
    pool, width, _ = max(_pools(view, at), key=lambda each: int(free[each[0]]) - each[1])
    return _option(view, at, pool, width)


def _held(view: View, where: dict[int, int]) -> dict[int, tuple[int, ...]]:
    """GPUs of jobs that have as many as they asked for, all of which can still be had."""
    options, option = view.options, view.jobs.option
    whole = (option >= 0) & options.requested[option] & (options.partner_kind[option] < 0) & (view.jobs.gpus >= 1)
    held = {}
    for job, gpus in view.placements.items():
        at = where.get(job)
        if at is not None and whole[at] and (view.usable is None or view.usable[gpus].all()):
            held[job] = tuple(gpus.tolist())
    return held


def _partners(view: View, where: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Jobs that share GPUs by the plan, and with whom. A pair of different sizes is left out: an elastic job may join a larger
    one, and has no turns of its own in a slot of that size."""
    jobs = view.jobs
    for at in np.flatnonzero(jobs.partner >= 0).tolist():
        other = where.get(jobs.partner.item(at))
        if other is not None and jobs.gpus.item(at) == jobs.gpus.item(other):
            yield jobs.ids.item(at), jobs.ids.item(other)
