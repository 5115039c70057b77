"""Rows of drains, for operators: what is drained, why, by whom, until when, and which jobs are still there."""

from rota.core.explain_drains import gpus_by_node
from rota.core.state.records import Drain
from rota.core.state.state import State
from rota.live.instants import iso
from rota.model.units import FOREVER
from rota.wire.rows import DrainRow


def drain_rows(state: State) -> list[DrainRow]:
    return [drain_row(state, drain) for _, drain in sorted(state.nodes.drains.items())]


def drain_row(state: State, drain: Drain) -> DrainRow:
    cluster, mine = state.nodes.cluster, set(drain.gpus)
    places = []
    for node, gpus in gpus_by_node(state, drain).items():
        name, first = cluster.nodes[node].name, cluster.node_first.item(node)
        whole = len(gpus) == cluster.node_gpus[node]
        places += [name] if whole else [f"{name}:{gpu - first}" for gpu in gpus]
    here = sorted(job for job, attempt in state.jobs.attempts.items() if not mine.isdisjoint(attempt.gpus.tolist()))
    saves = {job for job in here if state.jobs.table.saves[state.jobs.row[job]]}
    return DrainRow(
        id=drain.number,
        places=places,
        reason=drain.reason,
        by=drain.by,
        from_at=iso(drain.from_s) or "",
        until_at=None if drain.until_s == FOREVER else iso(drain.until_s),
        begun=drain.from_s <= state.now_s,
        leaving=[job for job in here if job in saves],
        staying=[job for job in here if job not in saves],
    )
