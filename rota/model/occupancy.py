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
"""Jobs hold fractions of the GPU, which are listed in `Occupancy.parts`."""

HALF = MILLI // 2
"""Thousandths that each of two partners holds of a shared GPU."""

Parts = tuple[tuple[int, int], ...]
"""(job, thousandths) of each holder, in the order in which they came."""


class Occupancy:
    """Holders of every GPU of a cluster."""

    __slots__ = ("holder", "parts")

    def __init__(self, holder: Ints, parts: dict[int, Parts] | None = None) -> None:
        self.holder = holder
        """The job that holds all of each GPU, FREE or FRACTIONAL."""
        self.parts: dict[int, Parts] = {} if parts is None else parts
        """Holders of each GPU that is divided. Values are immutable, so that a shallow copy of the table is enough."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Occupancy) and bool((self.holder == other.holder).all()) and self.parts == other.parts

    __hash__ = None  # type: ignore[assignment]

    @property
    def free(self) -> Bools:
        """Whether each GPU has no holder."""
        free: Bools = self.holder == FREE
        return free

    def free_without(self, jobs: Iterable[tuple[int, Ints]]) -> Bools:
        """Return which GPUs are free once each of these jobs gives up the GPUs that are listed with it."""
        if self.parts:
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
        return [gpu for gpu, parts in self.parts.items() if len(parts) > 1]

    def room(self, gpu: int) -> int:
        """Return the free thousandths of a GPU."""
        holder = self.holder.item(gpu)
        if holder == FRACTIONAL:
            return MILLI - sum(thousandths for _, thousandths in self.parts[gpu])
        return MILLI if holder == FREE else 0

    def take(self, job: int, gpus: Ints, thousandths: int = MILLI) -> None:
        """Give a job this many thousandths of each of these GPUs. The caller has checked that they are free."""
        if thousandths == MILLI:
            self.holder[gpus] = job
            return
        for gpu in gpus.tolist():
            self.parts[gpu] = (*self.parts.get(gpu, ()), (job, thousandths))
        self.holder[gpus] = FRACTIONAL

    def release(self, job: int, gpus: Ints) -> None:
        """Free what a job holds of these GPUs."""
        if not self.parts:
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
            elif gpu in self.parts:
                left = tuple(part for part in self.parts[gpu] if part[0] != job)
                if left:
                    self.parts[gpu] = left
                else:
                    del self.parts[gpu]
                    self.holder[gpu] = FREE

    def resize(self, job: int, gpus: Ints, thousandths: int) -> None:
        """Change the thousandths that a job holds of each of these GPUs. The order of the holders stays."""
        for gpu in gpus.tolist():
            holder = self.holder.item(gpu)
            parts = self.parts.get(gpu, ((job, MILLI),) if holder == job else ())
            parts = tuple((who, thousandths if who == job else size) for who, size in parts)
            if parts == ((job, MILLI),):
                self.parts.pop(gpu, None)
                self.holder[gpu] = job
            elif parts:
                self.parts[gpu] = parts
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
        others = self.holders(gpus) if self.parts else set()
        for other in others:
            self.resize(other, gpus, MILLI)
        return others

    def held(self, job: int, gpus: Ints) -> Bools:
        """Return of which of these GPUs the job holds a fraction."""
        mine: Bools = self.holder[gpus] == job
        if self.parts:
            for number, gpu in enumerate(gpus.tolist()):
                mine[number] = mine[number] or any(who == job for who, _ in self.parts.get(gpu, ()))
        return mine

    def holders(self, gpus: Ints) -> set[int]:
        """Return all jobs that hold a fraction of one of these GPUs."""
        if len(gpus) == 1 and not self.parts:  # most jobs
            holder = self.holder.item(gpus.item())
            return set() if holder == FREE else {holder}
        found = set(self.holder[gpus].tolist())
        if FRACTIONAL in found:
            found.update(who for gpu in gpus.tolist() for who, _ in self.parts.get(gpu, ()))
            found.discard(FRACTIONAL)
        found.discard(FREE)
        return found

    def grow(self, gpus: int) -> None:
        """Append this many free GPUs."""
        self.holder = np.concatenate((self.holder, np.full(gpus, FREE, dtype=np.int64)))

    def copy(self) -> "Occupancy":
        return Occupancy(self.holder.copy(), self.parts.copy())
