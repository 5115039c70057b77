"""A request about jobs that were submitted: the verb, and which jobs."""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from rota.wire.job_filter import SUSPENDED


class Verb(StrEnum):
    """What is to happen to the jobs of a request."""

    CANCEL = "cancel"
    """Waiting jobs end, running jobs are stopped."""
    HOLD = "hold"
    """Waiting jobs do not start until they are released."""
    RELEASE = "release"
    """Held and suspended jobs may run again."""
    SUSPEND = "suspend"
    """Running jobs save their state or are parked, and stay away until they are resumed."""
    RESUME = "resume"
    """As `release`."""
    REQUEUE = "requeue"
    """Running jobs save, stop and wait for GPUs again. Ended jobs are submitted again."""


class JobPattern(NamedTuple):
    """Which jobs a request is about, if it does not name them. A job fits if it fits every field that is not empty."""

    user: str = ""
    name: str = ""
    """Name, or a pattern with `*` and `?`."""
    tenant: str = ""
    """Tenant, with the tenants below it."""
    phase: str = ""
    """Phase; `suspended` for parked and checkpointed jobs."""

    def fits(self, user: str, name: str, tenant: str | None, phase: str) -> bool:
        """Return whether a job with these properties fits."""
        below = tenant is not None and (tenant == self.tenant or tenant.startswith(f"{self.tenant}/"))
        in_phase = phase == self.phase or (self.phase == "suspended" and phase in SUSPENDED)
        return (
            (not self.user or user == self.user)
            and (not self.name or fnmatchcase(name, self.name))
            and (not self.tenant or below)
            and (not self.phase or in_phase)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One request about one or several jobs. It is carried out for all of them or for none."""

    verb: Verb
    jobs: tuple[str, ...] = ()
    """Ids or names of the jobs; empty if `matching` selects them."""
    matching: JobPattern | None = None
    """Pattern of the jobs; None if they are named."""
    lose_work: bool = False
    """Whether jobs that neither save nor can be parked are stopped too, and lose their work."""
    max_run_time: float | None = None
    """Longest run time of jobs that are submitted again, in seconds; None for that of their specs."""
    dry_run: bool = False
    """Whether the jobs are only listed, and nothing happens."""
