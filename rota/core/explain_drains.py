"""Sentences about drains: what is drained, why, by whom, and for how long."""

from collections.abc import Sequence

from rota.core.state.records import Drain
from rota.core.state.state import State
from rota.model.counted import are
from rota.model.units import FOREVER, Ints

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def drain_sentences(state: State, pools: Ints | None = None) -> list[str]:
    """Return a sentence for each node with GPUs that are drained now. `pools`: only of nodes with GPUs of these pools."""
    cluster, found = state.nodes.cluster, []
    for drain in state.nodes.drains.values():
        if drain.from_s > state.now_s or drain.reserves:
            continue
        for node, gpus in gpus_by_node(state, drain).items():
            if pools is None or cluster.gpu_pool.item(gpus[0]) in pools:
                count = 1 if len(gpus) == cluster.node_gpus[node] else len(gpus)
                found.append(f"{places_of(state, node, gpus)} {are(count)} {drained_text(state, drain)}.")
    return found


def gpus_by_node(state: State, drain: Drain) -> dict[int, list[int]]:
    """Return the GPUs of a drain by node."""
    found: dict[int, list[int]] = {}
    for gpu in drain.gpus:
        found.setdefault(state.nodes.cluster.gpu_node.item(gpu), []).append(gpu)
    return found


def places_of(state: State, node: int, gpus: list[int]) -> str:
    """Return GPUs of a node as text: the node if they are all, such as `n1`, otherwise such as `GPU 0, 3 of n1`."""
    cluster = state.nodes.cluster
    name, first = cluster.nodes[node].name, cluster.node_first.item(node)
    return name if len(gpus) == cluster.node_gpus[node] else f"GPU {', '.join(str(gpu - first) for gpu in gpus)} of {name}"


def drained_text(state: State, drain: Drain) -> str:
    """Return by whom, why and for how long something is drained or reserved, such as `drained by ana (disk) for another 2 h`."""
    who = f" by {drain.by}" if drain.by else ""
    why = f" ({drain.reason})" if drain.reason else ""
    begins = drain.from_s > state.now_s
    seconds = drain.until_s - max(drain.from_s, state.now_s)
    left = "" if drain.until_s == FOREVER else f" for {'' if begins else 'another '}{length_of(seconds)}"
    return f"{'reserved' + owners_text(drain.tenants, drain.users) if drain.reserves else 'drained'}{who}{why}{left}"


def owners_text(tenants: Sequence[str] | None, users: Sequence[str] | None) -> str:
    """Return for whom GPUs are reserved, such as ` for tenant vision and user ana`; it may be empty."""
    named = [f"tenant {each}" for each in tenants or ()] + [f"user {each}" for each in users or ()]
    return f" for {' and '.join(named)}" if named else ""


def length_of(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} s"
