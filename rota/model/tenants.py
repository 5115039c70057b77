"""Tenants: a tree of paths that share the cluster, with weights, guarantees and caps. The operator defines them, never the
users."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rota.errors import OptionError

FAIRNESS, FIFO = "fairness", "fifo"
INNER = (FAIRNESS, FIFO)
CREDITS, DECAY, NO_FAIRNESS = "credits", "decay", "none"
OVER_TIME = (CREDITS, DECAY, NO_FAIRNESS)
REFUSE = "refuse"
"""Value of `unknown` that refuses the jobs of unknown tenants."""
DEFAULT = "default"
"""Tenant of the jobs that name no tenant of the file, unless the file names another."""
DAY = 86_400.0


@dataclass(frozen=True)
class Guarantee:
    """GPUs that a tenant gets when it has jobs for them."""

    gpus: float
    """Number of GPUs, of all types together."""
    by_type: Mapping[str, float] = field(default_factory=dict)
    """Accelerator type -> number of GPUs of this type; empty if GPUs of any type count."""


class JobLimit(NamedTuple):
    """A limit on unfinished jobs."""

    tenant: str
    """Path of the tenant that sets the limit."""
    user: str | None
    """User whose jobs count; None if the jobs of all users count together."""
    most: int
    """Maximum number of unfinished jobs."""


@dataclass(frozen=True)
class Tenants:
    """Weight of each path among its siblings, and the policy by which its jobs share. Paths that are not listed have weight 1,
    and the policy of the nearest listed path above them."""

    weights: Mapping[str, float] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)
    guarantees: Mapping[str, Guarantee] = field(default_factory=dict)
    """Guaranteed GPUs of the paths that have some."""
    caps: Mapping[str, float] = field(default_factory=dict)
    """Most GPUs of a path and all below it."""
    user_caps: Mapping[str, float] = field(default_factory=dict)
    """Most GPUs of each user in a path and all below it."""
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Users who may submit into a path; for a path that has none here those of the path above it, at the top all users."""
    max_jobs: Mapping[str, int] = field(default_factory=dict)
    """Most unfinished jobs of a path and all below it."""
    user_max_jobs: Mapping[str, int] = field(default_factory=dict)
    """Most unfinished jobs of each user in a path and all below it."""
    unknown: str = DEFAULT
    """Tenant of jobs whose path is not listed, nor any above it; `refuse` if such jobs are refused."""
    fairness: str = CREDITS
    """Order of tenants that borrow GPUs: by credits, by decaying usage, or none."""
    half_life_seconds: float = 7 * DAY
    """Time in which usage counts half as much, in seconds. Only for decaying usage."""
    turn_seconds: float = 600.0
    """Time for which a tenant has to borrow its part of the GPUs before its rank falls, in seconds."""
    reference: str | None = None
    """Accelerator type whose GPU-seconds are the unit of normalised work; None for the fastest type of the cluster."""

    def __post_init__(self) -> None:
        for path, weight in self.weights.items():
            if not 0 < weight < float("inf"):
                raise OptionError("must be more than 0.", field=f"weight of tenant {path!r}", value=weight, hint="weight: 1")
        for path, policy in self.policies.items():
            if policy not in INNER:
                known = ", ".join(INNER)
                raise OptionError(
                    f"not one of {known}.", field=f"policy of tenant {path!r}", value=policy, hint="policy: fairness"
                )

    def weight(self, path: str) -> float:
        return self.weights.get(path, 1.0)

    def policy(self, path: str) -> str:
        """Return the policy by which the jobs of a path share."""
        for known in reversed(lineage(path)):
            if known in self.policies:
                return self.policies[known]
        return self.policies.get("", FAIRNESS)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Paths of all tenants, each after the one above it. The tenant of unknown jobs is one of them."""
        listed = {step for path in self.weights for step in lineage(path)}
        return tuple(sorted(listed | ({self.unknown} if self.unknown != REFUSE else set()), key=lambda path: path.split("/")))

    def home_of(self, path: str | None) -> str | None:
        """Return the tenant that a job of this path counts for: the nearest that is listed. None if the job is refused."""
        for step in reversed(lineage(path or "")):
            if step in self.paths:
                return step
        return None if self.unknown == REFUSE else self.unknown

    def cap_of(self, path: str) -> float:
        """Return the most GPUs that one job in this path may have."""
        steps = lineage(path)
        own = next((self.user_caps[step] for step in reversed(steps) if step in self.user_caps), float("inf"))
        return min([own, *(self.caps[step] for step in steps if step in self.caps)])

    def members_of(self, path: str) -> tuple[str, ...] | None:
        """Return the users who may submit into a tenant; None if all may."""
        return next((self.members[step] for step in reversed(lineage(path)) if step in self.members), None)

    def is_open_to(self, path: str, user: str) -> bool:
        """Return whether a user may submit into a tenant."""
        members = self.members_of(path)
        return members is None or user in members

    def open_to(self, user: str) -> list[str]:
        """Return the tenants into which a user may submit."""
        return [path for path in self.paths if self.is_open_to(path, user)]

    def tenant_of_member(self, user: str) -> str | None:
        """Return the tenant of a user's jobs that name none: the only tenant without tenants below it of which the user is a
        member. None if there is no such tenant, or more than one."""
        return self._tenant_of_member.get(user)

    @cached_property
    def _tenant_of_member(self) -> dict[str, str]:
        found: dict[str, list[str]] = {}
        for path in self.paths if self.members else ():
            if not self.children(path):
                for user in self.members_of(path) or ():
                    found.setdefault(user, []).append(path)
        return {user: paths[0] for user, paths in found.items() if len(paths) == 1}

    def job_limits(self, path: str, user: str) -> list["JobLimit"]:
        """Return the limits on the unfinished jobs of a user in a tenant. Of the limits for each user, the nearest counts."""
        steps = lineage(path)
        found = [JobLimit(step, None, self.max_jobs[step]) for step in steps if step in self.max_jobs]
        own = next((step for step in reversed(steps) if step in self.user_max_jobs), None)
        return found if own is None else [*found, JobLimit(own, user, self.user_max_jobs[own])]

    def guarantee(self, path: str) -> Guarantee:
        """Return the guarantee of a path. Without its own, a path has what is guaranteed below it."""
        if path in self.guarantees:
            return self.guarantees[path]
        below = [self.guarantee(child) for child in self.children(path)]
        by_type: dict[str, float] = {}
        if all(each.by_type or not each.gpus for each in below):
            for each in below:
                for accelerator, gpus in each.by_type.items():
                    by_type[accelerator] = by_type.get(accelerator, 0.0) + gpus
        return Guarantee(sum(each.gpus for each in below), by_type)

    def children(self, path: str) -> list[str]:
        """Return the paths directly below this one; those at the top for the empty path."""
        depth = len(lineage(path))
        return [each for each in self.paths if len(lineage(each)) == depth + 1 and (not path or each.startswith(path + "/"))]


def lineage(path: str) -> list[str]:
    """Return a path and all paths above it, outermost first: `a/b/c` gives a, a/b and a/b/c. The empty path gives none."""
    parts = [part for part in path.split("/") if part]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]
