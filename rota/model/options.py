"""Options: the ways to run each kind of job. One row per option kind; heterogeneity and sharing are just more rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rota.model.job import JobSpec
from rota.model.units import MILLI, Floats, Ints, milligpus_of, width_of

NEVER_FITS = 1 << 60

MUCH_SLOWER = 100.0
"""An option this many times slower than the best of a job is as good as none: it runs by another, whatever the policy says."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What two jobs must share to have the same options."""

    profile: str
    gpus: float
    accelerators: tuple[str, ...]

    @classmethod
    def of(cls, spec: JobSpec) -> "Kind":
        return cls(spec.profile, spec.gpus, spec.accelerators)

    @property
    def width(self) -> int:
        """GPUs it runs on, whole or not."""
        return width_of(self.gpus)

    @property
    def milligpus(self) -> int:
        return milligpus_of(self.gpus)


class OptionRow(NamedTuple):
    """One option before it has a row number."""

    kind: int
    pool: int
    milligpus: int
    rate: float
    spread: float
    partner_kind: int = -1
    """Kind of the job it shares its GPUs with; -1: it has them to itself."""

    @property
    def order(self) -> tuple[int, bool, int, int, int]:
        """Among rows that are added together: those alone first, then pairs, by kinds and pool. Rates don't matter."""
        return max(self.kind, self.partner_kind), self.partner_kind >= 0, self.kind, self.partner_kind, self.pool


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """Columns over options. Rates are beliefs, never the truth.

    A way to share GPUs has two rows, one for each side: a job of kind a beside one of kind b, and the other way round. A new
    kind appends its rows, so that numbers in use stay true.
    """

    kind: Ints
    """Kind of the jobs that may run by it."""
    pool: Ints
    """Where: a number of `view.cluster.pools`."""
    milligpus: Ints
    """How many GPUs, in thousandths."""
    rate: Floats
    """Believed steps per second of a job that runs by it."""
    spread: Floats
    """Believed relative spread of that rate."""
    partner_kind: Ints
    """Kind of the job it shares its GPUs with; -1: it has them to itself."""
    partner_row: Ints
    """Row of the partner's side; itself when both are of one kind, -1 alone."""
    alone: Ints
    """Row of the same kind on the same pool with the GPUs to itself; -1: it has none."""
    account: Ints
    """Its number among the options of its kind: where a job's account of it is kept."""
    by_account: Ints
    """Row numbers of each kind's options, shared ones too, by account; padded with -1: shape (kinds, accounts)."""
    by_kind: Ints
    """Row numbers of each kind's options alone, best believed rate first, padded with -1: shape (kinds, most of a kind)."""
    best: Ints
    """The first of them."""
    kind_need: Ints
    """Milli-GPUs of those options, in the same shape; where there is none, more than any pool has."""
    kind_pool: Ints
    """Pools of those options, in the same shape."""
    shared: bool
    """Whether any of them shares GPUs."""
    in_parts: bool
    """Whether any of them takes less than a whole GPU."""
    uneven: bool
    """Whether any of them is MUCH_SLOWER than the best of its kind."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def gpus(self) -> Ints:
        """GPUs that each runs on, whole or not."""
        return np.maximum(self.milligpus // MILLI, 1)

    @property
    def accounts(self) -> int:
        return int(self.by_account.shape[1])

    def rows(self) -> Iterator[OptionRow]:
        """What it was built from, row by row."""
        columns = (self.kind, self.pool, self.milligpus, self.rate, self.spread, self.partner_kind)
        return map(OptionRow._make, zip(*(column.tolist() for column in columns), strict=True))

    @classmethod
    def of(cls, ways: Sequence[OptionRow | tuple[int, int, int, float, float]], kinds: int) -> "Options":
        """Build from rows, which keep their order: a new row is added at the end, so that numbers in use stay true."""
        ordered = [OptionRow(*way) for way in ways]
        whole = np.array([(w.kind, w.pool, w.milligpus, w.partner_kind) for w in ordered], dtype=np.int64).reshape(-1, 4)
        real = np.array([(w.rate, w.spread) for w in ordered], dtype=np.float64).reshape(-1, 2)
        kind, pool, milligpus, partner_kind = whole.T
        row_of = {(w.kind, w.partner_kind, w.pool, w.milligpus): row for row, w in enumerate(ordered)}
        partner_row = [
            row_of.get((w.partner_kind, w.kind, w.pool, w.milligpus), -1) if w.partner_kind >= 0 else -1 for w in ordered
        ]
        alone = [row_of.get((w.kind, -1, w.pool, w.milligpus), -1) for w in ordered]
        by_account = _by_kind(kind, np.arange(len(ordered)), kinds)
        account = np.zeros(len(ordered), dtype=np.int64)
        rows, numbers = np.nonzero(by_account >= 0)
        account[by_account[rows, numbers]] = numbers
        solo = np.flatnonzero(partner_kind < 0)
        by_kind = _by_kind(kind, solo[np.lexsort((milligpus[solo], pool[solo], -real[solo, 0]))], kinds)
        exists = by_kind >= 0
        options = cls(
            kind=kind.copy(),
            pool=pool.copy(),
            milligpus=milligpus.copy(),
            rate=real[:, 0].copy(),
            spread=real[:, 1].copy(),
            partner_kind=partner_kind.copy(),
            partner_row=np.array(partner_row, dtype=np.int64),
            alone=np.array(alone, dtype=np.int64),
            account=account,
            by_account=by_account,
            by_kind=by_kind,
            best=by_kind[:, 0].copy(),
            kind_need=np.where(exists, milligpus[by_kind] if len(ordered) else 0, NEVER_FITS),
            kind_pool=np.where(exists, pool[by_kind] if len(ordered) else 0, 0),
            shared=bool((partner_kind >= 0).any()),
            in_parts=bool((milligpus < MILLI).any()),
            uneven=bool((real[:, 0] * MUCH_SLOWER < real[by_kind[kind, 0], 0]).any()),
        )
        for name in cls.__slots__:
            column = getattr(options, name)
            if isinstance(column, np.ndarray):
                column.setflags(write=False)  # policies see these very arrays
        return options


def _by_kind(kind: Ints, rows: Ints, kinds: int) -> Ints:
    """These rows listed by kind in the order given, padded with -1."""
    of = kind[rows]
    order = np.argsort(of, kind="stable")
    counts = np.bincount(of, minlength=kinds) if kinds else np.zeros(0, dtype=np.int64)
    found = np.full((kinds, max(int(counts.max(initial=0)), 1)), -1, dtype=np.int64)
    start = np.concatenate(([0], np.cumsum(counts)))[:-1]
    found[of[order], np.arange(len(rows)) - start[of[order]]] = rows[order]
    return found
