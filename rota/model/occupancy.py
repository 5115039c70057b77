"""Who holds which part of which GPU.

Most GPUs have one holder or none: that is a column. GPUs that are held in parts have a row in a small table beside it. Parts are
counted in thousandths, and never add up to more than a whole GPU.
"""

from collections.abc import Iterable

import numpy as np

from rota.model.units import MILLI, Bools, Ints

FREE = -1
"""No job holds it."""
FRACTIONAL = -2
"""Jobs hold parts of it: `Occupancy.parts` says which."""

HALF = MILLI // 2
"""What each of two partners has of the GPUs they share."""

Parts = tuple[tuple[int, int], ...]
"""(job, thousandths) of each holder, in the order they came."""


class Occupancy:
    """The holders of every GPU of a cluster."""

    __slots__ = ("holder", "parts")

    def __init__(self, holder: Ints, parts: dict[int, Parts] | None = None) -> None:
        self.holder = holder
        """The job that has each GPU whole, FREE or IN_PARTS."""
        self.parts: dict[int, Parts] = {} if parts is None else parts
        """The holders of each GPU that is held in parts. Values are frozen, so that a copy of the table is enough."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Occupancy) and bool((self.holder == other.holder).all()) and self.parts == other.parts

    __hash__ = None  # type: ignore[assignment]

    @property
    def free(self) -> Bools:
        """GPUs that no job holds a part of."""
        free: Bools = self.holder == FREE
        return free

    def free_without(self, jobs: Iterable[tuple[int, Ints]]) -> Bools:
        """GPUs that are free once these jobs give up the GPUs named beside them."""
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
        """Thousandths of a GPU that no job holds."""
        holder = self.holder.item(gpu)
        if holder == FRACTIONAL:
            return MILLI - sum(thousandths for _, thousandths in self.parts[gpu])
        return MILLI if holder == FREE else 0

    def take(self, job: int, gpus: Ints, thousandths: int = MILLI) -> None:
        """A job takes so much of each of these GPUs. The caller has seen that there is room."""
        if thousandths == MILLI:
            self.holder[gpus] = job
            return
        for gpu in gpus.tolist():
            self.parts[gpu] = (*self.parts.get(gpu, ()), (job, thousandths))
        self.holder[gpus] = FRACTIONAL

    def release(self, job: int, gpus: Ints) -> None:
        """A job gives up what it holds of these GPUs."""
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
        """A job that holds these GPUs holds so much of each from now on, and keeps its place among the holders."""
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
        """A job comes to GPUs that are free, and has them whole, or to those of its partner, and each has half of them."""
        others = self.holders(gpus)
        for other in others:
            self.resize(other, gpus, HALF)
        self.take(job, gpus, HALF if others else MILLI)

    def leave(self, job: int, gpus: Ints) -> set[int]:
        """A job gives these GPUs up. Its partners, which are returned, have them whole."""
        self.release(job, gpus)
        others = self.holders(gpus) if self.parts else set()
        for other in others:
            self.resize(other, gpus, MILLI)
        return others

    def held(self, job: int, gpus: Ints) -> Bools:
        """Which of these GPUs the job holds a part of."""
        mine: Bools = self.holder[gpus] == job
        if self.parts:
            for number, gpu in enumerate(gpus.tolist()):
                mine[number] = mine[number] or any(who == job for who, _ in self.parts.get(gpu, ()))
        return mine

    def holders(self, gpus: Ints) -> set[int]:
        """All jobs that hold a part of one of these GPUs."""
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
        """So many more GPUs, which are free."""
        self.holder = np.concatenate((self.holder, np.full(gpus, FREE, dtype=np.int64)))

    def copy(self) -> "Occupancy":
        return Occupancy(self.holder.copy(), self.parts.copy())
