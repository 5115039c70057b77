"""Rows about tenants for `rota tenants`."""

from dataclasses import asdict

from rota.core.state.state import State
from rota.core.tenant_figures import tenant_figures
from rota.model.tenants import lineage
from rota.wire.rows import TenantRow


def tenant_rows(state: State) -> list[TenantRow]:
    """Return a row for every tenant, in the order of their paths; none without tenants."""
    tenants = state.tenants.tenants
    if tenants is None:
        return []
    found = []
    for each in tenant_figures(state):
        members, steps = tenants.members_of(each.tenant), lineage(each.tenant)
        found.append(
            TenantRow(
                **asdict(each),
                members=None if members is None else list(members),
                max_jobs=tenants.max_jobs.get(each.tenant),
                user_max_jobs=next((most for step in reversed(steps) if (most := tenants.user_max_jobs.get(step))), None),
            )
        )
    return found
