"""Grow: idle GPUs are lent to running jobs that accept more of them (Gandiva, OSDI'18, section 3).

Every plan takes these GPUs back first, so a job that has grown shrinks to its requested size when another job needs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rota.core.plan.draft import Draft
from rota.core.plan.tactic import Tactic
from rota.model.units import MILLI


class Growable(NamedTuple):
    """A job that accepts more GPUs than it is granted, with one of the sizes that it could have."""

    position: int
    option: int
    """Option with this size."""
    more: int
    """GPUs that the job would take besides the granted ones."""
    gain: float
    """Factor by which the job would be faster."""
    ready: bool
    """Whether the job has this size already, or the GPUs have been idle for long enough."""


@dataclass(frozen=True)
class Grow(Tactic):
    """While no job waits, running jobs get idle GPUs: first the size that gains most for each GPU."""

    turn: ClassVar[int] = 20
    idle_seconds: float = 300.0
    """Minimum time since a job's last change before it grows, in seconds."""
    min_speedup: float = 1.05
    """Minimum factor by which a job must become faster."""

    def choose(self, sizes: Sequence[Growable], left: int) -> dict[int, int]:
        """Return position -> option of the jobs that grow into this many idle GPUs of one pool."""
        chosen: dict[int, int] = {}
        for size in sorted(sizes, key=lambda each: -(each.gain - 1.0) / each.more):
            if size.ready and size.gain >= self.min_speedup and size.more <= left and size.position not in chosen:
                chosen[size.position] = size.option
                left -= size.more
        return chosen

    def improve(self, draft: Draft) -> None:
        """Grant idle GPUs to jobs that accept them and can resize while they run."""
        state, table, grants = draft.state, draft.table, draft.grants
        options, jobs = table.options, state.jobs.table
        shares = grants.partner is not None and bool((grants.partner >= 0).any())
        if not options.elastic or draft.waiting().any() or shares or grants.split:
            return
        usable, planned = state.usable()[0], state.nodes.planned
        idle = usable & planned.free
        if (table.granted_option[grants.position] < 0).any():
            idle[:] = False  # jobs that start now choose first
        by_pool: dict[int, list[Growable]] = {}
        for at in grants.position.tolist():
            row, asked = table.rows.item(at), grants.option.item(at)
            job = jobs.id.item(row)
            attempt = state.jobs.attempts.get(job)
            if not state.jobs.specs[job].can_resize:
                continue
            if attempt is None or attempt.parked or job not in state.jobs.desired:
                draft.look_again(state.now_s + self.idle_seconds)  # it starts now
                continue
            has = table.granted_option.item(at)
            pool, count = options.pool.item(asked), options.gpus.item(asked)
            here = idle & (state.nodes.cluster.gpu_node == state.nodes.cluster.gpu_node[attempt.gpus[0]])
            room = int(here.sum()) if len(attempt.live_nodes) == 1 else 0
            busy = job in state.jobs.in_flight  # it starts or resizes
            idle_s = jobs.phase_s.item(row) + self.idle_seconds
            for option in options.by_kind[table.kind.item(at)].tolist():
                more = options.gpus.item(option) - count
                if option < 0 or options.pool.item(option) != pool or more <= 0:
                    continue
                if draft.limits is not None and not draft.within_limits(at, option):
                    continue
                gain = options.rate.item(option) / options.rate.item(asked)
                fits = options.gpus.item(option) - len(attempt.gpus) <= room
                if option != has and fits and gain >= self.min_speedup and (busy or state.now_s < idle_s):
                    draft.look_again(state.now_s + self.idle_seconds if busy else idle_s)
                ready = option == has or (fits and state.now_s >= idle_s and not busy)
                by_pool.setdefault(pool, []).append(Growable(at, option, more, gain, ready))
        for pool, sizes in by_pool.items():
            for at, option in self.choose(sizes, grants.left.item(pool) // MILLI).items():
                grants.left[pool] -= (options.gpus.item(option) - options.gpus.item(grants.option.item(at))) * MILLI
                grants.option[at] = option
