"""Limited fill: who runs now where jobs have limits or tenants.

Stages, one after the other:

1. Jobs that keep their GPUs whatever the policy answers take from the limits and guarantees first.
2. Jobs within the guarantee of their tenant, in the policy's order: the deepest tenants first, then those above with the rest.
3. All others borrow, in the order of their tenants' credits or usage, then of their users', then in the policy's.

A limit is never exceeded in any stage. Without tenants `fill.py` does the same in one stage.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rota.core.plan.draft import Draft
from rota.core.plan.fill import Grants, SplitGpu, part_for
from rota.core.plan.order import Candidates, expand_options
from rota.core.plan.plain_fill import PlainFill, is_plain
from rota.core.plan.quotas import Guarantees, Limits, limits_of, planned_milligpus, standing
from rota.model.allocation import Assignment, Ranking
from rota.model.tenants import NO_FAIRNESS
from rota.model.units import FOREVER, MILLI, Ints

NO_LIMITS = Limits()


def grant_within_limits(draft: Draft) -> Grants:
    """Grant each job its first option that has room, within limits. The candidates of the draft get the order of the stages."""
    return PlainFill(draft).run() if is_plain(draft) else LimitedFill(draft).run()


class LimitedFill:
    """One pass over the candidates of a draft for each stage."""

    def __init__(self, draft: Draft) -> None:
        state, table = draft.state, draft.table
        self._draft, self._state, self._table = draft, state, table
        candidates = draft.candidates
        if candidates.preference is not None:
            candidates = expand_options(candidates, table)
        options = table.options
        wanted = options.best[table.kind[candidates.position]] if candidates.option is None else candidates.option
        self._guarantees = Guarantees(state.tenants, state.nodes.cluster.pools)
        self._named = len(wanted)
        """Number of candidates that the answer names. Those behind them may run within a guarantee only."""
        if isinstance(draft.allocation, Assignment) and self._guarantees.depths:
            position, more = _unnamed(draft, candidates.position)
            candidates = replace(candidates, position=np.concatenate((candidates.position, position)))
            wanted = np.concatenate((wanted, more))
        self._candidates: Candidates = replace(candidates, option=wanted, preference=None)
        self._job: list[int] = candidates.position.tolist()
        self._way: list[int] = wanted.tolist()
        self._need: list[int] = options.milligpus.tolist()
        self._pool: list[int] = options.pool.tolist()
        self._other_side: list[int] = options.partner_row.tolist()
        self._ids: list[int] = state.jobs.table.id[table.rows].tolist()
        self._owner: list[int] = state.jobs.table.owner[table.rows].tolist()
        self._last = {job: number for number, job in enumerate(self._job)}
        self._room: list[int] = (draft.capacity * MILLI).tolist()
        self._option: list[int] = [-1] * len(table)
        self._partner: list[int] = [-1] * len(table)
        self._order: list[int] = []
        self._split = [SplitGpu(table.gpu_pool.item(gpu), gpu, table.room_at(gpu)) for gpu in table.kept_fractional_gpus()]
        self._seconds = table.steps_left[candidates.position] / options.rate[wanted] if candidates.reserve else None
        self._limits = limits_of(state, table.rows) or NO_LIMITS
        self._smallest = 0 if options.has_fractions else min(self._need, default=MILLI)
        self._sizes = options.elastic and isinstance(draft.allocation, Assignment)
        self.owed: list[int] = []
        """Positions of jobs that run within the guarantee of their tenant."""
        self._waits_for: set[int] = set()
        """Pools in which a job within its tenant's guarantee finds no room."""

    def run(self) -> Grants:
        self._keep_pinned()
        self._protected()
        for depth in self._guarantees.depths:
            self._within(depth)
        behind = self._borrowers()
        self._borrow(behind)
        draft, options = self._draft, self._table.options
        granted = np.array(self._order, dtype=np.int64)
        option = np.array(self._option, dtype=np.int64)
        at = np.argsort(_places(self._order, len(option))[self._candidates.position[behind]], kind="stable")
        turn = behind[at]
        turn = turn[(turn < self._named) | (option[self._candidates.position[turn]] >= 0)]
        assert self._candidates.option is not None
        draft.candidates = replace(
            self._candidates, position=self._candidates.position[turn], option=self._candidates.option[turn]
        )
        draft.limits = self._limits
        draft.owed = np.array(self.owed, dtype=np.int64)
        partner = np.array(self._partner, dtype=np.int64) if options.has_colocated else None
        used = [each for each in self._split if each.members]
        return Grants(granted, option, np.array(self._room, dtype=np.int64), partner, used)

    def _keep_pinned(self) -> None:
        """Let the jobs that keep what they have take it from limits and guarantees."""
        state, draft = self._state, self._draft
        alive = self._ids if draft.alive is None else [self._ids[at] for at in draft.alive.nonzero()[0].tolist()]
        for job in sorted(state.jobs.desired.keys() - set(alive)):
            row, milligpus = state.jobs.row[job], planned_milligpus(state, job)
            self._limits.take(job, milligpus)
            pool = self._pool[state.jobs.table.option.item(row)]
            self._guarantees.take(state.jobs.table.owner.item(row), pool, milligpus)

    def _protected(self) -> None:
        """Let jobs that started a short while ago stay where they are."""
        table = self._table
        if not table.starts_cost or not table.protected.any():
            return
        for number, job in enumerate(self._job):
            if table.protected[job] and self._way[number] == table.granted_option[job] and self._option[job] < 0:
                self._try(number, self._way[number])

    def _within(self, depth: int) -> None:
        """Grant GPUs to jobs within the guarantee of their tenant at this depth. Where no job may overtake another, none does
        inside its tenant."""
        strict = self._candidates.blocking or self._candidates.reserve
        stopped: set[int] = {-1}
        tenant_of = {owner: self._guarantees.at_depth(owner, depth) for owner in set(self._owner)}
        for number, job in enumerate(self._job):
            node = tenant_of[self._owner[job]]
            if node in stopped or self._option[job] >= 0:
                continue
            if self._is_full():
                break
            granted = within = False
            for way in self._sizes_of(number, node):
                if self._guarantees.has_room(node, self._pool[way], self._need[way]):
                    within = True
                    granted = self._try(number, way)
                if granted:
                    self.owed.append(job)
                    break
            if granted or self._last[job] != number:
                continue
            if within and self._within_limits(number):
                self._waits_for.add(self._pool[self._way[number]])
            if strict:
                stopped.add(node)

    def _borrowers(self) -> Ints:
        """Return the numbers of all candidates in the order in which they borrow."""
        accounts, position = self._state.tenants, self._candidates.position
        keys: list[Ints] = [np.arange(len(position))]
        if accounts.tenants is not None and accounts.tenants.fairness != NO_FAIRNESS:
            owner = np.array(self._owner, dtype=np.int64)[position]
            keys += list(standing(accounts)[::-1, owner])
        allocation = self._draft.allocation
        if isinstance(allocation, Ranking) and not allocation.preempt:
            keys.append((self._table.granted_option[position] < 0).astype(np.int64))
        return np.lexsort(keys)

    def _borrow(self, order: Ints) -> None:
        """Grant what is left. Where others may overtake the first job that does not fit only without delaying it, they must end
        before any job ends that was granted before it. A job over a limit delays no other."""
        soonest, stuck = FOREVER, False
        in_line = self._candidates.blocking or self._candidates.reserve
        last = {self._job[number]: number for number in order.tolist()}
        for number in order.tolist():
            job = self._job[number]
            if self._is_full():
                break
            if self._option[job] >= 0:
                if self._sizes and number < self._named:
                    self._grow(number)
                continue
            if number >= self._named:
                continue
            if stuck and (self._seconds is None or not self._seconds[number] <= soonest):
                continue
            if self._waits_for and self._would_stay(number):
                continue
            granted = any(self._try(number, way) for way in self._sizes_of(number))
            if granted and not stuck and self._seconds is not None:
                soonest = min(soonest, float(self._seconds[number]))
            elif not granted and in_line and last[job] == number and self._within_limits(number):
                stuck = True
                if self._candidates.blocking:
                    break

    def _sizes_of(self, number: int, tenant: int = -1) -> Iterator[int]:
        """Yield the option that the answer names. If it names one size, and the guarantee of this tenant or a limit has no room
        for it, yield the smaller sizes of the job in the same pool too, largest first."""
        named = self._way[number]
        yield named
        if not self._sizes:
            return
        options, job, pool, need = self._table.options, self._job[number], self._pool[named], self._need[named]
        if tenant >= 0 and self._guarantees.has_room(tenant, pool, need) and self._limits.fits(self._ids[job], need):
            return
        if tenant < 0 and self._limits.fits(self._ids[job], need):
            return
        rows = options.by_kind[self._table.kind.item(job)]
        smaller = [
            row
            for row in rows[rows >= 0].tolist()
            if self._pool[row] == pool
            and MILLI <= self._need[row] < need
            and options.partner_kind[row] < 0
            and not options.too_slow[row]
        ]
        yield from sorted(smaller, key=lambda row: (-self._need[row], -options.rate.item(row)))

    def _grow(self, number: int) -> None:
        """Give a job that got a smaller size within its guarantee the size that the answer names, if that has room."""
        job, way = self._job[number], self._way[number]
        had = self._option[job]
        more = self._need[way] - self._need[had]
        if self._pool[had] != self._pool[way] or more <= 0 or self._partner[job] >= 0 or more > self._room[self._pool[way]]:
            return
        if self._limits.fits(self._ids[job], self._need[way], self._need[had]):
            self._limits.give_back(self._ids[job], self._need[had])
            self._limits.take(self._ids[job], self._need[way])
            self._room[self._pool[way]] -= more
            self._option[job] = way

    def _is_full(self) -> bool:
        """Whether no pool has room for any size that a job may have."""
        return max(self._room, default=0) < self._smallest

    def _within_limits(self, number: int) -> bool:
        return self._limits.fits(self._ids[self._job[number]], self._need[self._way[number]])

    def _would_stay(self, number: int) -> bool:
        """Whether a job would start where a job within its tenant's guarantee waits, and could not be suspended for that."""
        job = self._job[number]
        if self._pool[self._way[number]] not in self._waits_for or self._table.granted_option[job] >= 0:
            return False
        jobs, row = self._state.jobs.table, self._table.rows[job]
        return not (jobs.saves[row] or jobs.can_park[row])

    def _try(self, number: int, way: int) -> bool:
        """Grant a job an option if there is room within all limits."""
        job, pool, need = self._job[number], self._pool[way], self._need[way]
        if not self._limits.fits(self._ids[job], need):
            return False
        if need < MILLI:
            return self._take_part(job, way, pool, need)
        if need > self._room[pool]:
            return False
        if self._other_side[way] >= 0 and not self._take_pair(job, way, pool, need):
            return False
        self._grant(job, way)
        self._room[pool] -= need
        return True

    def _take_part(self, job: int, way: int, pool: int, need: int) -> bool:
        """Grant a job a part of a GPU."""
        part = part_for(self._table, job, way, pool, need, self._split, self._room[pool])
        if part is None:
            return False
        self._room[pool] -= 0 if part.members or part.gpu in self._table.kept_gpus else MILLI
        part.members.append(job)
        part.room -= need
        self._grant(job, way)
        return True

    def _take_pair(self, job: int, way: int, pool: int, need: int) -> bool:
        """Grant the first job before this one that waits for it as a partner the same GPUs."""
        side = self._other_side[way]
        for number, other in enumerate(self._job):
            if other == job and self._way[number] == way:
                return False  # no partner has had its turn
            if self._way[number] != side or self._option[other] >= 0 or other == job:
                continue
            self._limits.take(self._ids[job], need)
            fits = self._limits.fits(self._ids[other], need)
            self._limits.give_back(self._ids[job], need)
            if fits:
                self._partner[job], self._partner[other] = other, job
                self._grant(other, side)
                return True
        return False

    def _grant(self, job: int, way: int) -> None:
        self._option[job] = way
        self._order.append(job)
        self._limits.take(self._ids[job], self._need[way])
        self._guarantees.take(self._owner[job], self._pool[way], self._need[way])


def _unnamed(draft: Draft, named: Ints) -> tuple[Ints, Ints]:
    """Return positions and options of the jobs that an assignment does not name, in order of submission. It leaves jobs out for
    which it sees no room, and a guarantee makes some."""
    alive = np.ones(len(draft.table), dtype=bool) if draft.alive is None else draft.alive.copy()
    alive[named] = False
    usual = draft.table.options.default_size
    found = [(at, way) for at in alive.nonzero()[0].tolist() for way in draft.options_of(at) if usual[way]]
    both = np.array(found, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _places(order: list[int], count: int) -> Ints:
    """Return the place of each position in an order; those that are not in it come last."""
    found = np.full(count, len(order), dtype=np.int64)
    found[order] = np.arange(len(order))
    return found


def take_back_excess(draft: Draft, before: Ints, limits: Limits) -> None:
    """Take back what tactics granted beyond a limit. `before`: the option of each position before they acted. `limits`: what was
    left then."""
    grants, needs = draft.grants, draft.table.options.milligpus
    draft.limits = limits
    for at in (grants.option != before).nonzero()[0].tolist():
        job, had, has = draft.job_at(at), before.item(at), grants.option.item(at)
        held = needs.item(had) if had >= 0 else 0
        if has >= 0 and limits.fits(job, needs.item(has), held):
            if held:
                limits.give_back(job, held)
            limits.take(job, needs.item(has))
            continue
        mate = -1 if grants.partner is None else grants.partner.item(at)
        if mate >= 0 and grants.partner is not None:
            grants.partner[[at, mate]] = -1
            draft.trials = [trial for trial in draft.trials if job not in trial.jobs]
        else:
            pool = draft.table.options.pool.item(has if has >= 0 else had)
            grants.left[pool] += (needs.item(has) if has >= 0 else 0) - held
        grants.option[at] = had
        if had < 0:
            grants.position = grants.position[grants.position != at]


def reclaimed_by(draft: Draft, stopped: list[int]) -> tuple[tuple[int, int], ...]:
    """Pair jobs that give up their GPUs with a job of another tenant that starts within its guarantee in the same pool."""
    state, table, options = draft.state, draft.table, draft.table.options
    starts = [at for at in draft.owed.tolist() if table.granted_option[at] < 0 and draft.grants.option[at] >= 0]
    if not starts or not stopped:
        return ()
    found, jobs, paths = [], state.jobs.table, [path for path, _ in state.tenants.node_of]
    for job in stopped:
        row = state.jobs.row[job]
        pool, path = options.pool.item(jobs.option.item(row)), paths[jobs.owner.item(row)]
        for at in starts:
            same_pool = options.pool.item(draft.grants.option.item(at)) == pool
            if same_pool and paths[jobs.owner.item(table.rows.item(at))] != path:
                found.append((job, draft.job_at(at)))
                break
    return tuple(found)
