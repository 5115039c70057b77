"""The task of a paper's cell: simulate the study, and measure figures that papers publish and a summary does not have."""

import functools
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rota.api import run_study
from rota.beliefs.rates import Rates
from rota.compose.presets import preset as named_preset
from rota.compose.registry import make_placer, make_policy
from rota.compose.solve import Instance, solve
from rota.compose.study import Study
from rota.experiments.worker_pool import ReportProgress
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

CALLS = 3
"""Number of policy calls whose median time is measured."""


def run(study: Study, settings: Mapping[str, Any], alive: ReportProgress) -> dict[str, Any]:
    """Return the figures of one simulation, for JSON. The settings are those of a `PaperCell`."""
    started = time.process_time()
    known = _known(study)
    trace = _shifted(open_trace(str(study.trace), format=study.format), settings["shift_s"])
    if settings["solve"]:
        return {"solve_seconds": _solve_seconds(trace, make_policy(study.policy), Cluster.parse(str(study.cluster)), known)}
    weights = settings["weights"]
    if weights:
        study = replace(study, policy=Hierarchical(tenants=Tenants(weights=weights)))
    result = run_study(study, alive, trace)
    shares = tenant_shares(result, known) if weights else {}
    own = {**own_figures(result, known), **search_figures(result, trace.searches)}
    if settings["gangs"]:
        own |= gang_figures(result)
    return {**result.summary.to_dict(), **own, **shares, "cpu_seconds": time.process_time() - started}


def _shifted(trace: Trace, seconds: float) -> Trace:
    if not seconds:
        return trace
    return replace(trace, arrivals=tuple(Arrival(each.submitted_s + seconds, each.spec) for each in trace.arrivals))


def _solve_seconds(trace: Trace, policy: Policy, cluster: Cluster, known: Rates) -> float:
    """Return the median time of a policy call at the last arrival, in seconds. The first call of a process loads a solver and
    does not count."""
    end_s = trace.arrivals[-1].submitted_s
    jobs = tuple((end_s - arrival.submitted_s, arrival.spec) for arrival in trace.arrivals)
    instance = Instance(cluster, jobs, known, Tenants())
    return statistics.median([solve(instance, policy, make_placer("packed")).solve_seconds for _ in range(CALLS + 1)][1:])


def _known(study: Study) -> Rates:
    """Return the rates of the jobs within one node."""
    rates: Rates | None = named_preset(study.preset).physics.get("rates")
    return measured(study.profile) if study.profile is not None or rates is None else rates


@functools.lru_cache(maxsize=2)
def measured(profile: str | Path | None) -> Rates:
    return read_rates(profile) if profile is not None else Rates(model=Catalogue())
