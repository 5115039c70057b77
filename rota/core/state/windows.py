"""Windows: times in which some GPUs are not for every job. A window is a reservation, or a drain that has not begun.

- During a reservation only the jobs of its tenants and users are started on its GPUs. Other jobs leave when it begins, if they
  can be suspended. A tenant's reservation is also for the tenants below it.
- A job that cannot be suspended is not started on GPUs that it would have to leave before its end. When it ends is known only
  from its `max_run_time`.

GPUs that are in the same windows form a class. Class 0 has those in none.
"""

from collections.abc import Hashable

import numpy as np

from rota.core.state.records import Drain, same_gpus
from rota.core.state.state import State
from rota.model.job import Phase
from rota.model.tenants import lineage
from rota.model.units import FOREVER, Bools, Ints

_ON_GPUS = (Phase.STARTING, Phase.RUNNING, Phase.RESIZING)


def windows(state: State) -> list[Drain]:
    """Return all windows, by number."""
    return [drain for _, drain in sorted(state.nodes.drains.items()) if drain.reserves or drain.from_s > state.now_s]


def is_for(state: State, window: Drain, job: int) -> bool:
    """Return whether GPUs are reserved for a job, among others."""
    spec = state.jobs.specs[job]
    if window.users and spec.user in window.users:
        return True
    return bool(window.tenants) and not set(window.tenants or ()).isdisjoint(lineage(tenant_of(state, job)))


def tenant_of(state: State, job: int) -> str:
    """Return the tenant of a job: of those that the operator lists, if there are any."""
    spec, tenants = state.jobs.specs[job], state.tenants.tenants
    home = spec.tenant if tenants is None else tenants.home_of(spec.tenant)
    return home or ""


def may_stay(state: State, window: Drain, job: int) -> bool:
    """Return whether a job that runs on GPUs of a window may stay there."""
    return not window.reserves or window.from_s > state.now_s or is_for(state, window, job)


def may_start(state: State, window: Drain, job: int) -> bool:
    """Return whether a job may start now on GPUs of a window."""
    if window.reserves and is_for(state, window, job):
        return True
    if window.from_s <= state.now_s:
        return not window.reserves
    return can_leave(state, window, job) or ends_s(state, job) <= window.from_s


def reserved_for_others(state: State, job: int, gpus: Ints) -> list[int]:
    """Return which of these GPUs are reserved now, and not for this job."""
    taken = {gpu for window in windows(state) if not may_stay(state, window, job) for gpu in window.gpus}
    return sorted(taken.intersection(gpus.tolist()))


def can_leave(state: State, window: Drain, job: int) -> bool:
    """Return whether a job can be suspended when a window begins. Parked jobs stay on their node, which is enough for a
    reservation."""
    table, row = state.jobs.table, state.jobs.row[job]
    return bool(table.saves[row]) or (window.reserves and bool(table.can_park[row]))


def ends_s(state: State, job: int) -> float:
    """Return when a job that starts now ends at the latest; infinite if it has no longest run time."""
    table, row = state.jobs.table, state.jobs.row[job]
    longest = float(table.max_run_seconds[row])
    if longest == FOREVER:
        return FOREVER
    since = state.now_s - table.as_of_s.item(row) if table.gpus_in_use[row] > 0 else 0.0
    return state.now_s + table.move_seconds.item(row) + longest - float(table.run_seconds[row]) - since


def runs_on(state: State, job: int) -> Ints | None:
    """Return the GPUs on which a job runs or starts now and may go on to do so; None: it has to be started."""
    jobs = state.jobs
    attempt, want = jobs.attempts.get(job), jobs.desired.get(job)
    if attempt is None or want is None or attempt.parked or jobs.table.phase.item(jobs.row[job]) not in _ON_GPUS:
        return None
    return attempt.gpus if same_gpus(want, attempt.gpus) or jobs.specs[job].can_resize else None


class Access:
    """Which GPUs each job may use, while there are windows."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.windows = windows(state)
        covered: dict[int, tuple[int, ...]] = {}
        for number, window in enumerate(self.windows):
            for gpu in window.gpus:
                covered[gpu] = (*covered.get(gpu, ()), number)
        classes: dict[tuple[int, ...], int] = {(): 0}
        self.gpu_class: Ints = np.zeros(state.nodes.cluster.gpus, dtype=np.int64)
        """Class of each GPU."""
        for gpu, inside in covered.items():
            self.gpu_class[gpu] = classes.setdefault(inside, len(classes))
        self.windows_of = [tuple(self.windows[number] for number in inside) for inside in classes]
        """Windows of each class."""
        self.has_begun = [any(each.from_s <= state.now_s for each in inside) for inside in self.windows_of]
        """Whether a window of each class has begun."""
        self.begins_s = [min((each.from_s for each in inside), default=FOREVER) for inside in self.windows_of]
        """When the first window of each class begins, or has begun."""
        self.may_start_in: list[Bools] = []
        """By rights: the classes in which a job with these rights may start."""
        self._known: dict[Hashable, int] = {}
        self._rights: dict[int, int] = {}
        self._stays: dict[int, Bools] = {}

    def starts(self, job: int) -> Bools:
        """Return in which classes a job may start."""
        return self.may_start_in[self.rights(job)]

    def rights(self, job: int) -> int:
        """Return a number that jobs share which may start in the same classes for the same reasons."""
        found = self._rights.get(job)
        if found is None:
            jobs = self._state.jobs
            spec, row = jobs.specs[job], jobs.row[job]
            saves = bool(jobs.table.saves[row])
            key: Hashable = (spec.tenant, spec.user, saves)
            if not saves:
                own = job if job in jobs.attempts else None
                key = (spec.tenant, spec.user, bool(jobs.table.can_park[row]), ends_s(self._state, job), own)
            found = self._known.setdefault(key, len(self.may_start_in))
            if found == len(self.may_start_in):
                may = self._by_class([may_start(self._state, window, job) for window in self.windows])
                self.may_start_in.append(may & False if self._is_bound(job) else may)
            self._rights[job] = found
        return found

    def _is_bound(self, job: int) -> bool:
        """Return whether a job has processes on GPUs that it must leave, and would lose its work elsewhere. It parks there."""
        jobs = self._state.jobs
        attempt = jobs.attempts.get(job)
        if attempt is None or jobs.table.saves[jobs.row[job]]:
            return False
        return not self.stays(job)[self.gpu_class[attempt.gpus]].all()

    def stays(self, job: int) -> Bools:
        """Return in which classes a job may stay that runs there."""
        found = self._stays.get(job)
        if found is None:
            may = [may_stay(self._state, window, job) for window in self.windows]
            found = self._stays[job] = self._by_class(may)
        return found

    def _by_class(self, may: list[bool]) -> Bools:
        known = {window.number: yes for window, yes in zip(self.windows, may, strict=True)}
        return np.array([all(known[each.number] for each in inside) for inside in self.windows_of])

    def mask(self, job: int) -> Bools:
        """Return which GPUs a job may have: those on which it may start, and its own as long as it may stay there."""
        found: Bools = self.starts(job)[self.gpu_class]
        runs = runs_on(self._state, job)
        if runs is not None:
            found[runs] = self.stays(job)[self.gpu_class[runs]]
        return found

    def may_keep(self, job: int) -> bool:
        """Return whether a job may have the GPUs that it is to have by the plan in force."""
        return bool(self.mask(job)[self._state.jobs.desired[job]].all())
