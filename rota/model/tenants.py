"""Tenants: a tree of weighted paths that share the cluster. The operator defines them, never the users."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.errors import OptionError

FAIRNESS, FIFO = "fairness", "fifo"
INNER = (FAIRNESS, FIFO)


@dataclass(frozen=True)
class Tenants:
    """Weight of each path among its siblings, and the policy by which its jobs share. Paths that are not listed have weight 1,
    and the policy of the nearest listed path above them."""

    weights: Mapping[str, float] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)

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


def lineage(path: str) -> list[str]:
    """Return a path and all paths above it, outermost first: `a/b/c` gives a, a/b and a/b/c."""
    parts = [part for part in path.split("/") if part]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]
