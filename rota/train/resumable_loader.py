"""The order of the data as a function of seed and epoch, so that a run can start at any position.

The examples of an epoch have one order for all ranks. A step takes the next `batch_size` examples, which are divided among the
ranks. So the position is one number, the examples taken in this epoch, and it has the same meaning for another batch size or
another number of ranks: every example is used once in each epoch.

Loading an example may draw random numbers. In worker processes they come from a generator that is seeded with the position of the
batch, so workers that start in the middle of an epoch draw the same numbers. Without workers they come from the generators of the
process, which a session saves.
"""

import random
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader, get_worker_info

from rota.errors import OptionError

OURS = ("batch_size", "sampler", "batch_sampler", "generator", "shuffle", "drop_last")


class ResumableLoader:
    """Batches of one rank, pass after pass. `resume_at` sets where the next pass begins."""

    def __init__(
        self,
        dataset: Any,
        *,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
        **options: Any,
    ) -> None:
        for name in OURS:
            if name in options:
                raise OptionError("is set by the session.", field=name, hint="shuffle, drop_last and seed set the order")
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise OptionError(
                "has no length or no items, so there is no position in it.",
                field="dataset",
                value=type(dataset).__name__,
                hint="give an iterable dataset to job.steps() in a DataLoader of your own",
            )
        if batch_size < world_size:
            raise OptionError(f"is less than one example for each of {world_size} ranks.", field="batch_size", value=batch_size)
        self.batch_size, self.shuffle, self.drop_last = batch_size, shuffle, drop_last
        self.seed, self.rank, self.world_size = seed, rank, world_size
        self.epoch = 0
        self.taken = 0
        """Number of examples of this epoch that were used, over all ranks."""
        self._length = len(dataset)
        self._generator = torch.Generator()
        """Generator of the seeds of the loader's workers. The loader does not use the generators of the script."""
        self._loader: Any = DataLoader(_Seeded(dataset), batch_sampler=_Order(self), generator=self._generator, **options)

    def __len__(self) -> int:
        """Return the number of steps of a whole epoch."""
        return sum(1 for _ in _bounds(0, self._length, self.batch_size, self.world_size, self.drop_last))

    def steps_left(self, epoch: int, offset: int) -> int:
        """Return the number of steps left of the current pass."""
        taken = self.taken if epoch == self.epoch and offset else 0
        return sum(1 for _ in _bounds(taken, self._length, self.batch_size, self.world_size, self.drop_last))

    def resume_at(self, epoch: int, offset: int) -> None:
        """Start a pass. In the epoch of a loaded checkpoint the position is known in examples, so `offset` is not used there."""
        if epoch != self.epoch or offset == 0:
            self.epoch, self.taken = epoch, 0

    def __iter__(self) -> Iterator[Any]:
        self._generator.manual_seed(_mixed(self.seed, self.epoch, self.taken))
        batches = iter(self._loader)
        # Positions follow from the step sizes, because workers fetch in advance.
        bounds = list(_bounds(self.taken, self._length, self.batch_size, self.world_size, self.drop_last))
        return self._hand_out(batches, bounds)

    def _hand_out(self, batches: Iterator[Any], bounds: list[tuple[int, int]]) -> Iterator[Any]:
        for batch, (_, end) in zip(batches, bounds, strict=True):
            self.taken = end
            yield batch

    def order(self) -> list[int]:
        """Return the examples of this epoch, in order."""
        if not self.shuffle:
            return list(range(self._length))
        generator = torch.Generator().manual_seed(_mixed(self.seed, self.epoch))
        found: list[int] = torch.randperm(self._length, generator=generator).tolist()
        return found

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "taken": self.taken, "seed": self.seed, "length": self._length}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        if not state:
            return
        for name, ours in (("seed", self.seed), ("length", self._length)):
            if state[name] != ours:
                raise OptionError(
                    f"was {state[name]} when the checkpoint was written: the order of the data would be another.",
                    field=f"{name} of the data",
                    value=ours,
                    hint="use another folder, or the same data as before",
                )
        self.epoch, self.taken = state["epoch"], state["taken"]


class _Order:
    """The indices of each step of this rank, preceded by the seed of its batch."""

    def __init__(self, loader: ResumableLoader) -> None:
        self._of = loader

    def __iter__(self) -> Iterator[list[int]]:
        loader = self._of
        order, epoch = loader.order(), loader.epoch
        bounds = _bounds(loader.taken, len(order), loader.batch_size, loader.world_size, loader.drop_last)
        for begin, end in bounds:
            yield [_mixed(loader.seed, epoch, begin, loader.rank), *order[begin + loader.rank : end : loader.world_size]]

    def __len__(self) -> int:
        return len(self._of)


class _Seeded:
    """A dataset that seeds each batch with its position when a worker process loads it."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitems__(self, seeded: list[int]) -> list[Any]:
        seed, *indices = seeded
        if get_worker_info() is not None:
            random.seed(seed)
            torch.manual_seed(seed)
            if (numpy := sys.modules.get("numpy")) is not None:
                numpy.random.seed(seed % (1 << 32))
        fetch = getattr(self.dataset, "__getitems__", None)
        return list(fetch(indices)) if fetch is not None else [self.dataset[index] for index in indices]


def _bounds(begin: int, length: int, batch_size: int, world_size: int, drop_last: bool) -> Iterator[tuple[int, int]]:
    """Yield where each step begins and ends. A last step without an example for every rank is left out."""
    while begin < length:
        end = min(begin + batch_size, length)
        if end - begin < (batch_size if drop_last else world_size):
            return
        yield begin, end
        begin = end


def _mixed(*numbers: int) -> int:
    """Return a seed made of several numbers, equal on every machine (splitmix64)."""
    found = 0
    for number in numbers:
        found = (found ^ (number & _ALL)) + 0x9E3779B97F4A7C15 & _ALL
        found = (found ^ found >> 30) * 0xBF58476D1CE4E5B9 & _ALL
        found = (found ^ found >> 27) * 0x94D049BB133111EB & _ALL
        found ^= found >> 31
    return found >> 1  # generators take 63 bits


_ALL = (1 << 64) - 1
