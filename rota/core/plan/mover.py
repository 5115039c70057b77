"""The mover: the GPUs that a plan leaves free, which running jobs may be moved, and what moves do to the plan."""

from dataclasses import dataclass

import numpy as np

from rota.core.plan.draft import Draft, Places, released
from rota.core.plan.pinned import protected
from rota.core.plan.quotas import planned_milligpus
from rota.core.state.job_table import NO_JOB
from rota.errors import TacticError
from rota.model.allocation import Ranking, Shares
from rota.model.job import Phase
from rota.model.lazy import lazy
from rota.model.plan import PlacementChange
from rota.model.units import FOREVER, Bools, Floats, Ints

LOOK_AGAIN_SECONDS = 60.0
"""A job that may not be moved before its first step is looked at again after this."""


@dataclass(eq=False)
class StayingJobs:
    """Jobs that keep their GPUs by a plan and share them with no other job, as columns."""

    job: Ints
    row: Ints
    gpus: Ints
    first: Ints
    """The node of the first of their GPUs."""
    last: Ints
    """The node of the last."""
    pool: Ints
    movable_from_s: Floats
    """Earliest time at which a tactic may move the job; infinite if never."""
    seconds_left: Floats
    """Seconds until the job ends, as far as is known."""


class Mover:
    """What tactics that move jobs read of a draft, and where they write their moves."""

    def __init__(self, draft: Draft, places: Places, changed: tuple[PlacementChange, ...]) -> None:
        self.draft = draft
        self.state, self.settings, self.placer, self.allocation = draft.state, draft.settings, draft.placer, draft.allocation
        self.candidates, self.table, self.places = draft.candidates, draft.table, places
        self.waits: Bools = places.grants.option < 0
        """Positions of jobs without GPUs."""
        if draft.alive is not None:
            self.waits &= draft.alive
        self.changes = {change.job: change for change in changed}
        self.moved: list[int] = []
        self.look_s = FOREVER
        """When to look again though nothing happens."""
        free = released(self.state, list(self.changes))
        for change in changed:
            if change.gpus is not None:
                free[change.gpus] = False
        self.room: Bools = self.state.usable()[0] & free
        """GPUs that the plan leaves free, and that are in no window: tactics move no job to others."""
        self._open = None if draft.access is None else draft.access.gpu_class == 0
        if self._open is not None:
            self.room &= self._open

    @lazy
    def staying(self) -> StayingJobs:
        """Jobs that keep their GPUs by the plan before any move."""
        cluster, jobs, holder = self.state.nodes.cluster, self.state.jobs.table, self.state.nodes.planned.holder
        held = (holder >= 0).nonzero()[0]
        order = held[np.argsort(holder[held], kind="stable")]
        job, begin, gpus = np.unique(holder[order], return_index=True, return_counts=True)
        keeps = ~np.isin(job, list(self.changes))
        job, begin, gpus = job[keeps], begin[keeps], gpus[keeps]
        row = jobs.id[: jobs.size].searchsorted(job)
        first, last = order[begin], order[begin + gpus - 1]
        node, pool = cluster.gpu_node, cluster.gpu_pool[first]
        return StayingJobs(job, row, gpus, node[first], node[last], pool, self._movable_from_s(job, row), self._seconds_left(row))

    def _movable_from_s(self, job: Ints, row: Ints) -> Floats:
        """Earliest time at which each job may be moved. A job that starts, stops, saves nothing or has a partner stays, and so
        does one that was moved a short while ago, or has GPUs that are out of service."""
        state, jobs = self.state, self.state.jobs.table
        stays = (jobs.phase[row] != Phase.RUNNING) | (jobs.gpus_in_use[row] <= 0) | (jobs.blocks[row] != 0)
        stays |= ~jobs.saves[row]
        stays |= (jobs.partner[row] != NO_JOB) | (jobs.colocated_with[row] != NO_JOB)
        stays |= np.isin(job, state.nodes.planned.holder[~state.usable()[0]])
        stays |= np.isin(job, list(state.jobs.in_flight.keys() | state.jobs.to_reconcile))
        if self._open is not None:
            stays |= np.isin(job, state.nodes.planned.holder[~self._open])
        rested_s = jobs.moved_s[row] + self.settings.tactics.rest_seconds
        young_s = np.where(protected(state, row), state.now_s + LOOK_AGAIN_SECONDS, -FOREVER)
        return np.where(stays, FOREVER, np.maximum(rested_s, young_s))

    def _seconds_left(self, row: Ints) -> Floats:
        jobs = self.state.jobs.table
        since = np.where(jobs.gpus_in_use[row] > 0, self.state.now_s - jobs.as_of_s[row], 0.0)
        rate = np.maximum(jobs.rate[row], 1e-12)
        return np.maximum((jobs.steps_total[row] - jobs.steps_done[row]) / rate - since, 0.0)

    def is_open(self, gpus: Ints) -> bool:
        """Return whether GPUs are in no window, so that any job may have them."""
        return self._open is None or bool(self._open[gpus].all())

    def look_again(self, which: Bools) -> None:
        """Look again when the first of these jobs may be moved."""
        ready_s = self.staying.movable_from_s[which]
        self.look_s = min(self.look_s, float(ready_s[ready_s > self.state.now_s].min(initial=FOREVER)))

    def keeps_seconds(self, row: int) -> float:
        """How long a job keeps its GPUs, as far as is known; at most the time in which a move must pay for itself."""
        seconds, allocation = self.settings.horizon_seconds, self.allocation
        if not self.waits.any():
            return seconds
        if isinstance(allocation, Shares):
            return min(seconds, self.table.slice_seconds)
        at = int(self.table.rows.searchsorted(row))
        known = at < len(self.table) and self.table.rows.item(at) == row
        if known and isinstance(allocation, Ranking) and allocation.run_seconds is not None:
            return min(seconds, float(allocation.run_seconds[at]))
        return seconds

    def room_by_node(self, pool: int, room: Bools | None = None) -> Ints:
        """Free GPUs of a pool on each node. `room`: instead of the GPUs that the plan leaves free."""
        cluster = self.state.nodes.cluster
        return cluster.count_by_node((self.room if room is None else room) & (cluster.gpu_pool == pool))

    def take(self, room: Bools, node: int, gpus: int) -> Ints:
        """Take this many free GPUs of a node, lowest numbers first, out of `room`."""
        first = self.state.nodes.cluster.node_first
        found: Ints = (room[first[node] : first[node + 1]].nonzero()[0] + first[node])[:gpus]
        room[found] = False
        return found

    def may_move(self) -> Bools:
        """Return which jobs of `staying` may be moved now."""
        return self.staying.movable_from_s <= self.state.now_s

    def assign(self, job: int, option: int, gpus: Ints, moves: bool = True) -> None:
        """Give a job these GPUs, in ascending order, instead of those that the plan gave it. `moves`: the job runs, and moves."""
        before = self.changes[job].gpus if job in self.changes else self.state.jobs.desired.get(job)
        if before is not None:
            self.room[before] = self.state.usable()[0][before]
            if self._open is not None:
                self.room[before] &= self._open[before]
        self._check(job, option, gpus)
        if self.draft.limits is not None:
            self._take_limits(job, option)
        self.room[gpus] = False
        self.changes.pop(job, None)
        self.changes[job] = PlacementChange(job, option, gpus)
        if moves:
            self.moved.append(job)
            self.staying.movable_from_s[self.staying.job == job] = FOREVER

    def within_limits(self, job: int, option: int) -> bool:
        """Whether no group of a job would exceed its limit by this option."""
        limits = self.draft.limits
        return limits is None or limits.fits(job, self.table.options.milligpus.item(option), self._granted(job))

    def _granted(self, job: int) -> int:
        """Return the thousandths of GPUs that the plan gives a job before it is moved."""
        change = self.changes.get(job)
        if change is not None:
            return self.table.options.milligpus.item(change.option) if change.gpus is not None else 0
        return planned_milligpus(self.state, job) if job in self.state.jobs.desired else 0

    def _take_limits(self, job: int, option: int) -> None:
        """Raise TacticError if a job would exceed a limit by this option."""
        limits, had, needs = self.draft.limits, self._granted(job), self.table.options.milligpus.item(option)
        if limits is None or needs == had:
            return
        if not limits.fits(job, needs, had):
            raise TacticError(f"job {job} would exceed a cap.", hint="mover.within_limits(job, option)")
        if had:
            limits.give_back(job, had)
        limits.take(job, needs)

    def _check(self, job: int, option: int, gpus: Ints) -> None:
        """Raise TacticError if a job can't have these GPUs by this option."""
        options, pools = self.table.options, self.state.nodes.cluster.gpu_pool[gpus]
        if len(gpus) != options.gpus[option] or (np.diff(gpus) <= 0).any() or (pools != options.pool[option]).any():
            raise TacticError(
                f"GPUs {gpus.tolist()} for job {job} are not {options.gpus[option]} of its pool, in ascending order.",
                hint="mover.take(room, node, gpus)",
            )
        if not self.room[gpus].all():
            raise TacticError(f"not all GPUs of {gpus.tolist()} are free for job {job}.", hint="GPUs of mover.room")
