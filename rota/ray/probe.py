"""The check before a sweep runs on a Ray cluster: every node reports its versions, and nodes that differ from this machine are
named."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rota import __version__
from rota.errors import OptionError
from rota.experiments.versions import differences, versions
from rota.ray.channel import NAME_LABEL

PROBE_SECONDS = 120.0
"""Time limit for a node to answer, in seconds."""


def node_versions() -> str:
    """Return the versions of the packages that compute cells on this node, as JSON. A separate process reports them, because Ray
    adds folders of the sweep's machine to the path of its own processes. If it fails, return its error."""
    done = subprocess.run([sys.executable, "-P", "-m", "rota.experiments.versions"], capture_output=True, text=True)
    if done.returncode != 0:
        return json.dumps({"error": (done.stderr.strip().splitlines() or ["no output"])[-1]})
    return done.stdout


def node_name(node: Mapping[str, Any]) -> str:
    """Return the name of a node of `ray.nodes()`, with its address."""
    labels = node.get("Labels") or {}
    return f"{labels.get(NAME_LABEL) or node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def usable(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the nodes that can run cells, by their IDs."""
    return {node["NodeID"]: node for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) >= 1}


def probe(ray: Any, address: str) -> set[str]:
    """Return the IDs of nodes that did not answer. Raise OptionError if a node differs from this machine, or if none answers."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = usable(ray.nodes())
    asked = {}
    for number in nodes:
        stays = NodeAffinitySchedulingStrategy(node_id=number, soft=False)
        asked[ray.remote(node_versions).options(num_cpus=0, max_retries=0, scheduling_strategy=stays).remote()] = number
    answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=PROBE_SECONDS) if asked else ([], [])
    told = {asked[ref]: _version_differences(ray, ref) for ref in answered}
    lost = {number for number, found in told.items() if found is None}
    wrong = {number: other for number, found in told.items() if found is not None and (other := found)}
    if wrong:
        listed = "; ".join(f"{node_name(nodes[number])} has {', '.join(other)}" for number, other in wrong.items())
        raise OptionError(
            f"results would not be byte-identical: {listed}.",
            field="--ray",
            value=address,
            hint=f"the same Rota ({__version__}), Python and packages on every node; then start Ray there again",
        )
    if len(lost) + len(silent) == len(nodes):
        raise OptionError(
            "no node with a CPU answers.", field="--ray", value=address, hint="ray status, and ray start --address on a node"
        )
    return lost | {asked[ref] for ref in silent}


def _version_differences(ray: Any, ref: Any) -> list[str] | None:
    """Return the versions of a node that differ from this machine; None if the node is lost."""
    try:
        found = json.loads(ray.get(ref))
    except ray.exceptions.RayTaskError as problem:
        return [f"no Rota like this one ({type(problem.cause).__name__}: {problem.cause})"]
    except ray.exceptions.RayError:
        return None
    return [f"no Rota like this one ({found['error']})"] if "error" in found else differences(versions(), found)
