"""Drains of nodes that have left. A machine that is drained and booted joins as another node, and stays drained."""

from dataclasses import replace

from rota.core.state.state import State


def note_absent(state: State, node: int) -> None:
    """Take the GPUs of a node that leaves out of all drains. Those of the whole node wait for its machine."""
    nodes = state.nodes
    first, end = nodes.cluster.node_first[node : node + 2].tolist()
    mine = set(range(first, end))
    whole = tuple(replace(drain, gpus=()) for drain in nodes.drains.values() if mine <= set(drain.gpus))
    if whole:
        nodes.absent_drains[nodes.cluster.nodes[node].name] = whole
    without(state, mine)
    state.set_drained(tuple(gpu for gpu in nodes.drained if gpu not in mine))


def resume_drains(state: State, name: str) -> None:
    """Continue the drains of a machine that has just joined as the last node."""
    nodes = state.nodes
    first, end = nodes.cluster.node_first[-2:].tolist()
    for absent in nodes.absent_drains.pop(name):
        here = nodes.drains.get(absent.number, absent)
        if absent.until_s > state.now_s:
            nodes.drains[absent.number] = replace(here, gpus=(*here.gpus, *range(first, end)))


def without(state: State, gpus: set[int], *, begun: bool = False) -> None:
    """Take these GPUs out of all drains. `begun`: only out of those that have begun, and out of no reservation."""
    drains = state.nodes.drains
    for number, drain in list(drains.items()):
        if begun and (drain.from_s > state.now_s or drain.reserves):
            continue
        left = tuple(gpu for gpu in drain.gpus if gpu not in gpus)
        if left:
            drains[number] = drain if left == drain.gpus else replace(drain, gpus=left)
        else:
            del drains[number]
