"""Leases of running jobs: how long they last without the scheduler, and what a scheduler does with them on another machine."""

from rota.core.state.state import State
from rota.model.commands import Renew
from rota.model.units import FOREVER


def lease_left_seconds(state: State, now_s: float) -> float | None:
    """Return how long all running jobs may continue without the scheduler, in seconds; None if no job runs, or if they need no
    leases."""
    jobs = state.jobs
    ends = [float(jobs.table.lease_s[jobs.row[job]]) for job in jobs.attempts if not jobs.to_kill(job)]
    first_s = min(ends, default=FOREVER)
    return max(first_s - now_s, 0.0) if first_s < FOREVER else None


def renewals_after_takeover(state: State) -> list[Renew]:
    """Return a renewal of each lease as the core has it. On another machine the clock continues from the last recorded time, so a
    lease ends later than its node knows, by the time that passed since. After the renewal both mean the same instant, and no job
    ends too early."""
    jobs = state.jobs
    return [
        Renew(job, attempt.number, attempt.live_nodes, float(jobs.table.lease_s[jobs.row[job]]))
        for job, attempt in jobs.attempts.items()
        if not jobs.to_kill(job)
    ]
