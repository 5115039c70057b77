"""The sizes of elastic jobs as a table: the option of each kind for a number of GPUs of a pool, and its rate."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rota.model.options import Options
from rota.model.units import Floats, Ints

BatchRule = Literal["best", "largest", "requested"]
"""Which of the batch sizes that a job accepts to use: the fastest (best); the largest that does not exceed the requested examples
per GPU, or else the smallest (largest; ONES); or the requested one if the job runs with that (asked)."""


@dataclass(frozen=True, slots=True, eq=False)
class SizeTable:
    """Options by kind, pool and number of GPUs: shape (kinds, pools, max GPUs + 1)."""

    option: Ints
    """Row of the option; -1 if there is none."""
    rate: Floats
    """Steps per second; 0 if there is no option."""

    @classmethod
    def of(cls, options: Options, kinds: Ints, pools: int, rule: BatchRule = "best") -> "SizeTable":
        """Build the table for these kinds, in their order. A fraction of a GPU counts as one, and shared options are left out."""
        number = np.full(len(options.by_kind) + 1, -1, dtype=np.int64)
        number[kinds] = np.arange(len(kinds))
        rows = ((number[options.kind] >= 0) & (options.partner_kind < 0)).nonzero()[0]
        gpus = options.gpus[rows]
        most = int(gpus.max(initial=1))
        if rule != "best":
            requested = (options.requested & (options.partner_kind < 0)).nonzero()[0]
            batch, width = np.zeros(len(options.by_kind), dtype=np.int64), np.ones(len(options.by_kind), dtype=np.int64)
            batch[options.kind[requested]] = options.batch_size[requested]
            width[options.kind[requested]] = options.gpus[requested]
            kind, size = options.kind[rows], options.batch_size[rows]
            if rule == "requested":
                fits = size == batch[kind]
                has = np.zeros((len(options.by_kind), pools), dtype=bool)
                has[kind[fits], options.pool[rows[fits]]] = True
                fits |= ~has[kind, options.pool[rows]]  # the job does not run with that batch size there: any that it accepts
            else:
                least = np.full(len(options.by_kind), np.iinfo(np.int64).max)
                np.minimum.at(least, kind, size)
                fits = (size * width[kind] <= batch[kind] * gpus) | (size == least[kind])
            rows, gpus = rows[fits], gpus[fits]
        key = options.batch_size[rows] if rule == "largest" else options.rate[rows]
        order = np.lexsort((options.rate[rows], key))  # the last one is kept
        rows, gpus = rows[order], gpus[order]
        option = np.full((len(kinds), pools, most + 1), -1, dtype=np.int64)
        rate = np.zeros((len(kinds), pools, most + 1))
        at = (number[options.kind[rows]], options.pool[rows], gpus)
        option[at] = rows
        rate[at] = options.rate[option[at]]
        return cls(option, rate)
