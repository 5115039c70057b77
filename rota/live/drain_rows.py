"""Rows of drains, for operators: what is drained, why, by whom, until when, and which jobs are still there."""

from rota.core.explain_drains import gpus_by_node
from rota.core.explain_windows import kept_by_strangers
from rota.core.state.records import Drain
from rota.core.state.state import State
from rota.core.state.windows import can_leave
from rota.live.instants import iso
from rota.model.units import FOREVER
from rota.wire.rows import DrainRow


def drain_rows(state: State) -> list[DrainRow]:
    return [drain_row(state, drain) for _, drain in sorted(state.nodes.drains.items())]


def drain_row(state: State, drain: Drain) -> DrainRow:
    cluster = state.nodes.cluster
    places = []
    for node, gpus in gpus_by_node(state, drain).items():
        name, first = cluster.nodes[node].name, cluster.node_first.item(node)
        whole = len(gpus) == cluster.node_gpus[node]
        places += [name] if whole else [f"{name}:{gpu - first}" for gpu in gpus]
    here = kept_by_strangers(state, drain)
    saves = {job for job in here if can_leave(state, drain, job)}
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
        tenants=list(drain.tenants or ()),
        users=list(drain.users or ()),
    )
