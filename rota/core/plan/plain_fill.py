"""Plain fill: the stages of the limited fill for jobs that take whole GPUs to themselves and have one size in each pool.

It grants the same GPUs to the same jobs in the same order as `limited_fill.py`, which can do more. Here candidates are columns,
and only those that could still get GPUs are looked at one by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rota.core.plan.draft import Draft
from rota.core.plan.fill import Grants, fill_in_order
from rota.core.plan.order import Candidates, expand_options
from rota.core.plan.quotas import Guarantees, Limits, limits_of, standing
from rota.core.state.tenant_accounts import TenantAccounts
from rota.model.allocation import Assignment, Ranking
from rota.model.tenants import NO_FAIRNESS
from rota.model.units import FOREVER, MILLI, Bools, Floats, Ints

LOOK = 256
"""Number of candidates after which those that can no longer get GPUs are left out again."""
NOTHING = np.zeros(1, dtype=np.int64)


def is_plain(draft: Draft) -> bool:
    """Whether the jobs of a draft take whole GPUs to themselves, and have one size in each pool or are ranked."""
    options = draft.table.options
    return not (options.has_fractions or options.has_colocated or isinstance(draft.allocation, Assignment))


@dataclass(slots=True, eq=False)
class _Rows:
    """Columns of the candidates."""

    job: Ints
    """Position of each candidate's job."""
    option: Ints
    pool: Ints
    need: Ints
    owner: Ints
    is_last: Bools
    """Whether this is the last candidate of its job."""
    seconds: Floats | None
    """Time left to each job by this option; None if that does not matter."""


class PlainFill:
    """One pass over the candidates of a draft for each stage."""

    def __init__(self, draft: Draft) -> None:
        state, table, options = draft.state, draft.table, draft.table.options
        self._draft, self._state, self._table = draft, state, table
        candidates = draft.candidates
        if candidates.preference is not None:
            candidates = expand_options(candidates, table)
        job = candidates.position
        wanted = options.best[table.kind[job]] if candidates.option is None else candidates.option
        self._candidates = Candidates(job, wanted, candidates.blocking, candidates.reserve)
        seconds = table.steps_left[job] / options.rate[wanted] if candidates.reserve else None
        owner = state.jobs.table.owner[table.rows[job]]
        self._numbers = np.arange(len(job))
        # Kinds with one option each have one candidate for each job.
        self._one_each = isinstance(draft.allocation, Ranking) and options.by_kind.shape[1] == 1
        is_last = np.ones(len(job), dtype=bool) if self._one_each else _is_last(job, self._numbers, len(table))
        self._rows = _Rows(job, wanted, options.pool[wanted], options.milligpus[wanted], owner, is_last, seconds)
        self._in_line = candidates.blocking or candidates.reserve
        self._room: list[int] = (draft.capacity * MILLI).tolist()
        self._smallest = min(options.milligpus.tolist(), default=MILLI)
        self._has = np.zeros(len(table), dtype=bool)
        """Positions that are granted GPUs."""
        self._granted: list[int] = []
        """Numbers of the granted candidates, in the order they were granted."""
        self._limits = limits_of(state, table.rows)
        self._promises = promises_of(state.tenants, state.nodes.cluster.pools)
        self._left = self._promises.left.copy()
        self._waits_for: set[int] = set()
        """Pools in which a job within its tenant's guarantee finds no room."""

    def run(self) -> Grants:
        draft, rows = self._draft, self._rows
        self._keep_pinned()
        self._protected()
        before = len(self._granted)
        for level in range(len(self._promises.of_node)):
            self._within(level)
        owed = self._granted[before:]
        behind = self._borrowers()
        self._borrow(behind)
        number = np.array(self._granted, dtype=np.int64)
        granted = rows.job[number]
        option = np.full(len(self._table), -1, dtype=np.int64)
        option[granted] = rows.option[number]
        place = np.full(len(self._table), len(granted), dtype=np.int64)
        place[granted] = np.arange(len(granted))
        turn = behind[np.argsort(place[rows.job[behind]], kind="stable")]
        each = self._candidates
        draft.candidates = Candidates(rows.job[turn], rows.option[turn], each.blocking, each.reserve)
        draft.limits = Limits() if self._limits is None else self._limits
        draft.owed = rows.job[np.array(owed, dtype=np.int64)]
        return Grants(granted, option, np.array(self._room, dtype=np.int64))

    def _keep_pinned(self) -> None:
        """Let the jobs that keep what they have take it from limits and guarantees."""
        jobs, alive, rows, options = self._state.jobs, self._draft.alive, self._table.rows, self._table.options
        here = np.zeros(jobs.table.size, dtype=bool)
        here[rows if alive is None else rows[alive]] = True
        pinned = ((jobs.table.option[: jobs.table.size] >= 0) & ~here).nonzero()[0]
        pinned = np.array([row for row in pinned.tolist() if jobs.table.id.item(row) in jobs.desired], dtype=np.int64)
        if not len(pinned):
            return
        option = jobs.table.option[pinned]
        need = options.milligpus[option]
        self._promises.take(self._left, jobs.table.owner[pinned], options.pool[option], need)
        if self._limits is not None:
            for job, milligpus in zip(jobs.table.id[pinned].tolist(), need.tolist(), strict=True):
                self._limits.take(job, milligpus)

    def _protected(self) -> None:
        """Let jobs that started a short while ago stay where they are."""
        table, rows = self._table, self._rows
        if not table.starts_cost or not table.protected.any():
            return
        stays = table.protected[rows.job] & (rows.option == table.granted_option[rows.job])
        granted: list[int] = []
        room, seen = self._room, set()
        for number, job, pool, need in self._look(stays.nonzero()[0]):
            if job not in seen and need <= room[pool] and self._fits(job, need):
                seen.add(job)
                room[pool] -= need
                self._take_limits(job, need)
                granted.append(number)
        self._note(granted, 0)

    def _within(self, level: int) -> None:
        """Grant GPUs to jobs within the guarantee of their tenant at this depth. Where no job may overtake another, none does
        inside its tenant."""
        rows, room, smallest, strict = self._rows, self._room, self._smallest, self._in_line
        if max(room, default=0) < smallest:
            return
        promise = self._promises.of_node[level][rows.owner]
        waiting = ((promise >= 0) & ~self._has[rows.job]).nonzero()[0]
        cells = self._promises.cells(promise[waiting], rows.pool[waiting])
        if self._one_each and not strict and self._limits is None:
            found = waiting[_first_that_fit(cells, rows.need[waiting], self._left)]
            after = np.array(room) - np.bincount(rows.pool[found], rows.need[found], len(room)).astype(np.int64)
            if after.min() >= 0:
                self._room = after.tolist()
                self._note(found.tolist(), level)
                return
        left: list[float] = self._left.tolist()
        granted: list[int] = []
        seen: set[int] = set()
        stopped: set[int] = set()
        limits, waits_for = self._limits, self._waits_for
        while len(waiting):
            # Who is beyond the guarantee now stays beyond it, and who is behind one that may not be overtaken stays there.
            if not strict:
                open_to = rows.need[waiting] <= np.array(left)[cells]
                waiting, cells = waiting[open_to], cells[open_to]
            elif stopped:
                open_to = ~np.isin(promise[waiting], list(stopped))
                waiting, cells = waiting[open_to], cells[open_to]
            chunk = waiting[:LOOK]
            for number, job, pool, need, cell, last in zip(
                chunk.tolist(),
                rows.job[chunk].tolist(),
                rows.pool[chunk].tolist(),
                rows.need[chunk].tolist(),
                cells[:LOOK].tolist(),
                rows.is_last[chunk].tolist(),
                strict=True,
            ):
                if job in seen or (stopped and promise.item(number) in stopped):
                    continue
                if need <= left[cell] and (limits is None or self._fits(job, need)):
                    if need <= room[pool]:
                        left[cell] -= need
                        room[pool] -= need
                        seen.add(job)
                        granted.append(number)
                        if limits is not None:
                            self._take_limits(job, need)
                        if room[pool] < smallest and max(room) < smallest:
                            self._note(granted, level)
                            return
                        continue
                    if last:
                        waits_for.add(pool)
                if strict and last:
                    stopped.add(promise.item(number))
            waiting, cells = waiting[LOOK:], cells[LOOK:]
        self._note(granted, level)

    def _borrowers(self) -> Ints:
        """Return the numbers of all candidates in the order in which they borrow."""
        accounts, rows, allocation = self._state.tenants, self._rows, self._draft.allocation
        keys: list[Ints] = []
        if accounts.tenants is not None and accounts.tenants.fairness != NO_FAIRNESS:
            keys.append(places_in_line(accounts)[rows.owner])
        if isinstance(allocation, Ranking) and not allocation.preempt:
            keys.append((self._table.granted_option[rows.job] < 0).astype(np.int64))
        if not keys:
            return self._numbers
        return keys[0].argsort(kind="stable") if len(keys) == 1 else np.lexsort(keys)

    def _borrow(self, order: Ints) -> None:
        """Grant what is left. Where others may overtake the first job that does not fit only without delaying it, they must end
        before any job ends that was granted before it. A job over a limit delays no other."""
        rows, room, smallest = self._rows, self._room, self._smallest
        if max(room, default=0) < smallest:
            return
        if not self._in_line and not self._waits_for and self._limits is None:
            self._borrow_at_once(order)
            return
        is_last = rows.is_last if self._one_each or order is self._numbers else _is_last(rows.job, order, len(self._table))
        soonest, stuck = FOREVER, False
        waiting = order[~self._has[rows.job[order]]]
        granted: list[int] = []
        seen: set[int] = set()
        while len(waiting):
            if stuck or not self._in_line:  # only who fits now can get GPUs
                open_to = rows.need[waiting] <= np.array(room)[rows.pool[waiting]]
                if stuck and rows.seconds is not None:
                    open_to &= rows.seconds[waiting] <= soonest
                waiting = waiting[open_to]
            for number, job, pool, need in self._look(waiting[:LOOK]):
                if job in seen or (stuck and (rows.seconds is None or not rows.seconds.item(number) <= soonest)):
                    continue
                if pool in self._waits_for and self._would_stay(job):
                    continue
                if need <= room[pool] and self._fits(job, need):
                    room[pool] -= need
                    seen.add(job)
                    granted.append(number)
                    self._take_limits(job, need)
                    if room[pool] < smallest and max(room) < smallest:
                        self._granted += granted
                        return
                    if not stuck and rows.seconds is not None:
                        soonest = min(soonest, rows.seconds.item(number))
                elif self._in_line and is_last[number] and self._fits(job, need):
                    stuck = True
                    if self._candidates.blocking:
                        self._granted += granted
                        return
            waiting = waiting[LOOK:]
        self._granted += granted

    def _borrow_at_once(self, order: Ints) -> None:
        """Grant what is left where no job has to wait for another and no limit counts."""
        rows, room = self._rows, np.array(self._room)
        waiting = order[~self._has[rows.job[order]]]
        waiting = waiting[rows.need[waiting] <= room[rows.pool[waiting]]]
        job, pool, need = rows.job[waiting], rows.pool[waiting], rows.need[waiting]
        fits = _first_that_fit(pool, need, room) if self._one_each else fill_in_order(job, pool, need, room.copy())
        self._granted += waiting[fits].tolist()
        self._room = (room - np.bincount(pool[fits], need[fits], len(room)).astype(np.int64)).tolist()

    def _look(self, numbers: Ints) -> Iterator[tuple[int, int, int, int]]:
        """Yield the number, job, pool and need of candidates."""
        rows = self._rows
        columns = (numbers, rows.job[numbers], rows.pool[numbers], rows.need[numbers])
        return zip(*(column.tolist() for column in columns), strict=True)

    def _note(self, granted: list[int], level: int) -> None:
        """Note who is granted GPUs, which also count for the tenants at this level of guarantees and above."""
        if granted:
            rows, number = self._rows, np.array(granted, dtype=np.int64)
            self._has[rows.job[number]] = True
            self._granted += granted
            self._promises.take(self._left, rows.owner[number], rows.pool[number], rows.need[number], level)

    def _would_stay(self, job: int) -> bool:
        """Whether a job would start where a job within its tenant's guarantee waits, and could not be suspended for that."""
        if self._table.granted_option[job] >= 0:
            return False
        jobs, row = self._state.jobs.table, self._table.rows[job]
        return not (jobs.saves[row] or jobs.can_park[row])

    def _id(self, job: int) -> int:
        return self._state.jobs.table.id.item(self._table.rows.item(job))

    def _fits(self, job: int, need: int) -> bool:
        return self._limits is None or self._limits.fits(self._id(job), need)

    def _take_limits(self, job: int, need: int) -> None:
        if self._limits is not None:
            self._limits.take(self._id(job), need)


def _first_that_fit(cell: Ints, need: Ints, left: Floats | Ints) -> Ints:
    """Return the numbers of those that fit, each into what those before it leave of its cell."""
    left, cells = left.astype(np.float64), np.arange(len(left))
    index = (need <= left[cell]).nonzero()[0]
    index = index[cell[index].argsort(kind="stable")]
    taken = []
    while len(index):
        here, wants = cell[index], need[index]
        total = wants.cumsum()
        first = here.searchsorted(cells)
        before = np.concatenate((NOTHING, total))[first]
        fits = total - before[here] <= left[here]
        taken.append(index[fits])
        left -= np.bincount(here[fits], wants[fits], len(left))
        index = index[~fits & (wants <= left[here])]
    if not taken:
        return np.empty(0, dtype=np.int64)
    found = np.concatenate(taken)
    found.sort()
    return found


def _is_last(job: Ints, order: Ints, jobs: int) -> Bools:
    """Return whether each candidate is the last of its job in this order."""
    last = np.empty(jobs, dtype=np.int64)
    last[job[order]] = order
    found: Bools = last[job] == np.arange(len(job))
    return found


class Promises:
    """The guarantees of tenants as arrays. A guarantee has a cell of what is left of it, or one for each pool."""

    def __init__(self, accounts: TenantAccounts, pools: tuple[str, ...]) -> None:
        guarantees = Guarantees(accounts, pools)
        self.of_node: list[Ints] = []
        """For each depth with guarantees, deepest first: the guarantee that counts for each node, -1: none."""
        nodes = list(guarantees.left)
        number = {node: each for each, node in enumerate(nodes)}
        number[-1] = -1
        for depth in guarantees.depths:
            at_depth = [number[guarantees.at_depth(node, depth)] for node in range(len(accounts.parent))]
            self.of_node.append(np.array(at_depth, dtype=np.int64))
        by_type = [node in guarantees.left_by_pool for node in nodes]
        sizes = [len(pools) if typed else 1 for typed in by_type]
        self._first_cell = np.cumsum([0, *sizes])[:-1]
        self._by_type: Ints | None = np.array(by_type, dtype=np.int64) if any(by_type) else None
        self.left: Floats = np.array(
            [
                each
                for node in nodes
                for each in (guarantees.left_by_pool[node] if node in guarantees.left_by_pool else [guarantees.left[node]])
            ],
            dtype=np.float64,
        )

    def cells(self, promise: Ints, pool: Ints) -> Ints:
        """Return the cell of each of these guarantees that GPUs of these pools are taken from."""
        found: Ints = self._first_cell[promise]
        return found if self._by_type is None else found + self._by_type[promise] * pool

    def take(self, left: Floats, owner: Ints, pool: Ints, need: Ints, level: int = 0) -> None:
        """Let jobs take GPUs from the guarantees at this level and above."""
        for of_node in self.of_node[level:]:
            promise = of_node[owner]
            some = promise >= 0
            left -= np.bincount(self.cells(promise[some], pool[some]), need[some], len(left))


def promises_of(accounts: TenantAccounts, pools: tuple[str, ...]) -> Promises:
    """Return the guarantees of tenants, with nothing taken. They are found again only when tenants, users or pools change."""
    known = accounts._promises
    if known is not None and known[0] is accounts.parent and known[1] is accounts.tenants and known[2] == pools:
        assert isinstance(known[3], Promises)
        return known[3]
    found = Promises(accounts, pools)
    accounts._promises = (accounts.parent, accounts.tenants, pools, found)
    return found


def places_in_line(accounts: TenantAccounts) -> Ints:
    """Return the place of each node's borrowers; those that come at the same time have the same."""
    known = accounts._line
    if known is None or known[0] is not accounts.band or known[1] is not accounts.parent:
        ranks = standing(accounts)
        place = np.zeros(len(accounts.parent), dtype=np.int64)
        if len(ranks):
            order = np.lexsort(ranks[::-1])
            in_order = ranks[:, order]
            place[order[1:]] = (in_order[:, 1:] != in_order[:, :-1]).any(axis=0).cumsum()
        known = accounts._line = (accounts.band, accounts.parent, place)
    return known[2]
