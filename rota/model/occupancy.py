"""Which jobs hold which fractions of which GPUs.

Most GPUs have one holder or none, which is a column. GPUs that are divided into fractions have rows in a small table. Fractions
are counted in thousandths, and those of one GPU add up to at most 1000.
"""

from collections.abc import Iterable

import numpy as np

from rota.model.units import MILLI, Bools, Ints

FREE = -1
"""No job holds the GPU."""
FRACTIONAL = -2
"""Jobs hold fractions of the GPU, which are listed in `Occupancy.gpu_fractions`."""

HALF = MILLI // 2
"""Thousandths that each of two partners holds of a shared GPU."""

Fractions = tuple[tuple[int, int], ...]
"""(job, thousandths) of each holder, in the order in which they came."""


class Occupancy:
    """Holders of every GPU of a cluster."""

    __slots__ = ("gpu_fractions", "holder")

    def __init__(self, holder: Ints, parts: dict[int, Fractions] | None = None) -> None:
        self.holder = holder
        """The job that holds all of each GPU, FREE or FRACTIONAL."""
        self.gpu_fractions: dict[int, Fractions] = {} if parts is None else parts
        """Holders of each GPU that is divided. Values are immutable, so that a shallow copy of the table is enough."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Occupancy)
            and bool((self.holder == other.holder).all())
            and self.gpu_fractions == other.gpu_fractions
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def free(self) -> Bools:
        """Whether each GPU has no holder."""
        free: Bools = self.holder == FREE
        return free

    def free_without(self, jobs: Iterable[tuple[int, Ints]]) -> Bools:
        """Return which GPUs are free once each of these jobs gives up the GPUs that are listed with it."""
        if self.gpu_fractions:
            rest = self.copy()
            for job, gpus in jobs:
                rest.release(job, gpus)
            return rest.free
        free = self.free
        for _, gpus in jobs:
            free[gpus] = True
        return free

    @property
    def shared(self) -> list[int]:
        """GPUs that more than one job holds."""
        return [gpu for gpu, parts in self.gpu_fractions.items() if len(parts) > 1]

    def room(self, gpu: int) -> int:
        """Return the free thousandths of a GPU."""
        holder = self.holder.item(gpu)
        if holder == FRACTIONAL:
            return MILLI - sum(thousandths for _, thousandths in self.gpu_fractions[gpu])
        return MILLI if holder == FREE else 0

    def take(self, job: int, gpus: Ints, thousandths: int = MILLI) -> None:
        """Give a job this many thousandths of each of these GPUs. The caller has checked that they are free."""
        if thousandths == MILLI:
            self.holder[gpus] = job
            return
        for gpu in gpus.tolist():
            self.gpu_fractions[gpu] = (*self.gpu_fractions.get(gpu, ()), (job, thousandths))
        self.holder[gpus] = FRACTIONAL

    def release(self, job: int, gpus: Ints) -> None:
        """Free what a job holds of these GPUs."""
        if not self.gpu_fractions:
            if len(gpus) == 1:  # most jobs
                gpu = gpus.item()
                if self.holder.item(gpu) == job:
                    self.holder[gpu] = FREE
                return
            self.holder[gpus[self.holder[gpus] == job]] = FREE
            return
        for gpu in gpus.tolist():
            if self.holder.item(gpu) == job:
                self.holder[gpu] = FREE
            elif gpu in self.gpu_fractions:
                left = tuple(part for part in self.gpu_fractions[gpu] if part[0] != job)
                if left:
                    self.gpu_fractions[gpu] = left
                else:
                    del self.gpu_fractions[gpu]
                    self.holder[gpu] = FREE

    def resize(self, job: int, gpus: Ints, thousandths: int) -> None:
        """Change the thousandths that a job holds of each of these GPUs. The order of the holders stays."""
        for gpu in gpus.tolist():
            holder = self.holder.item(gpu)
            parts = self.gpu_fractions.get(gpu, ((job, MILLI),) if holder == job else ())
            parts = tuple((who, thousandths if who == job else size) for who, size in parts)
            if parts == ((job, MILLI),):
                self.gpu_fractions.pop(gpu, None)
                self.holder[gpu] = job
            elif parts:
                self.gpu_fractions[gpu] = parts
                self.holder[gpu] = FRACTIONAL

    def join(self, job: int, gpus: Ints) -> None:
        """Give a job GPUs that are free, or half of the GPUs of its partner, which keeps the other half."""
        others = self.holders(gpus)
        for other in others:
            self.resize(other, gpus, HALF)
        self.take(job, gpus, HALF if others else MILLI)

    def leave(self, job: int, gpus: Ints) -> set[int]:
        """Free what a job holds of these GPUs. Its partners get all of them, and are returned."""
        gpus = gpus[self.held(job, gpus)]
        self.release(job, gpus)
        others = self.holders(gpus) if self.gpu_fractions else set()
        for other in others:
            self.resize(other, gpus, MILLI)
        return others

    def held(self, job: int, gpus: Ints) -> Bools:
        """Return of which of these GPUs the job holds a fraction."""
        mine: Bools = self.holder[gpus] == job
        if self.gpu_fractions:
            for number, gpu in enumerate(gpus.tolist()):
                mine[number] = mine[number] or any(who == job for who, _ in self.gpu_fractions.get(gpu, ()))
        return mine

    def holders(self, gpus: Ints) -> set[int]:
        """Return all jobs that hold a fraction of one of these GPUs."""
        if len(gpus) == 1 and not self.gpu_fractions:  # most jobs
            holder = self.holder.item(gpus.item())
            return set() if holder == FREE else {holder}
        found = set(self.holder[gpus].tolist())
        if FRACTIONAL in found:
            found.update(who for gpu in gpus.tolist() for who, _ in self.gpu_fractions.get(gpu, ()))
            found.discard(FRACTIONAL)
        found.discard(FREE)
        return found

    def grow(self, gpus: int) -> None:
        """Append this many free GPUs."""
        self.holder = np.concatenate((self.holder, np.full(gpus, FREE, dtype=np.int64)))

    def copy(self) -> "Occupancy":
        return Occupancy(self.holder.copy(), self.gpu_fractions.copy())
