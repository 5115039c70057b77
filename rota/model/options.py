"""Options: the ways to run each kind of job. One row per option kind; heterogeneity is just more rows."""

from dataclasses import dataclass

import numpy as np

from rota.model.units import Floats, Ints


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
        columns = list(zip(*ordered, strict=True)) if ordered else [[]] * 5
        return cls(
            kind=np.array(columns[0], dtype=np.int64),
            pool=np.array(columns[1], dtype=np.int64),
            milligpus=np.array(columns[2], dtype=np.int64),
            rate=np.array(columns[3], dtype=np.float64),
            spread=np.array(columns[4], dtype=np.float64),
            by_kind=by_kind,
        )
