"""Cells of an experiment: one simulation each, as plain data that goes to a worker process, and the figures that come back."""

import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rota.api import run_study
from rota.beliefs.rates import Rates
from rota.compose.presets import preset as named_preset
from rota.compose.registry import make_placer, make_policy
from rota.compose.solve import Instance, solve
from rota.compose.study import Study, make_study
from rota.experiments.worker_pool import Alive, Crew, WorkerReply, available_cores
from rota.model.cluster import Cluster
from rota.model.job import Arrival
from rota.model.policy import Policy
from rota.model.tenants import Tenants
from rota.papers.figures import own_figures, tenant_shares
from rota.papers.gang_figures import gang_figures, search_figures
from rota.policies.hierarchical import Hierarchical
from rota.profiles.catalogue import Catalogue
from rota.profiles.simulation_rates import read_rates
from rota.traces.synthetic import open_trace
from rota.traces.trace import Trace

TIMES = 3
"""How often a policy is asked to time it."""

WORKERS = 2
"""Processes at most: an experiment is made to end in time on two cores."""

Watch = Callable[[int, int], None]
"""Called with the cells that are done and the cells in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperCell:
    """One simulation of an experiment."""

    experiment: str
    label: str
    """The curve it belongs to."""
    x: float
    """Where on the curve."""
    group: str = ""
    """What else tells it apart, such as the workload: cells are compared within a group."""
    study: Study
    """What is simulated. Everything in it is named by a text, so that it can go to a worker process."""
    shift_s: float = 0.0
    """All jobs come so much later: where rounds begin at 0, that moves the rounds."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of tenants, for a policy that serves tenants; with any, the share that each received over time is told."""
    gangs: bool = False
    """What became of jobs with more than one GPU, and of whole nodes, is told too."""
    solve: bool = False
    """No simulation: all jobs of the trace are there, and the policy is asked once for shares."""
    effort: float = 1.0
    """About how long it takes compared with others: the longest begin first."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """A cell and what came of it."""

    cell: PaperCell
    figures: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


def run_cells(cells: Sequence[PaperCell], *, workers: int | None = None, watch: Watch | None = None) -> list[CellResult]:
    """All of them, in worker processes; results in the order of the cells. One that fails does not stop the others."""
    order = sorted(range(len(cells)), key=lambda number: -cells[number].effort)
    found: dict[int, CellResult] = {}

    def heard(number: int, answer: WorkerReply) -> None:
        cell = cells[order[number]]
        found[order[number]] = CellResult(cell, answer.get("figures", {}), str(answer.get("error", "")))
        if watch is not None:
            watch(len(found), len(cells))

    crew = min(workers or min(available_cores(), WORKERS), max(len(cells), 1))
    Crew(("rota.papers.paper_worker",), [work_of(cells[number]) for number in order], crew, heard).run()
    return [found.get(number, CellResult(cell, {}, "It was not tried: workers kept dying.")) for number, cell in enumerate(cells)]


def work_of(cell: PaperCell) -> dict[str, Any]:
    """A cell as it goes to a worker process."""
    return {each.name: getattr(cell, each.name) for each in fields(cell)} | {"study": cell.study.plain()}


def measure(work: dict[str, Any], alive: Alive) -> WorkerReply:
    """What a worker does with a cell."""
    cell, started = PaperCell(**{**work, "study": make_study(work["study"])}), time.process_time()
    study = cell.study
    known = _known(study)
    trace = _shifted(open_trace(str(study.trace), format=study.format), cell.shift_s)
    if cell.solve:
        seconds = _solve_seconds(trace, make_policy(study.policy), Cluster.parse(str(study.cluster)), known)
        return {"figures": {"solve_seconds": seconds}}
    if cell.weights:
        study = replace(study, policy=Hierarchical(tenants=Tenants(weights=cell.weights)))
    result = run_study(study, alive, trace)
    shares = tenant_shares(result, known) if cell.weights else {}
    own = {**own_figures(result, known), **search_figures(result, trace.searches)}
    if cell.gangs:
        own |= gang_figures(result)
    return {"figures": {**result.summary.to_dict(), **own, **shares, "cpu_seconds": time.process_time() - started}}


def _shifted(trace: Trace, seconds: float) -> Trace:
    if not seconds:
        return trace
    return replace(trace, arrivals=tuple(Arrival(each.submitted_s + seconds, each.spec) for each in trace.arrivals))


def _solve_seconds(trace: Trace, policy: Policy, cluster: Cluster, known: Rates) -> float:
    """Of one answer, the jobs being as old as when the last of them arrives. The median of a few; the first of a process loads a
    solver and does not count."""
    end_s = trace.arrivals[-1].submitted_s
    jobs = tuple((end_s - arrival.submitted_s, arrival.spec) for arrival in trace.arrivals)
    question = Instance(cluster, jobs, known, Tenants())
    return statistics.median([solve(question, policy, make_placer("packed")).solve_seconds for _ in range(TIMES + 1)][1:])


def _known(study: Study) -> Rates:
    """The rates that the jobs have in one node."""
    rates: Rates | None = named_preset(study.preset).physics.get("rates")
    return measured(study.profile) if study.profile is not None or rates is None else rates


@functools.lru_cache(maxsize=2)
def measured(profile: str | Path | None) -> Rates:
    return read_rates(profile) if profile is not None else Rates(model=Catalogue())
