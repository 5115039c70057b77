"""Numbers of unfinished jobs of tenants and users, and the limits on them.

The numbers are counted from the records of a home when its scheduler starts, and kept while it runs. So a submission is checked
without a look at other jobs, and a crash loses no count.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext

from rota.errors import ConflictError
from rota.model.counted import counted
from rota.model.tenants import JobLimit, Tenants
from rota.wire.submission import Submission, naming


class UnfinishedJobs:
    """How many unfinished jobs each user has in each tenant."""

    def __init__(self) -> None:
        self._by_owner = Counter[tuple[str, str]]()
        """Number of unfinished jobs, by the tenant that their specs name and by user."""
        self._tenants: Tenants | None = None
        self._limits: dict[tuple[str, str], list[JobLimit]] = {}
        """Limits of each tenant and user with unfinished jobs."""
        self._by_limit = Counter[JobLimit]()
        """Number of unfinished jobs that count for each limit."""

    def add(self, sent: Submission) -> None:
        self._count(_owner(sent), 1)

    def remove(self, sent: Submission) -> None:
        self._count(_owner(sent), -1)

    def _count(self, owner: tuple[str, str], jobs: int) -> None:
        self._by_owner[owner] += jobs
        for limit in self._limits_of(owner):
            self._by_limit[limit] += jobs
        if not self._by_owner[owner]:
            del self._by_owner[owner]
            self._limits.pop(owner, None)

    def number(self, tenants: Tenants | None, limit: JobLimit) -> int:
        """Return the number of unfinished jobs that count for a limit of these tenants."""
        self._use(tenants)
        return self._by_limit[limit]

    def check(self, tenants: Tenants | None, new: Iterable[tuple[Submission, int] | None], *, several: bool = False) -> None:
        """Raise ConflictError if new jobs, each a submission with its number of tasks, exceed a limit of these tenants together.
        None: a job that is not new. `several`: whether they are jobs of one request, of which the error names the first beyond
        the limit."""
        self._use(tenants)
        more, limits = Counter[JobLimit](), dict[tuple[str, str], Sequence[JobLimit]]()
        for index, each in enumerate(new):
            if each is None:
                continue
            sent, jobs = each
            owner = _owner(sent)
            if owner not in limits:
                limits[owner] = self._limits_of(owner)
            for limit in limits[owner]:
                more[limit] += jobs
                if self._by_limit[limit] + more[limit] > limit.most:
                    with naming(index) if several else nullcontext():
                        raise _too_many(limit, self._by_limit[limit], more[limit])

    def _use(self, tenants: Tenants | None) -> None:
        """Count for the limits of these tenants from now on."""
        if tenants is self._tenants:
            return
        self._tenants = tenants
        self._limits.clear()
        self._by_limit.clear()
        for owner, jobs in self._by_owner.items():
            for limit in self._limits_of(owner):
                self._by_limit[limit] += jobs

    def _limits_of(self, owner: tuple[str, str]) -> Sequence[JobLimit]:
        tenants = self._tenants
        if tenants is None or not (tenants.max_jobs or tenants.user_max_jobs):
            return ()
        found = self._limits.get(owner)
        if found is None:
            home = tenants.home_of(owner[0])
            found = [] if home is None else tenants.job_limits(home, owner[1])
            if owner in self._by_owner:  # a path below a tenant may have any name, so that there is no end of them
                self._limits[owner] = found
        return found


def _owner(sent: Submission) -> tuple[str, str]:
    return sent.spec.tenant or "", sent.user


def _too_many(limit: JobLimit, has: int, more: int) -> ConflictError:
    """Return the error for jobs beyond a limit. `more`: how many the request would add for it."""
    who = "its users have" if limit.user is None else f"{limit.user} has"
    adds = f", this adds {more:,}" if more > 1 else ""
    problem = f"OVER_QUOTA: {who} {counted(has, 'unfinished job')} there{adds}, and at most {limit.most:,} are allowed."
    jobs = "rota jobs" if limit.user is None else f"rota jobs --user {shlex.quote(limit.user)}"
    return ConflictError(problem, field="tenant", value=limit.tenant, hint=f"{jobs}, and submit again when some have ended")
