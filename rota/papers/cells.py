"""Cells of a study: one simulation each, as plain data that goes to a worker process, and the figures that come back."""

import functools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from rota.api import simulate
from rota.beliefs.rates import Rates
from rota.compose.catalogue import make_placer, make_policy
from rota.compose.solve import Instance, solve
from rota.model.cluster import Cluster
from rota.model.policy import Policy
from rota.model.tenants import Tenants
from rota.policies.hierarchical import Hierarchical
from rota.profiles.catalogue import Catalogue
from rota.profiles.read import read_rates
from rota.report.result import Result
from rota.report.timeline import edges
from rota.sweeps.crew import Alive, Answer, Crew, available_cores
from rota.traces.gavel_jobs import gavel_jobs
from rota.traces.trace import Trace

BINS = 60
"""Stretches of time over which the shares of tenants are known."""

TIMES = 3
"""How often a policy is asked to time it."""

WORKERS = 2
"""Processes at most: a study is made to end in time on two cores."""

Watch = Callable[[int, int], None]
"""Called with the cells that are done and the cells in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One simulation of a study."""

    study: str
    label: str
    """The curve it belongs to."""
    x: float
    """Where on the curve."""
    policy: str
    cluster: str
    trace: Mapping[str, Any]
    """Keywords of `gavel_jobs`."""
    seed: int = 0
    preset: str = "gavel"
    profile: str | None = None
    window: tuple[int, int] | None = None
    """The jobs that count for averages."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of tenants, for a policy that serves tenants; with any, the share that each received over time is told."""
    solve: bool = False
    """No simulation: all jobs of the trace are there, and the policy is asked once for shares."""
    effort: float = 1.0
    """About how long it takes compared with others: the longest begin first."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cell and what came of it."""

    cell: Cell
    figures: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


def run_cells(cells: Sequence[Cell], *, workers: int | None = None, watch: Watch | None = None) -> list[Outcome]:
    """All of them, in worker processes; outcomes in the order of the cells. One that fails does not stop the others."""
    order = sorted(range(len(cells)), key=lambda number: -cells[number].effort)
    found: dict[int, Outcome] = {}

    def heard(number: int, answer: Answer) -> None:
        cell = cells[order[number]]
        found[order[number]] = Outcome(cell, answer.get("figures", {}), str(answer.get("error", "")))
        if watch is not None:
            watch(len(found), len(cells))

    crew = min(workers or min(available_cores(), WORKERS), max(len(cells), 1))
    Crew(("rota.papers.worker",), [asdict(cells[number]) for number in order], crew, heard).run()
    return [found.get(number, Outcome(cell, {}, "It was not tried: workers kept dying.")) for number, cell in enumerate(cells)]


def measure(work: dict[str, Any], alive: Alive) -> Answer:
    """What a worker does with a cell."""
    cell, started = Cell(**work), time.process_time()
    known = rates(cell.profile)
    trace = gavel_jobs(**cell.trace, seed=cell.seed, rates=known)
    policy = make_policy(cell.policy)
    if cell.solve:
        return {"figures": {"solve_seconds": _solve_seconds(trace, policy, Cluster.parse(cell.cluster), known)}}
    result = simulate(
        trace,
        policy=Hierarchical(tenants=Tenants(weights=cell.weights)) if cell.weights else policy,
        cluster=cell.cluster,
        preset=cell.preset,
        profile=cell.profile,
        jobs=(cell.window[0], cell.window[1]) if cell.window else None,
        seed=cell.seed,
        progress=alive,
    )
    shares = tenant_shares(result, known) if cell.weights else {}
    own = {"late_share": _late(result), "cpu_seconds": time.process_time() - started}
    return {"figures": {**result.summary.to_dict(), **own, **shares}}


def _solve_seconds(trace: Trace, policy: Policy, cluster: Cluster, known: Rates) -> float:
    """Of one answer, the jobs being as old as when the last of them arrives. The median of a few; the first of a process loads a
    solver and does not count."""
    end_s = trace.arrivals[-1].submitted_s
    jobs = tuple((end_s - arrival.submitted_s, arrival.spec) for arrival in trace.arrivals)
    question = Instance(cluster, jobs, known, Tenants())
    return statistics.median([solve(question, policy, make_placer("packed")).solve_seconds for _ in range(TIMES + 1)][1:])


@functools.lru_cache(maxsize=2)
def rates(profile: str | None) -> Rates:
    return read_rates(profile) if profile is not None else Rates(model=Catalogue())


def _late(result: Result) -> float | None:
    """The part of the jobs with a deadline that missed it; one that never finished did."""
    limit = np.array([arrival.spec.deadline_seconds for arrival in result.arrivals])
    dated = np.isfinite(limit)
    taken = result.record.finished_s - result.record.submitted_s
    return float((~(taken[dated] <= limit[dated])).mean()) if dated.any() else None


def tenant_shares(result: Result, known: Rates) -> dict[str, Any]:
    """Of all the work that was done in each stretch of time, the part of each tenant. Work is measured in seconds on a GPU of
    average speed, for each job by its own rates, as the paper normalises throughput."""
    at_s = edges([result], BINS)
    specs = [arrival.spec for arrival in result.arrivals]
    names = sorted({spec.tenant for spec in specs})
    done = np.zeros((len(names), BINS))
    holds, cluster = result.record.holds, result.cluster
    size = np.bincount(cluster.gpu_pool, minlength=len(cluster.pools))
    pools = cluster.gpu_pool[holds.gpus[holds.first[:-1]]].tolist()
    for job, pool, start_s, end_s in zip(holds.job.tolist(), pools, holds.start_s, holds.end_s, strict=True):
        spec = specs[job]
        by_pool = np.array([known.rate(spec.profile, kind, spec.gpus)[0] for kind in cluster.pools])
        speed = by_pool[pool] / (by_pool @ size / size.sum())
        overlap = np.minimum(end_s, at_s[1:]) - np.maximum(start_s, at_s[:-1])
        done[names.index(spec.tenant)] += np.maximum(overlap, 0.0) * spec.gpus * speed
    total = done.sum(axis=0)
    share = np.divide(done, total, out=np.full_like(done, math.nan), where=total > 0)
    return {
        "hours": ((at_s[:-1] + at_s[1:]) / 2 / 3600).tolist(),
        "tenants": {name: [_plain(value) for value in row] for name, row in zip(names, share.tolist(), strict=True)},
    }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
