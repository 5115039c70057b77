"""The sizes of elastic jobs as a table: by which option a job of each kind runs on so many GPUs of a pool, and how fast."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rota.model.options import Options
from rota.model.units import Floats, Ints

BatchRule = Literal["best", "largest", "asked"]
"""Of the batch sizes that a job accepts on so many GPUs: the one it is fastest with; the largest that keeps its examples on each
GPU at what it asked for (ONES), or the smallest if none does; or the one it asked for, where it
runs with that."""


@dataclass(frozen=True, slots=True, eq=False)
class SizeTable:
    """By kind, pool and number of GPUs: shape (kinds, pools, most GPUs + 1)."""

    option: Ints
    """-1: there is none."""
    rate: Floats
    """Steps per second; 0: there is none."""

    @classmethod
    def of(cls, options: Options, kinds: Ints, pools: int, rule: BatchRule = "best") -> "SizeTable":
        """Of these kinds, in their order. An option that takes a part of a GPU counts as one; those that share are left out."""
        number = np.full(len(options.by_kind) + 1, -1, dtype=np.int64)
        number[kinds] = np.arange(len(kinds))
        rows = ((number[options.kind] >= 0) & (options.partner_kind < 0)).nonzero()[0]
        gpus = options.gpus[rows]
        most = int(gpus.max(initial=1))
        if rule != "best":
            asked = (options.requested & (options.partner_kind < 0)).nonzero()[0]
            batch, width = np.zeros(len(options.by_kind), dtype=np.int64), np.ones(len(options.by_kind), dtype=np.int64)
            batch[options.kind[asked]], width[options.kind[asked]] = options.batch_size[asked], options.gpus[asked]
            kind, size = options.kind[rows], options.batch_size[rows]
            if rule == "asked":
                fits = size == batch[kind]
                has = np.zeros((len(options.by_kind), pools), dtype=bool)
                has[kind[fits], options.pool[rows[fits]]] = True
                fits |= ~has[kind, options.pool[rows]]  # it does not run with that batch there: any that it accepts
            else:
                least = np.full(len(options.by_kind), np.iinfo(np.int64).max)
                np.minimum.at(least, kind, size)
                fits = (size * width[kind] <= batch[kind] * gpus) | (size == least[kind])
            rows, gpus = rows[fits], gpus[fits]
        key = options.batch_size[rows] if rule == "largest" else options.rate[rows]
        order = np.lexsort((options.rate[rows], key))  # what comes last is kept
        rows, gpus = rows[order], gpus[order]
        option = np.full((len(kinds), pools, most + 1), -1, dtype=np.int64)
        rate = np.zeros((len(kinds), pools, most + 1))
        at = (number[options.kind[rows]], options.pool[rows], gpus)
        option[at] = rows
        rate[at] = options.rate[option[at]]
        return cls(option, rate)
