"""Reserved fill: who runs now while some GPUs are not for every job. It is the limited fill with room by class of GPUs.

A job takes GPUs of classes in which it may start (`core/state/windows.py`), first of those that are reserved for it now, then of
those in no window. A job that may stay where it is stays in its classes. The placer gets the same classes (`reserved_places.py`).
"""

from collections.abc import Collection, Sequence

import numpy as np

from rota.core.plan.draft import Draft, Places
from rota.core.plan.fill import SplitGpu
from rota.core.plan.limited_fill import LimitedFill
from rota.core.state.windows import Access, runs_on
from rota.model.units import MILLI, Bools, Ints

Classes = dict[int, int]
"""Class -> thousandths of GPUs."""


def grant_apart(draft: Draft, access: Access) -> Places:
    """Grant each job its first option that has room on GPUs that it may use."""
    fill = ReservedFill(draft, access)
    grants = fill.run()
    grants.left = np.array(fill.room[0], dtype=np.int64)  # tactics give away what is for all
    taken = {at: classes for at, classes in fill.taken.items() if grants.option[at] >= 0}
    leaves = {at for at in taken if grants.option[at] == draft.table.granted_option[at] and at not in fill.stays}
    return Places(grants, classes=taken, leaves=leaves)


class ReservedFill(LimitedFill):
    """One pass over the candidates, with what each class of GPUs has left."""

    def __init__(self, draft: Draft, access: Access) -> None:
        super().__init__(draft)
        self._access = access
        state, cluster = draft.state, draft.state.nodes.cluster
        usable = state.usable()[0].copy()
        usable[list(draft.table.kept_gpus)] = False
        self._usable: Bools = usable
        self.room = self._count(usable)
        """Thousandths of GPUs that each class has left, by pool."""
        self._free = self._count(usable & state.nodes.planned.free)
        """Thousandths of GPUs that are free by the plan in force and not taken since, in the same form."""
        self._refused: dict[tuple[int, int], int] = {}
        """The smallest need for which there was no room, by rights and pool. Room only becomes less."""
        self.taken: dict[int, Classes] = {}
        """What the job at each position takes."""
        self.stays: set[int] = set()
        """Positions of jobs that keep their GPUs, or a fraction of one."""
        self._pool_of_gpu: Ints = cluster.gpu_pool
        for split in self._split:
            split.gpu_class = access.gpu_class.item(split.gpu)

    def _count(self, gpus: Bools) -> list[list[int]]:
        pools, classes = len(self._state.nodes.cluster.pools), len(self._access.windows_of)
        cell = self._access.gpu_class[gpus] * pools + self._state.nodes.cluster.gpu_pool[gpus]
        counts = np.bincount(cell, minlength=classes * pools).reshape(classes, pools) * MILLI
        found: list[list[int]] = counts.tolist()
        return found

    # One job ----------------------------------------------------------------------------------------------------------

    def _try(self, number: int, way: int) -> bool:
        job, pool, need = self._job[number], self._pool[way], self._need[way]
        if not self._limits.fits(self._ids[job], need):
            return False
        if need < MILLI:
            return self._take_part(job, way, pool, need)
        if need > self._room[pool]:
            return False
        new = self._table.granted_option.item(job) < 0
        if new and need >= self._refused.get((self._access.rights(self._ids[job]), pool), need + 1):
            return False
        if self._other_side[way] >= 0:
            return self._try_pair(job, way, pool, need)
        stays = self._where_it_is(job, way)
        classes = stays if stays is not None else self._pick(self._starts(job), pool, need, self._has_now(job))
        if classes is None:
            key = self._access.rights(self._ids[job]), pool
            self._refused[key] = min(need, self._refused.get(key, need))
            return False
        self._take(job, pool, classes, stays=stays is not None)
        self._grant(job, way)
        return True

    def _take(self, job: int, pool: int, classes: Classes, *, stays: bool = False) -> None:
        for each, milli in classes.items():
            self.room[each][pool] -= milli
            if not stays:
                self._free[each][pool] -= min(milli, self._free[each][pool])
        self._room[pool] -= sum(classes.values())
        self.taken[job] = classes
        if stays:
            self.stays.add(job)

    def _starts(self, job: int) -> Bools:
        return self._access.starts(self._ids[job])

    def _where_it_is(self, job: int, way: int) -> Classes | None:
        """Return the classes of the GPUs that a job has by this option if it may keep them and they have room; None if not."""
        if self._table.granted_option.item(job) != way:
            return None
        gpus = self._state.jobs.desired[self._ids[job]]
        if not self._usable[gpus].all() or not self._access.may_keep(self._ids[job]):
            return None
        classes = self._classes_of(gpus)
        pool = self._pool[way]
        return classes if all(milli <= self.room[each][pool] for each, milli in classes.items()) else None

    def _classes_of(self, gpus: Ints) -> Classes:
        names, counts = np.unique(self._access.gpu_class[gpus], return_counts=True)
        return dict(zip(names.tolist(), (counts * MILLI).tolist(), strict=True))

    def _has_now(self, job: int) -> Collection[int]:
        """Return the classes of the GPUs on which a job runs."""
        runs = runs_on(self._state, self._ids[job])
        return () if runs is None else self._classes_of(runs)

    def _pick(self, may: Bools, pool: int, need: int, first: Collection[int] = ()) -> Classes | None:
        """Return from which classes a job takes this much: from one if it can, and from GPUs that no job has if it can. `first`:
        classes that come before others."""
        order = sorted(may.nonzero()[0].tolist(), key=lambda each: (each not in first, *self._rank(each)))
        for rooms in (self._free, self.room):
            has = {each: min(rooms[each][pool], self.room[each][pool]) // MILLI * MILLI for each in order}
            whole = next((each for each in order if has[each] >= need), None)
            if whole is not None:
                return {whole: need}
            if sum(has.values()) >= need:
                found: Classes = {}
                for each in order:
                    if has[each] and need:
                        found[each] = min(has[each], need)
                        need -= found[each]
                return found
        return None

    def _rank(self, each: int) -> tuple[int, float]:
        """Return the place of a class among those in which a job may start: reserved now, in no window, and in one to come."""
        if not each:
            return 1, 0.0
        return (0, 0.0) if self._access.has_begun[each] else (2, -self._access.begins_s[each])

    def _grow(self, number: int) -> None:
        job, way = self._job[number], self._way[number]
        had = self._option[job]
        pool, more = self._pool[way], self._need[way] - self._need[had]
        if self._pool[had] != pool or more <= 0 or self._partner[job] >= 0 or job not in self.taken:
            return
        if not self._limits.fits(self._ids[job], self._need[way], self._need[had]):
            return
        classes = self._pick(self._starts(job), pool, more, self.taken[job])
        if classes is None:
            return
        before = self.taken[job]
        self._take(job, pool, classes)
        self.taken[job] = {each: before.get(each, 0) + classes.get(each, 0) for each in before | classes}
        self.stays.discard(job)
        self._limits.give_back(self._ids[job], self._need[had])
        self._limits.take(self._ids[job], self._need[way])
        self._option[job] = way

    def _would_stay(self, number: int) -> bool:
        """Whether a job would start where one within its tenant's guarantee waits, and not on GPUs that are reserved for it."""
        if not super()._would_stay(number):
            return False
        way, may = self._way[number], self._starts(self._job[number]).copy()
        may &= np.array(self._access.has_begun)
        return self._pick(may, self._pool[way], self._need[way]) is None

    # Jobs that share GPUs -----------------------------------------------------------------------------------------------

    def _take_part(self, job: int, way: int, pool: int, need: int) -> bool:
        """Grant a job a fraction of a GPU: of the one where it has one, else of the fullest that has room, else of another."""
        table, home = self._table, self._table.current_gpu(job, way)
        part: SplitGpu | None = None
        if home >= 0 and self._access.may_keep(self._ids[job]):
            part = next((each for each in self._split if each.gpu == home), None)
            inside = self._access.gpu_class.item(home)
            if part is None and (self.room[inside][pool] >= MILLI or home in table.kept_gpus):
                part = SplitGpu(pool, home, table.room_at(home), gpu_class=inside)
                self._split.append(part)
            part = part if part is not None and part.room >= need else None
        if part is None:
            may = self._starts(job)
            fits = [each for each in self._split if each.pool == pool and each.room >= need and may[each.gpu_class]]
            part = min(fits, key=lambda each: each.room, default=None)
            if part is None:
                classes = self._pick(may, pool, MILLI)
                if classes is None:
                    return False
                part = SplitGpu(pool, -1, MILLI, gpu_class=next(iter(classes)))
                self._split.append(part)
        if not part.members and part.gpu not in table.kept_gpus:
            self._take(job, pool, {part.gpu_class: MILLI}, stays=part.gpu >= 0)
        self.taken[job] = {part.gpu_class: MILLI}
        self.stays.add(job)  # whether it moves shows in the GPU of its part
        part.members.append(job)
        part.room -= need
        self._grant(job, way)
        return True

    def _try_pair(self, job: int, way: int, pool: int, need: int) -> bool:
        """Grant a job, and the first before it that waits for it as a partner, the same GPUs."""
        side = self._other_side[way]
        for number, other in enumerate(self._job):
            if other == job and self._way[number] == way:
                return False  # no partner has had its turn
            if self._way[number] != side or self._option[other] >= 0 or other == job:
                continue
            classes = self._for_both(((job, way), (other, side)), pool, need)
            self._limits.take(self._ids[job], need)
            fits = classes is not None and self._limits.fits(self._ids[other], need)
            self._limits.give_back(self._ids[job], need)
            if classes is not None and fits:
                self._take(job, pool, classes)
                self.taken[other] = classes
                self._partner[job], self._partner[other] = other, job
                self._grant(other, side)
                self._grant(job, way)
                return True
        return False

    def _for_both(self, pair: Sequence[tuple[int, int]], pool: int, need: int) -> Classes | None:
        """Return classes in which both of two jobs may have GPUs, first those of the GPUs that one of them has."""
        for member, way in pair:
            stays = self._where_it_is(member, way)
            others = [self._access.mask(self._ids[each]) for each, _ in pair]
            if stays is not None and all(mask[self._state.jobs.desired[self._ids[member]]].all() for mask in others):
                self.stays |= {each for each, _ in pair}
                return stays
        return self._pick(self._starts(pair[0][0]) & self._starts(pair[1][0]), pool, need)
