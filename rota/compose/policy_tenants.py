"""Gives the operator's tenants to policies that serve tenants."""

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from rota.model.policy import Policy
from rota.model.tenants import Tenants


@runtime_checkable
class HasTenants(Policy, Protocol):
    """A policy that serves tenants."""

    @property
    def tenants(self) -> Tenants: ...


def with_tenants(policy: Any, tenants: Tenants) -> Policy:
    """Return a policy with these tenants if it serves tenants and names none of its own, else the policy as it is."""
    given = policy.tenants if isinstance(policy, HasTenants) else None
    needs_tenants = given is not None and not given.weights and not given.policies
    served: Policy = replace(policy, tenants=tenants) if needs_tenants else policy
    return served
