"""Rows about tenants for `rota tenants`."""

from dataclasses import asdict

from rota.core.state.state import State
from rota.core.tenant_figures import tenant_figures
from rota.wire.rows import TenantRow


def tenant_rows(state: State) -> list[TenantRow]:
    """Return a row for every tenant, in the order of their paths; none without tenants."""
    return [TenantRow(**asdict(each)) for each in tenant_figures(state)]
