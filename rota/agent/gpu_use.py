"""How jobs use their GPUs, out of what was read of the GPUs.

What a GPU does as a whole is what a job does only if no other job works there. Its memory is known of each process, where NVML
tells of processes that this machine knows. In a container it often does not: then all that is used on the GPU is taken to be the
job's, if no other job works there. That is never less than what it has.
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
    """How a job uses its GPUs at a moment; not a number: not known."""

    at_s: float
    utilisation: float
    """The mean of its GPUs, from 0 to 1."""
    gib: float
    """The most that it has on one of them."""


class GpuHolder(NamedTuple):
    """An attempt that has processes, and what it can be known by."""

    key: AttemptKey
    life: str
    gpus: frozenset[str]
    works: bool
    """It is not parked."""


def holders(
    inventory: Iterable[AttemptStatus], variables: Callable[[int, int], Mapping[str, str]], uuids: Mapping[int, str]
) -> list[GpuHolder]:
    """Who has which GPUs. `variables`: the environment that an attempt was started with; `uuids`: of GPUs by number."""
    found = []
    for status in inventory:
        if status.state == ENDED:
            continue
        env = variables(status.job, status.attempt)
        numbers = [int(each) for each in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.isdecimal()]
        gpus = frozenset(uuids[number] for number in numbers if number in uuids)
        found.append(GpuHolder((status.job, status.attempt), env.get(ATTEMPT_ID, ""), gpus, status.state != PARKED))
    return found


def gpu_use(everyone: list[GpuHolder], readings: Readings, life_of: Callable[[int], str]) -> dict[AttemptKey, GpuUse]:
    """Of every attempt that works, as far as its GPUs were read. `life_of`: that of a process, by its number."""
    lives = {uuid: {pid: life_of(pid) for pid in reading.processes or ()} for uuid, reading in readings.items()}
    ours = {holder.life for holder in everyone if holder.life}
    found = {}
    for holder in everyone:
        if not holder.works or not holder.gpus or not holder.gpus <= readings.keys():
            continue
        seen = []
        for gpu in sorted(holder.gpus):
            shared = any(other.works and gpu in other.gpus for other in everyone if other is not holder)
            seen.append(_on_one(holder, readings[gpu], lives[gpu], ours, shared))
        found[holder.key] = together(seen)
    return found


def together(seen: Sequence[GpuUse]) -> GpuUse:
    """What a job does on several GPUs, or on those of several nodes, of which these were seen."""
    gib = math.nan if any(math.isnan(each.gib) for each in seen) else max(each.gib for each in seen)
    busy = sum(each.utilisation for each in seen) / len(seen)
    return GpuUse(min(each.at_s for each in seen), busy, gib)


def _on_one(holder: GpuHolder, reading: GpuReading, lives: Mapping[int, str], ours: set[str], shared: bool) -> GpuUse:
    """What it does on one GPU. `shared`: another job works there too."""
    processes = reading.processes or {}
    mine = [processes[pid] for pid, life in lives.items() if life and life == holder.life]
    if mine and None not in mine:
        gib = sum(each for each in mine if each is not None)
    else:
        gib = math.nan if shared or reading.used_gib is None else reading.used_gib
    strangers = bool(mine) and not set(lives.values()) <= ours
    busy = math.nan if shared or strangers or reading.utilisation is None else reading.utilisation
    return GpuUse(reading.at_s, busy, gib)
