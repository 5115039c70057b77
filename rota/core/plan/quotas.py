"""Quotas: groups of jobs with a limit, in GPUs or in running jobs, and what is left of each limit while a plan is made.

A job may be in several groups, and takes from all of them. What sets limits adds its groups in `limits_of`: tenants, their users,
and arrays. The planner calls it once for each plan, and only if there are tenants or arrays with a limit.
"""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from rota.core.state.state import State
from rota.core.state.tenant_accounts import TenantAccounts
from rota.model.array_limit import ArrayLimit
from rota.model.tenants import lineage
from rota.model.units import MILLI, Floats, Ints

NO_GROUPS: tuple[int, ...] = ()


class Limits:
    """What is left of the limits of groups. GPUs count in thousandths; two jobs that share GPUs count with all of them each."""

    def __init__(self) -> None:
        self._number: dict[Hashable, int] = {}
        self._left: list[float] = []
        self._counts_jobs: list[bool] = []
        self._groups: dict[int, tuple[int, ...]] = {}
        """Groups of each job in one."""

    def group(self, name: Hashable, limit: float, *, counts_jobs: bool = False) -> int:
        """Return the number of a group. `limit`: thousandths of GPUs, or with `counts_jobs` running jobs."""
        number = self._number.get(name)
        if number is None:
            number = self._number[name] = len(self._left)
            self._left.append(limit)
            self._counts_jobs.append(counts_jobs)
        return number

    def join(self, job: int, groups: Sequence[int]) -> None:
        """Put a job into more groups."""
        if groups:
            self._groups[job] = (*self._groups.get(job, NO_GROUPS), *groups)

    @property
    def names(self) -> list[Hashable]:
        """Names of the groups, by number."""
        return list(self._number)

    def groups_of(self, job: int) -> tuple[int, ...]:
        return self._groups.get(job, NO_GROUPS)

    def left(self, group: int) -> float:
        """Return what is left of the limit of a group; below 0 if its jobs hold more."""
        return self._left[group]

    def fits(self, job: int, milligpus: int, before: int = 0) -> bool:
        """Whether a job may have these GPUs instead of those that it has taken before."""
        return self.reached(job, milligpus, before) is None

    def reached(self, job: int, milligpus: int, before: int = 0) -> int | None:
        """Return the first group that has no room for these GPUs; None if all have."""
        for group in self._groups.get(job, NO_GROUPS):
            more = (0 if before else 1) if self._counts_jobs[group] else milligpus - before
            if more > self._left[group] and more > 0:
                return group
        return None

    def take(self, job: int, milligpus: int) -> None:
        """Let a job take GPUs."""
        for group in self._groups.get(job, NO_GROUPS):
            self._left[group] -= 1 if self._counts_jobs[group] else milligpus

    def copy(self) -> "Limits":
        """Return an independent copy of what is left. Groups are shared."""
        twin = Limits()
        twin.__dict__.update(self.__dict__)
        twin._left = list(self._left)
        return twin

    def give_back(self, job: int, milligpus: int) -> None:
        """Take GPUs back from a job."""
        for group in self._groups.get(job, NO_GROUPS):
            self._left[group] += 1 if self._counts_jobs[group] else milligpus


def limits_of(state: State, rows: Ints) -> Limits | None:
    """Return the limits of the jobs in these rows, and of all jobs that have GPUs by the plan in force, with nothing taken. None:
    no group is limited."""
    tenants = state.tenants.tenants
    has_caps, has_arrays = tenants is not None and bool(tenants.caps or tenants.user_caps), limits_arrays(state)
    if not has_caps and not has_arrays:
        return None
    limits = Limits()
    held = np.fromiter((state.jobs.row[job] for job in state.jobs.desired), dtype=np.int64, count=len(state.jobs.desired))
    here = np.union1d(rows, held)
    if has_caps:
        _join_tenants(state, limits, here)
    if has_arrays:
        _join_arrays(state, limits, here)
    return limits


def limits_arrays(state: State) -> bool:
    """Return whether a job that has not ended belongs to an array that limits its running tasks."""
    table = state.jobs.table
    return "array_limit" in table.in_use and bool((table.array_limit[: table.size][table.id[: table.size] >= 0] > 0).any())


def _join_arrays(state: State, limits: Limits, rows: Ints) -> None:
    """Put the tasks of arrays with a limit into the groups of their arrays."""
    table = state.jobs.table
    mine = rows[table.array_limit[rows] > 0]
    columns = (table.id[mine].tolist(), table.array[mine].tolist(), table.array_limit[mine].tolist())
    groups: dict[int, int] = {}
    for job, array, most in zip(*columns, strict=True):
        if array not in groups:
            groups[array] = limits.group(ArrayLimit(array, most), most, counts_jobs=True)
        limits.join(job, (groups[array],))


def _join_tenants(state: State, limits: Limits, rows: Ints) -> None:
    """Put jobs into the groups of their tenants and users."""
    accounts, table = state.tenants, state.jobs.table
    by_owner: dict[int, tuple[int, ...]] = {}
    for job, owner in zip(table.id[rows].tolist(), table.owner[rows].tolist(), strict=True):
        groups = by_owner.get(owner)
        if groups is None:
            groups = by_owner[owner] = tuple(limits.group(*each) for each in _tenant_groups(accounts, owner))
        limits.join(job, groups)


def _tenant_groups(accounts: TenantAccounts, owner: int) -> Iterator[tuple[Hashable, float]]:
    """Yield the names and limits of the groups of a user in a tenant."""
    tenants = accounts.tenants
    assert tenants is not None
    path, user = accounts.keys[owner]
    for step in lineage(path):
        if step in tenants.caps:
            yield (step, None), tenants.caps[step] * MILLI
    for step in reversed(lineage(path)):  # the nearest tenant that sets one counts, as for a policy
        if step in tenants.user_caps:
            yield (step, user), tenants.user_caps[step] * MILLI
            break


def planned_milligpus(state: State, job: int) -> int:
    """Return the thousandths of GPUs that a job has in the plan in force; those it asks for where it has a part of a GPU."""
    return state.beliefs.options.milligpus.item(state.jobs.table.option.item(state.jobs.row[job]))


def taken_limits(state: State) -> Limits | None:
    """Return the limits, less what jobs have in the plan in force; None: no group is limited."""
    limits = limits_of(state, state.jobs.rows)
    if limits is not None:
        for job in state.jobs.desired:
            limits.take(job, planned_milligpus(state, job))
    return limits


class Guarantees:
    """What is left of the guarantees of tenants. A job within one takes from those of all tenants above it too."""

    def __init__(self, accounts: TenantAccounts, pools: Sequence[str]) -> None:
        self._accounts = accounts
        self.left: dict[int, float] = {}
        """Thousandths of GPUs by tenant."""
        self.left_by_pool: dict[int, Floats] = {}
        """Thousandths of GPUs of each pool, by tenant with a guarantee of certain types."""
        for path in accounts.tenants.paths if accounts.tenants is not None else ():
            assert accounts.tenants is not None
            mine = accounts.tenants.guarantee(path)
            if mine.gpus:
                node = accounts.node_of[path, None]
                self.left[node] = mine.gpus * MILLI
                if mine.by_type:
                    self.left_by_pool[node] = np.array([mine.by_type.get(name, 0.0) * MILLI for name in pools])
        self._of_owner: dict[int, tuple[int, ...]] = {}
        self.depths: list[int] = sorted({accounts.depth.item(node) for node in self.left}, reverse=True)
        """Depths at which tenants have guarantees, deepest first."""

    def nodes_of(self, owner: int) -> tuple[int, ...]:
        """Return the tenants with a guarantee to which a user's jobs belong, deepest first."""
        found = self._of_owner.get(owner)
        if found is None:
            found = tuple(node for node in self._accounts.lineage(owner) if node in self.left)
            self._of_owner[owner] = found
        return found

    def at_depth(self, owner: int, depth: int) -> int:
        """Return the tenant of this depth whose guarantee counts for a user's jobs; -1: none."""
        return next((node for node in self.nodes_of(owner) if self._accounts.depth.item(node) == depth), -1)

    def has_room(self, node: int, pool: int, milligpus: int) -> bool:
        """Whether a job with these GPUs is within the guarantee of a tenant."""
        if node in self.left_by_pool:
            return bool(milligpus <= self.left_by_pool[node][pool])
        return milligpus <= self.left[node]

    def take(self, owner: int, pool: int, milligpus: int) -> None:
        """Let a user's job take GPUs."""
        for node in self.nodes_of(owner):
            self.left[node] -= milligpus
            if node in self.left_by_pool:
                self.left_by_pool[node][pool] -= milligpus


def standing(accounts: TenantAccounts) -> Ints:
    """Return the rank of each node's borrowers: for each depth the rank of the node of that depth above it, smaller is first."""
    above = accounts.above
    ranks: Ints = np.where(above >= 0, -accounts.band[above], 0)
    return ranks
