"""What the operator of a cluster is told about its nodes: that one is unreachable, back, drained, or has left."""

from rota.core.state.state import State


class NodeLog:
    """Compares the nodes with how they were at the last call."""

    def __init__(self, state: State) -> None:
        """At first all nodes count as reachable and in use, but for those that have left."""
        self._down: set[int] = set()
        self._draining: set[int] = set()
        self._gone = set(state.machines.gone)

    def lines(self, state: State) -> list[str]:
        """One line for each change."""
        machines = state.machines
        gone, draining = machines.gone, machines.draining
        down = set((~machines.node_up).nonzero()[0].tolist()) - gone
        if (down, draining, gone) == (self._down, self._draining, self._gone):
            return []
        found = [_unreachable(state, node) for node in sorted(down - self._down)]
        found += [f"{_name(state, node)} is back" for node in sorted(self._down - down - gone)]
        found += [f"{_name(state, node)} is drained: its jobs move to other nodes" for node in sorted(draining - self._draining)]
        found += [f"{_name(state, node)} is no longer drained" for node in sorted(self._draining - draining - gone)]
        found += [f"{_name(state, node)} left" for node in sorted(gone - self._gone)]
        self._down, self._draining, self._gone = down, set(draining), set(gone)
        return found


def _name(state: State, node: int) -> str:
    return state.machines.cluster.nodes[node].name


def _unreachable(state: State, node: int) -> str:
    silent_seconds = state.now_s - float(state.machines.node_heard_s[node])
    jobs = sum(node in incarnation.parts for incarnation in state.jobs.incarnations.values())
    text = f"{_name(state, node)} is unreachable: no answer for {silent_seconds:.0f} s"
    if not jobs:
        return text
    who = (
        "its job keeps its GPUs until the lease expires"
        if jobs == 1
        else f"its {jobs} jobs keep their GPUs until their leases expire"
    )
    return f"{text}; {who}"
