"""Snapshots from before version 16 have sets of jobs instead of the column `blocks`."""

from collections.abc import Iterable, Mapping

from rota.core.state.phases import ENDED, HELD, HIDDEN, PAUSED, TO_CANCEL, TO_KILL
from rota.core.state.state import State
from rota.model.units import FOREVER

OLD_SETS = {"held": HELD, "doomed": TO_KILL, "cancelling": TO_CANCEL}
"""Bit of the jobs in each set."""


def restore_blocks(state: State, sets: Mapping[str, Iterable[int]]) -> None:
    """Fill the column `blocks` of a restored state."""
    jobs, version = state.jobs, state.jobs.version
    for job in jobs.row:
        jobs.unblock(job, ENDED)
        state.refresh_fit(job)
        if jobs.is_unreachable(job):
            jobs.block(job, HIDDEN)
    for name, bit in OLD_SETS.items():
        for job in sets[name]:
            jobs.block(job, bit)
    for job, setback in jobs.setbacks.items():
        if setback.until_s > -FOREVER:
            jobs.block(job, PAUSED)
    jobs.version = version  # the answer in force is about these jobs
