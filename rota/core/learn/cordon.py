"""Cordon: GPUs that rules take out of service. No job is put there. GPUs that are too slow by the operator's rule are left by the
jobs that have them; on nodes where starts fail (`failing_nodes.py`) only free GPUs are cordoned."""

import numpy as np

from rota.core.settings import Settings
from rota.core.state.state import State
from rota.model.units import FOREVER, Bools

MAX_CORDONED_FRACTION = 0.1
"""Largest fraction of a pool's GPUs that is cordoned for being slow, at least one GPU: if more are slow, that is normal."""
SLOW_GPU_FACTOR = 1.25
"""Slowdown beyond which a GPU is reported to the operator."""
MAX_REPORTED = 5
PROBATION_SECONDS = 14 * 86_400.0
"""Nothing is learned about an unused GPU, so it gets another chance after this long."""


def cordon(state: State, settings: Settings) -> None:
    """Apply the rules to what is believed now."""
    found = [*_on_failing_nodes(state), *_slow(state, settings)] if state.nodes.failing else _slow(state, settings)
    if tuple(found) != state.nodes.cordoned:
        state.set_cordoned(tuple(dict.fromkeys(found)))


def _on_failing_nodes(state: State) -> list[int]:
    """Return the free GPUs of nodes on which starts fail. A job that runs there stays."""
    nodes = state.nodes
    here = np.isin(nodes.cluster.gpu_node, list(nodes.failing)) & nodes.observed.free
    return [int(gpu) for gpu in here.nonzero()[0]]


def _slow(state: State, settings: Settings) -> list[int]:
    if settings.cordon_slower_than == FOREVER or state.beliefs.variability is None:
        return []
    worst = state.beliefs.variability.scores.max(axis=0)
    slow = (worst > settings.cordon_slower_than) & ~_on_probation(state, len(worst))
    found: list[int] = []
    for pool in range(len(state.nodes.cluster.pools)):
        mine = (slow & (state.nodes.cluster.gpu_pool == pool)).nonzero()[0]
        most = max(int(state.nodes.cluster.pool_gpus[pool] * MAX_CORDONED_FRACTION), 1)
        found += mine[np.argsort(-worst[mine], kind="stable")][:most].tolist()
    return found


def slow_gpus(state: State) -> list[str]:
    """Return a sentence for each GPU that is far slower than the others, slowest first, for operators."""
    if state.beliefs.variability is None or not (state.beliefs.learning is not None or state.nodes.cordoned):
        return []
    known, out = state.beliefs.variability, state.out_of_service()
    feared, proven = known.feared.max(axis=0), known.scores.max(axis=0)
    words = []
    sure = (proven > SLOW_GPU_FACTOR).nonzero()[0]
    for gpu in sure[np.argsort(-proven[sure], kind="stable")].tolist():
        node = state.nodes.cluster.nodes[state.nodes.cluster.gpu_node[gpu]].name
        name = known.classes[int(known.scores[:, gpu].argmax())]
        service = ", out of service" if gpu in out else ""
        words.append(f"GPU {gpu} on {node} takes {proven[gpu]:.2f} times as long as others for class {name}{service}.")
    groups: dict[tuple[int, float], list[int]] = {}
    for gpu in ((feared > SLOW_GPU_FACTOR) & (proven <= SLOW_GPU_FACTOR)).nonzero()[0].tolist():
        groups.setdefault((int(known.feared[:, gpu].argmax()), round(float(feared[gpu]), 2)), []).append(gpu)
    for (row, score), gpus in sorted(groups.items(), key=lambda each: -each[0][1]):
        nodes = dict.fromkeys(state.nodes.cluster.nodes[node].name for node in state.nodes.cluster.gpu_node[gpus].tolist())
        where = next(iter(nodes)) if len(nodes) == 1 else f"{len(nodes)} nodes"
        together = gpus[-1] - gpus[0] == len(gpus) - 1 and len(gpus) > 1
        who = f"GPUs {gpus[0]} to {gpus[-1]}" if together else f"{len(gpus)} GPUs ({gpus[0]}, ...)"
        words.append(f"One of {who} on {where} takes {score:.2f} times as long as others for class {known.classes[row]}.")
    return words[:MAX_REPORTED] + ([f"And {len(words) - MAX_REPORTED:,} more."] if len(words) > MAX_REPORTED else [])


def _on_probation(state: State, gpus: int) -> Bools:
    """Return which GPUs were last measured too long ago to be called slow."""
    latest = np.full(gpus, -FOREVER)
    for (_, gpu), seen in (state.beliefs.learning.recent if state.beliefs.learning is not None else {}).items():
        latest[gpu] = max(latest[gpu], seen[-1][0])
    return (latest > -FOREVER) & (state.now_s - latest > PROBATION_SECONDS)
