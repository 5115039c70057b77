"""Cordon: GPUs so slow that the operator's rule takes them out of service. Whoever runs there moves; nobody is put there."""

import numpy as np

from rota.core.ledger import Ledger
from rota.core.settings import Settings
from rota.model.units import FOREVER, MILLI, Bools, Ints

MOST = 0.1
"""Of the GPUs of a pool at most this part, or one: where more are slow, it is not they who are odd."""
ODD = 1.25
"""A GPU that is slower than this is worth a word."""
MOST_TOLD = 5
PROBATION_SECONDS = 14 * 86_400.0
"""Nothing is learned of a GPU that nobody uses, so after this long it gets another chance."""


def cordon(state: Ledger, settings: Settings) -> None:
    """Apply the rule to what is believed now. No job that is known becomes too large for its pool by it."""
    if settings.cordon_slower_than == FOREVER or state.variability is None:
        return
    worst = state.variability.scores.max(axis=0)
    slow = (worst > settings.cordon_slower_than) & ~_on_probation(state, len(worst))
    found: list[int] = []
    for pool in range(len(state.cluster.pools)):
        mine = (slow & (state.cluster.gpu_pool == pool)).nonzero()[0]
        gpus = int(state.cluster.pool_gpus[pool])
        most = min(max(int(gpus * MOST), 1), gpus - _widest(state, pool))
        found += mine[np.argsort(-worst[mine], kind="stable")][: max(most, 0)].tolist()
    if tuple(sorted(found)) != state.cordoned:
        state.set_cordoned(tuple(sorted(found)))


def slow_gpus(state: Ledger) -> list[str]:
    """What there is to tell an operator: GPUs far off the others, the slowest first, and whether they are out of service."""
    if state.variability is None or not (state.learning is not None or state.cordoned):
        return []
    known = state.variability
    feared, proven = known.feared.max(axis=0), known.scores.max(axis=0)
    odd = (feared > ODD).nonzero()[0]
    words = []
    for gpu in odd[np.argsort(-feared[odd], kind="stable")][:MOST_TOLD].tolist():
        node = state.cluster.nodes[state.cluster.gpu_node[gpu]].name
        who = f"GPU {gpu} on {node}" if proven[gpu] > ODD else f"GPU {gpu} on {node}, or one that ran with it,"
        name = known.classes[int(known.feared[:, gpu].argmax())]
        service = ", out of service" if gpu in state.cordoned else ""
        words.append(f"{who} takes {feared[gpu]:.2f} times as long as others for class {name}{service}.")
    if len(odd) > MOST_TOLD:
        words.append(f"So do {len(odd) - MOST_TOLD:,} more, by {ODD:g} times at least.")
    return words


def _on_probation(state: Ledger, gpus: int) -> Bools:
    """GPUs that were slow when they were last heard of, which is long ago."""
    latest = np.full(gpus, -FOREVER)
    for (_, gpu), seen in (state.learning.recent if state.learning is not None else {}).items():
        latest[gpu] = max(latest[gpu], seen[-1][0])
    return (latest > -FOREVER) & (state.now_s - latest > PROBATION_SECONDS)


def _widest(state: Ledger, pool: int) -> int:
    """GPUs of the largest gang that may want this pool."""
    need: Ints = state.options.milligpus[state.options.pool == pool]
    return int(need.max(initial=0)) // MILLI
