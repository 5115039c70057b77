"""Check a file as if it were used, and describe it: a trace, rates, a cluster, a job spec, a script, tenants or a policy."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rota.compose.tenants_yaml import TENANT, WHOLE, read_tenants
from rota.errors import InputError, OptionError, SpecError
from rota.files.csv_table import read_table
from rota.files.tree import TreeEntry, read_tree
from rota.live.requests import to_job_spec
from rota.model.counted import counted
from rota.wire.script import SHELL_SCRIPTS, read_script
from rota.wire.spec import Spec, spec_from
from rota.wire.submission import Submission


@dataclass(frozen=True, slots=True)
class FileCheck:
    """A valid file."""

    file: str
    kind: str
    summary: str
    """Short description of the contents."""


def check_file(path: str) -> FileCheck:
    """Check a file. Raise the error that using it would raise."""
    suffix = Path(path.partition(":")[0]).suffix.lower()
    if suffix == ".py":
        return _policy(path)
    if suffix in SHELL_SCRIPTS:
        return _job_spec(path, read_script(path).root)
    look: Callable[[str], FileCheck] = {".yaml": _yaml, ".yml": _yaml, ".json": _rates}.get(suffix, _table)
    return look(path)


def _yaml(path: str) -> FileCheck:
    """Check a YAML file: it is a cluster if it has nodes, a job spec if it has a command, tenants if it has weights."""
    from rota.beliefs.rates import Rates
    from rota.compose.accelerator_types import type_assumptions
    from rota.compose.cluster_yaml import read_cluster_yaml

    root = read_tree(path, SpecError)
    names = root.mapping()
    if "nodes" in names and "run" not in names:
        cluster = read_cluster_yaml(path).cluster
        type_assumptions(cluster, Rates())
        parts = ", ".join(f"{gpus} {name}" for name, gpus in zip(cluster.pools, cluster.pool_gpus.tolist(), strict=True))
        groups = [len(set(row.tolist())) for row in cluster.domains[1:]]
        racks = f" in {counted(groups[0], 'rack')}" if groups else ""
        racks += "".join(f", these in {counted(count, 'place')}" for count in groups[1:])
        return FileCheck(path, "cluster", f"{counted(len(cluster.nodes), 'node')} with {parts}{racks}")
    if names and "run" not in names and (set(names) <= set(WHOLE) or all(_is_tenant(entry) for entry in names.values())):
        tenants = read_tenants(path)
        weights, guaranteed = tenants.weights.values(), tenants.guarantee("").gpus
        promise = f", {counted(guaranteed, 'GPU')} guaranteed" if guaranteed else ""
        return FileCheck(path, "tenants", f"{len(weights)} with weights from {min(weights):g} to {max(weights):g}{promise}")
    return _job_spec(path, root)


def _job_spec(path: str, root: TreeEntry) -> FileCheck:
    spec = spec_from(root)
    _refuse_what_submit_refuses(spec, root)
    gpus = counted(spec.gpus, "GPU") if isinstance(spec.gpus, int | float) else f"{spec.gpus.min} to {spec.gpus.max} GPUs"
    unset = [name for name, value in spec.env.items() if value is None and name not in os.environ]
    note = f"; to be set where it is submitted: {', '.join(unset)}" if unset else ""
    return FileCheck(path, "job spec", f"{gpus} of {' or '.join(spec.accelerators) or 'any type'}{note}")


def _is_tenant(entry: TreeEntry) -> bool:
    return entry.value is None or (isinstance(entry.value, dict) and entry.value.keys() <= set(TENANT))


def _refuse_what_submit_refuses(spec: Spec, root: TreeEntry) -> None:
    """Raise SpecError, with the line, for what `rota submit` refuses, such as a deadline in the past."""
    try:
        to_job_spec(Submission(spec, "", "/", dict.fromkeys(spec.env, "")), time.time())
    except SpecError as problem:
        entry, _ = root.find(tuple(problem.field.split(".")))
        found = SpecError(f"{root.where}:{entry.line}  {problem.message}", hint=problem.hint)
        found.field, found.line = problem.field, entry.line
        raise found from None


def _table(path: str) -> FileCheck:
    """Check a table. Rates and lists of nodes are recognised by their columns; any other table is checked as a trace."""
    try:
        columns = read_table(path, OptionError).folded().columns
    except InputError:
        columns = ()  # the reader of traces has the better message
    if {"sn", "gpu", "model"} <= set(columns):
        return _node_list(path)
    return _rates(path) if {"steps_per_second", "accelerator"} & set(columns) else _trace(path)


def _node_list(path: str) -> FileCheck:
    from rota.compose.node_list import read_node_list

    cluster = read_node_list(path)
    parts = ", ".join(f"{gpus:,} {name}" for name, gpus in zip(cluster.pools, cluster.pool_gpus.tolist(), strict=True))
    return FileCheck(path, "cluster", f"{counted(len(cluster.nodes), 'node')} with {parts}")


def _trace(path: str) -> FileCheck:
    from rota.beliefs.rates import Rates
    from rota.compose.unknown_profiles import unknown_profiles
    from rota.profiles.catalogue import Catalogue
    from rota.traces.info import describe
    from rota.traces.read_trace import read_trace

    trace = read_trace(path)
    found = describe(trace)
    skipped = f", {found.skipped:,} skipped" if found.skipped else ""
    jobs, named = unknown_profiles((arrival.spec for arrival in trace.arrivals), Rates(model=Catalogue()).knows)
    unknown = f"; {counted(jobs, 'job')} with a profile that is not in the catalogue: {named}" if jobs else ""
    says = f"{counted(found.jobs, 'job')} over {found.span_seconds / 3600:,.1f} h{skipped}{unknown}"
    return FileCheck(path, f"trace ({found.format})", says)


def _rates(path: str) -> FileCheck:
    from rota.profiles.describe import describe_file

    held = describe_file(path)
    pairs = f", {counted(held.pairs, 'pair')}" if held.pairs else ""
    return FileCheck(path, "rates", f"{counted(len(held.profiles), 'profile')} on {', '.join(held.accelerators)}{pairs}")


def _policy(path: str) -> FileCheck:
    from rota.compose.registry import make_policy
    from rota.sim.conformance import check_policy

    make_policy(path)
    findings = list(check_policy(lambda: make_policy(path), 5))
    broken = [finding for finding in findings if not finding.holds]
    if broken:
        raise OptionError(
            f"{broken[0].name}: {broken[0].story}", field="policy", value=path, hint=f"rota policy check {path} for all of it"
        )
    return FileCheck(path, "policy", f"keeps all {len(findings)} rules")
