"""Whether a job can be parked now."""

from rota.core.state.records import Attempt
from rota.core.state.state import State
from rota.model.units import Floats


def may_park(state: State, job: int, attempt: Attempt, host_gib: Floats) -> bool:
    """Return whether a job can be parked: it supports that, each of its nodes has enough host memory (which is then subtracted
    from `host_gib`), and what it keeps on its GPUs leaves enough for any other job."""
    nodes = list(attempt.live_nodes)
    if not state.jobs.table.can_park.item(state.jobs.row[job]):
        return False
    more_gib = state.memory.gib_per_node(job, attempt) - attempt.host_gib
    if more_gib > 0 and (host_gib[nodes] < more_gib).any():
        return False
    if state.memory.crowded(attempt.gpus, state.beliefs.costs.memory.context_gib):
        return False
    host_gib[nodes] -= more_gib
    return True
