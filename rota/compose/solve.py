"""Compute one allocation of a stored instance: jobs, their rates on each type, and the GPUs of the cluster.

An instance is a JSON object with `cluster_spec` ({type: GPUs}), `worker_types` (the order of throughputs), `jobs` (objects with
`job_type`, `scale_factor`, `priority_weight`, `num_steps_remaining`, `time_since_start`, `throughputs` and optionally `entity`),
and optionally `entity_weights`. Rates of two jobs on the same GPUs come from a profile.
"""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rota.beliefs.rates import Rates
from rota.compose.policy_tenants import with_tenants
from rota.core.plan.candidate_table import CandidateTable
from rota.core.plan.fill import grant
from rota.core.plan.order import order_candidates
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.state.accounts import time_shares
from rota.errors import InputError
from rota.files.text import read_text
from rota.model.allocation import Allocation, Shares
from rota.model.cluster import Cluster, Node, canonical
from rota.model.events import Submitted
from rota.model.job import JobSpec
from rota.model.needs import needs_of
from rota.model.placement_view import Placer
from rota.model.policy import Policy
from rota.model.tenants import Tenants
from rota.model.units import FOREVER, Floats, Ints
from rota.profiles.simulation_rates import read_rates
from rota.solver.effect import Effect

MIN_SHARE = 1e-6
"""Share below which a share counts as zero. Interior-point solvers leave tiny shares everywhere."""


@dataclass(frozen=True)
class Instance:
    """Input of one policy call."""

    cluster: Cluster
    jobs: tuple[tuple[float, JobSpec], ...]
    """Seconds since each job was submitted, and a spec with its remaining steps."""
    rates: Rates
    tenants: Tenants


@dataclass(frozen=True)
class SolveResult:
    """A policy's answer."""

    objective: float | None
    solve_seconds: float
    shares: list[dict[str, Any]]
    prices: dict[str, float] | None
    notes: dict[int, str]
    """Job -> note of the policy."""


@runtime_checkable
class HasObjective(Policy, Protocol):
    """A policy with an objective over shares."""

    def objective(self, effect: Effect) -> float: ...


def read_instance(path: Path | str, profile: Path | str | None = None) -> Instance:
    """Read an instance. Raise InputError, which names what is missing or wrong."""
    try:
        plain = json.loads(read_text(Path(path), InputError))
    except json.JSONDecodeError as problem:
        raise InputError(
            f"is not JSON ({problem.msg}).", where=str(path), line=problem.lineno, hint="see docs/shares-to-rounds.md"
        ) from problem
    try:
        return _instance(plain, read_rates(profile) if profile is not None else None)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        what = f"{problem} is missing" if isinstance(problem, KeyError) else str(problem)
        raise InputError(f"is not an instance: {what}.", where=str(path), hint="cluster_spec, worker_types and jobs") from problem


def _known(number: float) -> float | None:
    """Return a number of steps or seconds; None if it is infinite."""
    return None if number == FOREVER else number


def _instance(plain: Mapping[str, Any], profile: Rates | None) -> Instance:
    if not isinstance(plain, dict):
        raise ValueError("it is not an object")
    counts = {canonical(str(name)): int(gpus) for name, gpus in plain["cluster_spec"].items() if int(gpus) > 0}
    types = [canonical(str(name)) for name in plain["worker_types"]]
    if unknown := sorted(counts.keys() - set(types)):
        raise ValueError(f"{', '.join(unknown)} of cluster_spec is not in worker_types")
    nodes = [Node(name.lower(), name, counts[name]) for name in types if name in counts]
    table: dict[tuple[str, str, int], float] = {}
    keys: dict[tuple[str, int, tuple[float, ...]], str] = {}
    jobs = []
    for entry in plain["jobs"]:
        gpus, rates = int(entry["scale_factor"]), tuple(_finite(rate, "throughputs") for rate in entry["throughputs"])
        # Two jobs of one type with different rates get different profiles.
        name = str(entry["job_type"])
        known = keys.setdefault(
            (name, gpus, rates), name if (name, gpus) not in {(k[0], k[1]) for k in keys} else f"{name} #{len(keys)}"
        )
        if len(rates) != len(types):
            raise ValueError(f"throughputs has {len(rates)} entries for {len(types)} worker_types")
        for accelerator, rate in zip(types, rates, strict=True):
            table[known, accelerator, gpus] = rate
        spec = JobSpec(
            gpus=gpus,
            steps=_known(float(entry["num_steps_remaining"])),
            profile=known,
            weight=float(entry.get("priority_weight", 1.0)),
            tenant=str(entry.get("entity") or ""),
            deadline_seconds=_known(float(entry.get("deadline_seconds", "inf")) + float(entry["time_since_start"])),
        )
        jobs.append((float(entry["time_since_start"]), spec))
    weights = {str(name): float(weight) for name, weight in plain.get("entity_weights", {}).items()}
    policies = {str(name): str(policy) for name, policy in plain.get("entity_policies", {}).items()}
    prices = {
        canonical(str(name)): _finite(price, "dollars_per_hour") for name, price in plain.get("dollars_per_hour", {}).items()
    }
    pairs = dict(profile.pairs) if profile is not None else {}
    for one in plain.get("pairs", []):
        (first, second), (a, b) = one["jobs"], one["rates"]
        key = (str(first), str(second), canonical(str(one["accelerator"])), int(one["gpus"]))
        pairs[key] = (_finite(a, "rates"), _finite(b, "rates"))
    return Instance(
        Cluster.of(nodes, dollars_per_hour=prices), tuple(jobs), Rates(table=table, pairs=pairs), Tenants(weights, policies)
    )


def _finite(value: Any, name: str) -> float:
    number = float(value)
    if not 0 <= number < FOREVER:
        raise ValueError(f"{name} has {value!r}, which is not a finite number of at least 0")
    return number


def solve(instance: Instance, policy: Policy, placer: Placer) -> SolveResult:
    """Call a policy for one allocation. The measured time is that from the view to the answer; modules of the
    solver are loaded before."""
    for module in ("rota.solver.program", "highspy"):
        import_module(module)
    policy = with_tenants(policy, instance.tenants)
    instance, copies = _roomy(instance)
    needs = needs_of(policy)
    settings = Settings(colocation=needs.colocation, needs_predictions=needs.predictions)
    scheduler = Scheduler(instance.cluster, placer, settings, rates=instance.rates)
    order = np.argsort([-age for age, _ in instance.jobs], kind="stable").tolist()
    now_s = max((age for age, _ in instance.jobs), default=0.0)
    events = [Submitted(n, instance.jobs[i][1], now_s - instance.jobs[i][0]) for n, i in enumerate(order)]
    scheduler.fold(now_s, events)
    scheduler.state.add_share_columns(np.arange(len(scheduler.state.beliefs.options)))  # the answer may name any option
    view = scheduler.view()
    began = time.perf_counter()
    answer = policy.allocate(view)
    seconds = time.perf_counter() - began
    table = CandidateTable(scheduler.state, scheduler.state.jobs.rows, settings)
    share = _shares(answer, table, view.capacity)
    value = policy.objective(Effect(view, share)) if isinstance(policy, HasObjective) and len(view.jobs) else math.nan
    prices, notes = (answer.prices, answer.notes) if isinstance(answer, Shares) else (None, {})
    names = [order[job] for job in view.jobs.ids.tolist()]
    return SolveResult(
        value if math.isfinite(value) else None,
        seconds,
        _units(share, table, names, instance.cluster, len(order) // copies),
        None if prices is None else dict(zip(instance.cluster.pools, np.asarray(prices).tolist(), strict=True)),
        {names[at]: text for at, text in notes.items()},
    )


def _roomy(instance: Instance) -> tuple[Instance, int]:
    """Return an instance in which every gang fits into its pools, and the factor used. Shares are averages over time, so a gang
    may request more GPUs than a pool has. Multiplying both GPUs and jobs does not change any job's share."""
    widest = max((spec.width for _, spec in instance.jobs), default=1)
    copies = -(-widest // int(instance.cluster.pool_gpus.min()))
    if copies == 1:
        return instance, 1
    nodes = [replace(node, gpus=node.gpus * copies) for node in instance.cluster.nodes]
    cluster = Cluster.of(nodes, dollars_per_hour=instance.cluster.dollars_per_hour)
    return replace(instance, cluster=cluster, jobs=instance.jobs * copies), copies


def _shares(answer: Allocation, table: CandidateTable, capacity: Ints) -> Floats:
    """Return shares by job and share column. A job that a ranking would run has a share of 1 for its option."""
    if isinstance(answer, Shares):
        return time_shares(answer, table.options, table.kind)
    granted = grant(order_candidates(answer, table), table, capacity).option
    share = np.zeros((len(table), table.options.share_columns))
    runs = (granted >= 0).nonzero()[0]
    share[runs, table.options.share_column[granted[runs]]] = 1.0
    return share


def _units(share: Floats, table: CandidateTable, names: list[int], cluster: Cluster, count: int) -> list[dict[str, Any]]:
    """Return the shares of the first `count` jobs by option and partner. If only the time of a job with any partner of a kind is
    known, that time is split among the members of the kind in proportion to their own."""
    options, found = table.options, []
    rows = options.by_share_column[table.kind]
    for job, account in zip(*((share > MIN_SHARE) & (rows >= 0)).nonzero(), strict=True):
        row, mine = int(rows[job, account]), float(share[job, account])
        if names[job] >= count:
            continue
        accelerator = cluster.pools[options.pool[row]]
        twin = int(options.partner_row[row])
        if twin < 0:
            size = {"gpus": int(options.gpus[row])} if options.elastic else {}
            found.append({"jobs": [names[job]], "accelerator": accelerator, **size, "share": min(mine, 1.0)})
            continue
        others = ((table.kind == options.kind[twin]) & (share[:, options.share_column[twin]] > MIN_SHARE)).nonzero()[0]
        others = others[others != job]
        theirs = share[others, options.share_column[twin]]
        for other, part in zip(others.tolist(), (mine * theirs / max(theirs.sum(), MIN_SHARE)).tolist(), strict=True):
            if (row, job) < (twin, other) and part > MIN_SHARE:
                found.append({"jobs": sorted((names[job], names[other])), "accelerator": accelerator, "share": min(part, 1.0)})
    return found
