"""Figures of tenants: what each has, lends, borrows and waits for now, and what it received so far."""

from dataclasses import dataclass

import numpy as np

from rota.core.state.state import State
from rota.core.state.tenant_accounts import start_percentiles
from rota.model.units import MILLI, Bools, Floats, Ints

HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFigures:
    """One tenant, with all tenants below it."""

    tenant: str
    """Path of the tenant."""
    guarantee: float
    """Guaranteed GPUs."""
    cap: float | None
    """Most GPUs; None if there is no cap."""
    gpus: float
    """GPUs granted by the plan in force."""
    borrowed: float
    """GPUs granted beyond the guarantee."""
    lent: float
    """GPUs of the guarantee that the tenant does not have while others borrow."""
    credit: float | None
    """Normalised work lent, less that borrowed, in GPU-hours of the reference type; None unless the fairness is by credits."""
    usage: float | None
    """Normalised work received, halved with every half-life, in GPU-hours of the reference type; None unless the fairness is by
    decaying usage."""
    running: int
    """Jobs that have GPUs by the plan in force."""
    waiting: int
    """Jobs that wait for GPUs."""
    work_hours: float
    """Normalised work received, in GPU-hours of the reference type."""
    gpu_hours: float
    """GPU-hours received."""
    welfare: float | None
    """Normalised work received over what the guarantee alone would have given; None without a guarantee or before its first
    job."""
    start_seconds_p50: float | None
    """Median time from arrival to start of jobs that arrived within the guarantee, in seconds; None if there were none."""
    start_seconds_p99: float | None
    """99th percentile of that time, in seconds."""
    users: dict[str, float]
    """GPUs of each user of the tenant that has some, most first."""


def tenant_figures(state: State) -> list[TenantFigures]:
    """Return the figures of every tenant, in the order of their paths; none without tenants."""
    accounts, table = state.tenants, state.jobs.table
    if accounts.tenants is None:
        return []
    rows = np.array(sorted(state.jobs.row.values()), dtype=np.int64)
    holds = table.option[rows] >= 0
    gpus = (
        np.where(holds, state.beliefs.options.milligpus[np.maximum(table.option[rows], 0)] / MILLI, 0.0) if len(rows) else holds
    )
    granted, running, waiting = (_up(state, rows, each) for each in (gpus.astype(np.float64), holds, ~holds))
    borrowed = np.maximum(granted - accounts.guarantee, 0.0)
    idle = np.maximum(accounts.guarantee - granted, 0.0)
    found = []
    for path in accounts.tenants.paths:
        node = accounts.node_of[path, None]
        siblings = (accounts.parent == accounts.parent[node]).nonzero()[0]
        used = min(float(borrowed[siblings].sum()), float(idle[siblings].sum()))
        share = idle[node] / idle[siblings].sum() if idle[node] else 0.0
        promised, work = accounts.promised_seconds.item(node), accounts.work_seconds.item(node)
        p50, p99 = start_percentiles(accounts.starts, node)
        users = _users(state, path, granted)
        found.append(
            TenantFigures(
                tenant=path,
                guarantee=accounts.guarantee.item(node),
                cap=accounts.tenants.caps.get(path),
                gpus=float(granted[node]),
                borrowed=float(borrowed[node]),
                lent=float(used * share),
                credit=accounts.credit.item(node) / HOUR if accounts.tenants.fairness == "credits" else None,
                usage=accounts.usage.item(node) / HOUR if accounts.tenants.fairness == "decay" else None,
                running=int(running[node]),
                waiting=int(waiting[node]),
                work_hours=work / HOUR,
                gpu_hours=accounts.gpu_seconds.item(node) / HOUR,
                welfare=work / promised if promised > 0 else None,
                start_seconds_p50=p50,
                start_seconds_p99=p99,
                users=users,
            )
        )
    return found


def _up(state: State, rows: Ints, values: Floats | Bools) -> Floats:
    """Return the sum of the values of jobs for each node and all below it."""
    accounts = state.tenants
    total = np.bincount(state.jobs.table.owner[rows], values.astype(np.float64), len(accounts.parent)).astype(np.float64)
    for level in accounts.levels:
        total += np.bincount(accounts.parent[level], total[level], len(accounts.parent))
    return total


def _users(state: State, path: str, granted: Floats) -> dict[str, float]:
    """Return the GPUs of the users of a tenant and of those below it."""
    found: dict[str, float] = {}
    for (tenant, user), node in state.tenants.node_of.items():
        if user is not None and granted[node] > 0 and (tenant == path or tenant.startswith(path + "/")):
            found[user] = found.get(user, 0.0) + float(granted[node])
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))
