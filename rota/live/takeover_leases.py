"""Leases of running jobs: how long they last without the scheduler, and when a scheduler goes on on another machine."""

from rota.core.state.state import State
from rota.model.commands import Renew
from rota.model.units import FOREVER


def lease_left_seconds(state: State, now_s: float) -> float | None:
    """How long all jobs that run now may keep running without the scheduler; None: none runs, or they need no lease."""
    jobs = state.jobs
    ends = [float(jobs.table.lease_s[jobs.row[job]]) for job in jobs.attempts if not jobs.to_kill(job)]
    first_s = min(ends, default=FOREVER)
    return max(first_s - now_s, 0.0) if first_s < FOREVER else None


def renewals_after_takeover(state: State) -> list[Renew]:
    """Each lease as the core has it. On another machine the clock goes on from what was recorded last, so a lease ends later than
    its node knows, by the time that passed meanwhile. Once told, both mean the same instant, and no job ends too early."""
    jobs = state.jobs
    return [
        Renew(job, attempt.number, attempt.parts, float(jobs.table.lease_s[jobs.row[job]]))
        for job, attempt in jobs.attempts.items()
        if not jobs.to_kill(job)
    ]
