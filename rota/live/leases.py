"""Leases of running jobs, when a scheduler goes on on another machine."""

from rota.core.state.state import State
from rota.model.commands import Renew


def leases_told_again(state: State) -> list[Renew]:
    """Each lease as the core has it. On another machine the clock goes on from what was recorded last, so a lease ends later than
    its node knows, by the time that passed meanwhile. Once told, both mean the same instant, and no job ends too early."""
    jobs = state.jobs
    return [
        Renew(job, incarnation.number, incarnation.parts, float(jobs.table.lease_s[jobs.row[job]]))
        for job, incarnation in jobs.incarnations.items()
        if job not in jobs.doomed
    ]
