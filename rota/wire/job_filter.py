"""Filter of the jobs that a client requests."""

from typing import NamedTuple

from rota.errors import OptionError
from rota.wire.rows import JobRow

PAGE_JOBS = 1000
MAX_JOBS = 10_000
"""Maximum number of jobs in one response."""
MAX_TOGETHER = 10_000
"""Maximum number of jobs in one request that submits or cancels several."""
MAX_DAYS = 3660
"""Maximum number of days in a report or an export."""
SUSPENDED = ("parked", "checkpointed")


class JobFilter(NamedTuple):
    """Filter and page of a list of jobs."""

    everything: bool = False
    """Whether ended jobs are included."""
    user: str = ""
    """User whose jobs are listed; empty for all users."""
    phase: str = ""
    """Phase of the listed jobs; `suspended` for parked and checkpointed ones; empty for any phase."""
    since_s: float = 0.0
    """Unix time at or after which listed jobs were submitted."""
    after: int = 0
    """Number of the last job of the page before; listed jobs have higher numbers."""
    limit: int = PAGE_JOBS
    skip: int = 0
    """Number of jobs before a page in the order for people."""
    tasks: bool = False
    """Whether each task of an array is listed; an array is one row otherwise."""

    def in_phase(self, row: JobRow) -> bool:
        return self.is_phase(row.phase)

    def is_phase(self, phase: str) -> bool:
        return not self.phase or phase == self.phase or (self.phase == "suspended" and phase in SUSPENDED)


UNFINISHED = JobFilter()


def whole_days(text: str, flag: str, example: str) -> int:
    """Return a number of days from a text like `7d` or `2w`. Raise OptionError, which names the flag, if it is not one."""
    number, unit = text[:-1], text[-1:]
    sizes = {"d": 1, "w": 7}
    if unit in sizes and number.isascii() and number.isdigit() and 1 <= int(number) * sizes[unit] <= MAX_DAYS:
        return int(number) * sizes[unit]
    raise OptionError(f"is not a number of days from 1 to {MAX_DAYS:,}.", field=flag, value=text, hint=f"{flag} {example}")
