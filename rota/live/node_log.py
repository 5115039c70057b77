"""Messages to the operator about nodes: a node is lost, back, drained, removed or has left, and which jobs that concerns."""

from collections.abc import Iterable
from dataclasses import replace

from rota.core.explain_drains import drained_text, gpus_by_node, places_of
from rota.core.explain_windows import kept_by_strangers
from rota.core.learn.failing_nodes import failing_nodes
from rota.core.state.records import Drain
from rota.core.state.state import State
from rota.core.state.windows import can_leave

MAX_NAMED = 8


class NodeLog:
    """Compares the nodes with their state at the last call."""

    def __init__(self, state: State, *, nodes_can_leave: bool = True) -> None:
        """Start with all nodes reachable and in use, except those that have left or that operators drain. The nodes of a single
        machine (not `nodes_can_leave`) change only as its GPUs change, which is reported elsewhere, or as operators request."""
        self._nodes_can_leave = nodes_can_leave
        self._down: set[int] = set()
        self._draining: set[int] = set()
        self._gone = set(state.nodes.gone)
        self._failing: list[str] = []
        self._drains = _begun(state)
        """Drains of operators that have begun, by what they drain."""
        self._lost_jobs: dict[int, list[int]] = {}
        """Jobs of each unreachable node when it became unreachable."""

    def lines(self, state: State) -> list[str]:
        """Return one line for each change."""
        nodes, failing = state.nodes, failing_nodes(state)
        gone, draining, drains = nodes.gone, nodes.draining, _begun(state) if nodes.drains else {}
        silent = ~nodes.node_up & (nodes.node_heard_s > 0.0)  # the other nodes have not answered for the first time yet
        down = set(silent.nonzero()[0].tolist()) - gone
        before = self._down, self._draining, self._gone, self._failing, self._drains
        if (down, draining, gone, failing, drains) == before:
            return []
        names = [node.name for node in nodes.cluster.nodes]
        found = [self._unreachable(state, node) for node in sorted(down - self._down)]
        found += [f"{names[node]} is back" for node in sorted(self._down - down - gone)]
        found += [f"{names[node]} is drained: its jobs move to other nodes" for node in sorted(draining - self._draining)]
        found += [f"{names[node]} is no longer drained" for node in sorted(self._draining - draining - gone)]
        requested = [_drained(state, key[0], drain) for key, drain in drains.items() if self._drains.get(key) != drain]
        ended = [key for key in self._drains if key not in drains]
        requested += [f"{what} is no longer {'reserved' if reserves else 'drained'}" for what, reserves in ended]
        requested += [self._left(state, node) for node in sorted(gone - self._gone) if names[node] in nodes.removed]
        found += requested
        found += [self._left(state, node) for node in sorted(gone - self._gone) if names[node] not in nodes.removed]
        found += [line.removesuffix(".") for line in failing if line not in self._failing]
        self._down, self._draining, self._gone, self._failing, self._drains = down, set(draining), set(gone), failing, drains
        self._lost_jobs = {node: jobs for node, jobs in self._lost_jobs.items() if node in down}
        return found if self._nodes_can_leave else requested

    def _unreachable(self, state: State, node: int) -> str:
        silent_seconds = state.now_s - float(state.nodes.node_heard_s[node])
        jobs = [job for job, attempt in state.jobs.attempts.items() if node in attempt.live_nodes]
        self._lost_jobs[node] = jobs
        text = f"{_name(state, node)} is unreachable: no answer for {silent_seconds:.0f} s"
        if not jobs:
            return text
        rest = "keeps its GPUs until the lease expires" if len(jobs) == 1 else "keep their GPUs until their leases expire"
        return f"{text}; {_jobs(jobs)} {rest}"

    def _left(self, state: State, node: int) -> str:
        jobs = self._lost_jobs.get(node, [])
        text = f"{_name(state, node)} {'was removed' if _name(state, node) in state.nodes.removed else 'left'}"
        return f"{text}; {_jobs(jobs)} ran there and ended with it" if jobs else text


def _begun(state: State) -> dict[tuple[str, bool], Drain]:
    """Return the drains and reservations that have begun, by what they have and whether they reserve it."""
    return {
        (places_of(state, node, gpus), drain.reserves): replace(drain, gpus=())
        for drain in state.nodes.drains.values()
        if drain.from_s <= state.now_s
        for node, gpus in gpus_by_node(state, drain).items()
    }


def _drained(state: State, what: str, drain: Drain) -> str:
    """Return what is drained or reserved, and what becomes of its jobs."""
    here = kept_by_strangers(state, state.nodes.drains[drain.number])
    move = [job for job in here if can_leave(state, drain, job)]
    stay = [job for job in here if job not in move]
    text = f"{what} is {drained_text(state, drain)}"
    text += f"; {_jobs(move)} move{'s' * (len(move) == 1)} away" if move else ""
    return text + (f"; {_jobs(stay)} stay{'s' * (len(stay) == 1)} until the end" if stay else "")


def _jobs(jobs: Iterable[int]) -> str:
    found = sorted(jobs)
    return f"job{'s' * (len(found) > 1)} {', '.join(map(str, found[:MAX_NAMED]))}{', ...' * (len(found) > MAX_NAMED)}"


def _name(state: State, node: int) -> str:
    return state.nodes.cluster.nodes[node].name
