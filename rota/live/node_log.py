"""Messages to the operator about nodes: a node is unreachable, back, drained, or has left."""

from rota.core.learn.failing_nodes import failing_nodes
from rota.core.state.state import State


class NodeLog:
    """Compares the nodes with their state at the last call."""

    def __init__(self, state: State) -> None:
        """Start with all nodes reachable and in use, except those that have left."""
        self._down: set[int] = set()
        self._draining: set[int] = set()
        self._gone = set(state.nodes.gone)
        self._failing: list[str] = []

    def lines(self, state: State) -> list[str]:
        """Return one line for each change."""
        nodes, failing = state.nodes, failing_nodes(state)
        gone, draining = nodes.gone, nodes.draining
        silent = ~nodes.node_up & (nodes.node_heard_s > 0.0)  # the other nodes have not answered for the first time yet
        down = set(silent.nonzero()[0].tolist()) - gone
        if (down, draining, gone, failing) == (self._down, self._draining, self._gone, self._failing):
            return []
        found = [_unreachable(state, node) for node in sorted(down - self._down)]
        found += [f"{_name(state, node)} is back" for node in sorted(self._down - down - gone)]
        found += [f"{_name(state, node)} is drained: its jobs move to other nodes" for node in sorted(draining - self._draining)]
        found += [f"{_name(state, node)} is no longer drained" for node in sorted(self._draining - draining - gone)]
        found += [f"{_name(state, node)} left" for node in sorted(gone - self._gone)]
        found += [line.removesuffix(".") for line in failing if line not in self._failing]
        self._down, self._draining, self._gone, self._failing = down, set(draining), set(gone), failing
        return found


def _name(state: State, node: int) -> str:
    return state.nodes.cluster.nodes[node].name


def _unreachable(state: State, node: int) -> str:
    silent_seconds = state.now_s - float(state.nodes.node_heard_s[node])
    jobs = sum(node in attempt.live_nodes for attempt in state.jobs.attempts.values())
    text = f"{_name(state, node)} is unreachable: no answer for {silent_seconds:.0f} s"
    if not jobs:
        return text
    who = (
        "its job keeps its GPUs until the lease expires"
        if jobs == 1
        else f"its {jobs} jobs keep their GPUs until their leases expire"
    )
    return f"{text}; {who}"
