"""How jobs use their GPUs, from readings of the GPUs.

The utilization of a GPU counts for a job only if no other job runs there. Memory is known for each process if NVML lists
processes of this machine. In a container it often does not. Then all used memory counts for the job, if no other job runs there,
which is never less than what the job has.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rota.agent.attempt_files import AttemptStatus
from rota.agent.constants import ATTEMPT_ID, ENDED, PARKED
from rota.agent.gpu_readings import GpuReading, Readings

AttemptKey = tuple[int, int]
"""Job and attempt."""


class GpuUse(NamedTuple):
    """How a job uses its GPUs at an instant; NaN if unknown."""

    at_s: float
    utilization: float
    """Mean utilization of its GPUs, from 0 to 1."""
    gib: float
    """Largest memory on one of its GPUs, in GiB."""


class GpuHolder(NamedTuple):
    """An attempt that has processes, and how they are recognised."""

    key: AttemptKey
    attempt_id: str
    gpus: frozenset[str]
    works: bool
    """Whether the attempt is not parked."""


def holders(
    inventory: Iterable[AttemptStatus], variables: Callable[[int, int], Mapping[str, str]], uuids: Mapping[int, str]
) -> list[GpuHolder]:
    """Return the attempts with their GPUs. `variables`: the environment of an attempt; `uuids`: UUIDs of GPUs by number."""
    found = []
    for status in inventory:
        if status.state == ENDED:
            continue
        env = variables(status.job, status.attempt)
        numbers = [int(each) for each in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.isdecimal()]
        gpus = frozenset(uuids[number] for number in numbers if number in uuids)
        found.append(GpuHolder((status.job, status.attempt), env.get(ATTEMPT_ID, ""), gpus, status.state != PARKED))
    return found


def gpu_use(everyone: list[GpuHolder], readings: Readings, attempt_id_of: Callable[[int], str]) -> dict[AttemptKey, GpuUse]:
    """Return the GPU use of every attempt that runs and whose GPUs were read. `attempt_id_of`: attempt id of a process."""
    attempt_ids = {uuid: {pid: attempt_id_of(pid) for pid in reading.processes or ()} for uuid, reading in readings.items()}
    ours = {holder.attempt_id for holder in everyone if holder.attempt_id}
    found = {}
    for holder in everyone:
        if not holder.works or not holder.gpus or not holder.gpus <= readings.keys():
            continue
        seen = []
        for gpu in sorted(holder.gpus):
            shared = any(other.works and gpu in other.gpus for other in everyone if other is not holder)
            seen.append(_on_one(holder, readings[gpu], attempt_ids[gpu], ours, shared))
        found[holder.key] = combine_uses(seen)
    return found


def combine_uses(seen: Sequence[GpuUse]) -> GpuUse:
    """Return the use of several GPUs, or of the GPUs of several nodes, as one."""
    gib = math.nan if any(math.isnan(each.gib) for each in seen) else max(each.gib for each in seen)
    busy = sum(each.utilization for each in seen) / len(seen)
    return GpuUse(min(each.at_s for each in seen), busy, gib)


def _on_one(holder: GpuHolder, reading: GpuReading, attempt_ids: Mapping[int, str], ours: set[str], shared: bool) -> GpuUse:
    """Return the use of one GPU. `shared`: whether another job runs there too."""
    processes = reading.processes or {}
    mine = [processes[pid] for pid, attempt_id in attempt_ids.items() if attempt_id and attempt_id == holder.attempt_id]
    if mine and None not in mine:
        gib = sum(each for each in mine if each is not None)
    else:
        gib = math.nan if shared or reading.used_gib is None else reading.used_gib
    strangers = bool(mine) and not set(attempt_ids.values()) <= ours
    busy = math.nan if shared or strangers or reading.utilization is None else reading.utilization
    return GpuUse(reading.at_s, busy, gib)
