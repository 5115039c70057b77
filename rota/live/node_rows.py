"""Rows about nodes and their GPUs for the operator: which jobs have them, and their readings."""

from collections.abc import Mapping

import numpy as np

from rota.agent.gpu_readings import Readings
from rota.core.state.state import State
from rota.live.cluster_changes import Devices
from rota.live.drain_rows import drain_row
from rota.wire.rows import GpuRow, NodeRow


def node_rows(state: State, devices: Mapping[int, Devices], readings: Readings, *, pretend: bool) -> list[NodeRow]:
    """Return a row for every node that has not left. `devices` has the names of the GPUs of each node, by its number."""
    nodes = state.nodes
    parked: dict[int, list[int]] = {}
    set_aside_gib = [0.0] * len(nodes.cluster.nodes)
    for job, attempt in sorted(state.jobs.attempts.items()):
        for part in attempt.live_nodes:
            set_aside_gib[part] += attempt.host_gib
        for gpu in attempt.gpus.tolist() if attempt.parked else ():
            parked.setdefault(gpu, []).append(job)
    drained, drains = set(nodes.drained), [(drain, drain_row(state, drain)) for _, drain in sorted(nodes.drains.items())]
    found = []
    for number, node in enumerate(nodes.cluster.nodes):
        if number in nodes.gone:
            continue
        first, names = int(nodes.cluster.node_first[number]), devices.get(number, ())
        found.append(
            NodeRow(
                name=node.name,
                accelerator=node.accelerator,
                up=bool(nodes.node_up[number]),
                draining=number in nodes.draining or drained.issuperset(range(first, first + node.gpus)),
                pretend=pretend,
                host_gib=None if pretend else node.room_gib,
                host_used_gib=None if pretend else set_aside_gib[number],
                gpus=[
                    _gpu(state, first + place, place, names[place] if place < len(names) else "", parked, readings)
                    for place in range(node.gpus)
                ],
                drains=[row for drain, row in drains if any(first <= gpu < first + node.gpus for gpu in drain.gpus)],
            )
        )
    return found


def _gpu(state: State, gpu: int, place: int, name: str, parked: Mapping[int, list[int]], readings: Readings) -> GpuRow:
    reading, known = readings.get(name), state.beliefs.variability
    slowdown = None if known is None else float(known.scores[:, gpu].max())
    return GpuRow(
        index=place,
        name=name,
        jobs=sorted(state.nodes.observed.holders(np.array([gpu]))),
        parked=parked.get(gpu, []),
        cordoned=gpu in state.nodes.cordoned,
        drained=gpu in state.nodes.drained,
        taken_by=state.nodes.taken.get(gpu),
        slowdown=slowdown,
        memory_gib=reading.memory_gib if reading else None,
        used_gib=reading.used_gib if reading else None,
        utilization=reading.utilization if reading else None,
        clock_mhz=reading.clock_mhz if reading else None,
        max_clock_mhz=reading.max_clock_mhz if reading else None,
        temperature_c=reading.temperature_c if reading else None,
    )
