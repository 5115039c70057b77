"""Tenants in a run: what each received over its guarantee, how soon its guaranteed jobs started, and its mean JCT."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rota.core.state.state import State
from rota.core.tenant_figures import TenantFigures, tenant_figures
from rota.model.job import Arrival
from rota.sim.record import Record


@dataclass(frozen=True, slots=True)
class TenantsSummary:
    """All tenants of a run."""

    tenants: tuple[TenantFigures, ...]
    mean_jct_seconds: dict[str, float | None]
    """Tenant -> mean JCT of its finished jobs, in seconds; None if none has finished."""
    jobs: dict[str, int]
    """Tenant -> number of its jobs."""

    @classmethod
    def of(cls, state: State, record: Record, arrivals: Sequence[Arrival]) -> "TenantsSummary":
        tenants = state.tenants.tenants
        assert tenants is not None
        homes = [tenants.home_of(arrival.spec.tenant) or "" for arrival in arrivals]
        jct = record.finished_s - np.array([arrival.submitted_s for arrival in arrivals])
        mean: dict[str, float | None] = {}
        jobs = {}
        for path in tenants.paths:
            mine = np.array([home == path or home.startswith(path + "/") for home in homes], dtype=bool)
            done = jct[mine]
            done = done[np.isfinite(done)]
            mean[path] = float(done.mean()) if len(done) else None
            jobs[path] = int(mine.sum())
        return cls(tuple(tenant_figures(state)), mean, jobs)

    @property
    def best_to_worst(self) -> float | None:
        """Largest over smallest welfare of the tenants at the top; None if fewer than two have one."""
        found = [each.welfare for each in self.tenants if "/" not in each.tenant and each.welfare]
        return max(found) / min(found) if len(found) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        rows = [
            {**asdict(each), "jobs": self.jobs[each.tenant], "mean_jct_seconds": self.mean_jct_seconds[each.tenant]}
            for each in self.tenants
        ]
        return {"best_to_worst_welfare": self.best_to_worst, "tenants": rows}

    def table(self) -> str:
        """Return a line for each tenant."""
        from rota.report.result import duration, plain_table

        heads = ("tenant", "jobs", "guarantee", "welfare", "GPU-hours", "work", "mean JCT", "reclaim p50", "p99")
        rows = [
            (
                each.tenant,
                str(self.jobs[each.tenant]),
                f"{each.guarantee:g}",
                "-" if each.welfare is None else f"{each.welfare:.2f}",
                f"{each.gpu_hours:,.0f}",
                f"{each.work_hours:,.0f}",
                duration(self.mean_jct_seconds[each.tenant]),
                duration(each.start_seconds_p50),
                duration(each.start_seconds_p99),
            )
            for each in self.tenants
        ]
        ratio = self.best_to_worst
        foot = "" if ratio is None else f"\nbest tenant over worst, by welfare: {ratio:.2f}"
        return plain_table(heads, rows) + foot
