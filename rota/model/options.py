"""Options: the ways to run each kind of job. One row per option kind; heterogeneity is just more rows."""

from dataclasses import dataclass

import numpy as np

from rota.model.units import Floats, Ints

NEVER_FITS = 1 << 60


@dataclass(frozen=True, slots=True)
class Kind:
    """What two jobs must share to have the same options."""

    profile: str
    gpus: int
    accelerators: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """Columns over options, best believed rate first inside each kind. Rates are beliefs, never the truth."""

    kind: Ints
    pool: Ints
    milligpus: Ints
    rate: Floats
    """Believed steps per second."""
    spread: Floats
    """Believed relative spread of that rate."""
    by_kind: Ints
    """Row numbers of each kind's options, best first, padded with -1: shape (kinds, most options of a kind)."""
    best: Ints
    """The first of them."""
    kind_need: Ints
    """Milli-GPUs of those options, in the same shape; where there is none, more than any pool has."""
    kind_pool: Ints
    """Pools of those options, in the same shape."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def gpus(self) -> Ints:
        return self.milligpus // 1000

    @classmethod
    def of(cls, rows: list[tuple[int, int, int, float, float]], kinds: int) -> "Options":
        """Build from (kind, pool, milligpus, rate, spread) rows, in any order."""
        ordered = sorted(rows, key=lambda row: (row[0], -row[3], row[1], row[2]))
        lists: list[list[int]] = [[] for _ in range(kinds)]
        for number, row in enumerate(ordered):
            lists[row[0]].append(number)
        width = max((len(found) for found in lists), default=0)
        by_kind = np.full((kinds, max(width, 1)), -1, dtype=np.int64)
        for k, found in enumerate(lists):
            by_kind[k, : len(found)] = found
        whole = np.array([row[:3] for row in ordered], dtype=np.int64).reshape(-1, 3)
        real = np.array([row[3:] for row in ordered], dtype=np.float64).reshape(-1, 2)
        exists = by_kind >= 0
        made = cls(
            kind=whole[:, 0].copy(),
            pool=whole[:, 1].copy(),
            milligpus=whole[:, 2].copy(),
            rate=real[:, 0].copy(),
            spread=real[:, 1].copy(),
            by_kind=by_kind,
            best=by_kind[:, 0].copy(),
            kind_need=np.where(exists, whole[by_kind, 2] if len(ordered) else 0, NEVER_FITS),
            kind_pool=np.where(exists, whole[by_kind, 1] if len(ordered) else 0, 0),
        )
        for name in cls.__slots__:
            getattr(made, name).setflags(write=False)  # policies see these very arrays
        return made
