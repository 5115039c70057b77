"""Readiness: whether a scheduler can accept and run jobs."""

from rota.core.state.state import State
from rota.wire.rows import ReadyRow

SLOW_WRITE_SECONDS = 5.0
"""Time after which a write to the journal counts as a problem, in seconds."""


def journal_problem(*, away: bool, full: bool, writing_seconds: float) -> str:
    """Return the problem of the journal; empty if there is none. `writing_seconds` is how long a write has been in progress."""
    if away:
        return "its database does not answer"
    if full:
        return "its disk is full"
    return f"a write has taken {writing_seconds:.0f} s so far" if writing_seconds > SLOW_WRITE_SECONDS else ""


def ready_row(state: State, *, alive: bool, journal: str) -> ReadyRow:
    """Return the row. `journal` is the problem of the journal, or empty."""
    nodes = state.nodes
    up = [bool(nodes.node_up[i]) for i in range(len(nodes.cluster.nodes)) if i not in nodes.gone]
    found = {"scheduler": "" if alive else "it has stopped", "journal": journal, "nodes": "" if any(up) else "none is up"}
    problems = {name: problem for name, problem in found.items() if problem}
    return ReadyRow(ready=not problems, problems=problems, nodes_up=sum(up), nodes=len(up))
