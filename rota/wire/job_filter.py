"""Which jobs a client wants to see."""

from typing import NamedTuple

from rota.wire.rows import JobRow

PAGE_JOBS = 1000
MOST_JOBS = 10_000
"""In one answer."""
MOST_TOGETHER = 10_000
"""Jobs in one request that submits or cancels several."""
SUSPENDED = ("parked", "checkpointed")


class JobFilter(NamedTuple):
    """Jobs by number, a page at a time."""

    everything: bool = False
    """Also those that have ended."""
    user: str = ""
    """Whose; empty: everybody's."""
    phase: str = ""
    """In which phase; `suspended` is parked or checkpointed; empty: any."""
    since_s: float = 0.0
    """Submitted at this Unix time or later."""
    after: int = 0
    """With higher numbers than this."""
    limit: int = PAGE_JOBS
    skip: int = 0
    """Of a page for people, the jobs before it."""

    def in_phase(self, row: JobRow) -> bool:
        return self.is_phase(row.phase)

    def is_phase(self, phase: str) -> bool:
        return not self.phase or phase == self.phase or (self.phase == "suspended" and phase in SUSPENDED)


UNFINISHED = JobFilter()
