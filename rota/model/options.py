"""Options: the ways to run each kind of job. Unequal GPUs and shared GPUs are only more rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rota.model.job import Demand, JobSpec
from rota.model.units import MILLI, Bools, Floats, Ints

NEVER_FITS = 1 << 60

MUCH_SLOWER = 100.0
"""Slowdown per GPU, compared with the best option of the kind, above which an option is never used, whatever the policy
decides."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What two jobs must have in common to have the same options."""

    profile: str | None
    """Key into the table of rates; None if the jobs have no profile."""
    demand: Demand
    accelerators: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: JobSpec) -> "Kind":
        return cls(spec.profile, spec.demand, spec.accelerators)


class OptionRow(NamedTuple):
    """An option that has no row number yet."""

    kind: int
    pool: int
    milligpus: int
    rate: float
    uncertainty: float
    partner_kind: int = -1
    """Kind of the job that shares the GPUs; -1 if none."""
    batch_size: int = 0
    """Examples per step; 0 if unknown."""
    share_column: int = -1
    """Share column of the option; -1 if it has none yet."""
    requested: bool = False
    """Whether this is the size that the kind requests."""

    @property
    def order(self) -> tuple[int, bool, int, int, int]:
        """Sort key of rows that are added together: exclusive options first, then pairs, by kinds and pool. Rates do not
        count."""
        return max(self.kind, self.partner_kind), self.partner_kind >= 0, self.kind, self.partner_kind, self.pool


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """Options as columns. Rates are beliefs, never the truth.

    Two jobs that share GPUs have two rows, one for each side: kind a with kind b, and kind b with kind a. The rows of a new kind
    are appended, so that row numbers never change.
    """

    kind: Ints
    """Kind of the jobs that may run with the option."""
    pool: Ints
    """Pool of the GPUs: a position in `view.cluster.pools`."""
    milligpus: Ints
    """Number of GPUs, in thousandths."""
    rate: Floats
    """Estimated steps per second of a job with this option. Steps of all batch sizes are counted at the requested one."""
    uncertainty: Floats
    """Uncertainty of the rate, as a relative standard deviation."""
    batch_size: Ints
    """Examples per step; 0 if unknown."""
    partner_kind: Ints
    """Kind of the job that shares the GPUs; -1 if none."""
    partner_row: Ints
    """Row of the partner's side; the row itself if both jobs are of one kind; -1 if the option is exclusive."""
    alone: Ints
    """Row of the exclusive option of the same kind, size and pool; -1 if there is none."""
    requested: Bools
    """Whether this is the size that the kind requests."""
    default_size: Bools
    """Whether this is the requested size, or the first accepted size if the requested one does not fit the pool."""
    share_column: Ints
    """Share column of the option; -1 if it is not a default size and no job has used it yet."""
    by_share_column: Ints
    """Rows of the options that have a share column, by kind and share column, padded with -1: shape (kinds, share columns)."""
    of_kind: Ints
    """Rows of all options of each kind, shared ones included, in order, padded with -1."""
    by_kind: Ints
    """Rows of the exclusive options of each kind, fastest first, padded with -1: shape (kinds, most options of a kind)."""
    best: Ints
    """Row of the fastest exclusive option of each kind: the first column of `by_kind`."""
    kind_need: Ints
    """Milli-GPUs of the options in `by_kind`, in the same shape. The padding is more than any pool has."""
    kind_pool: Ints
    """Pools of the options in `by_kind`, in the same shape."""
    has_colocated: bool
    """Whether an option shares GPUs."""
    has_fractions: bool
    """Whether an option takes less than a whole GPU."""
    too_slow: Bools
    """Whether the option is MUCH_SLOWER than the best one of its kind."""
    has_too_slow: bool
    """Whether an option is too slow."""
    elastic: bool
    """Whether a kind accepts more than one size."""
    lasting: tuple[int, ...] = ()
    """GPUs of each pool on nodes that have not left; empty if none has left. An option that needs more GPUs makes no other too
    slow."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def gpus(self) -> Ints:
        """Number of GPUs that each option runs on. A fraction runs on one."""
        return np.maximum(self.milligpus // MILLI, 1)

    @property
    def share_columns(self) -> int:
        return int(self.by_share_column.shape[1])

    def rows(self) -> Iterator[OptionRow]:
        """Return the rows from which the options were built."""
        columns = [getattr(self, name) for name in OptionRow._fields]
        return map(OptionRow._make, zip(*(column.tolist() for column in columns), strict=True))

    @classmethod
    def of(
        cls, ways: Sequence[OptionRow | tuple[int, int, int, float, float]], kinds: int, lasting: tuple[int, ...] = ()
    ) -> "Options":
        """Build options from rows, in this order. New rows are added at the end, so that row numbers never change."""
        ordered = [OptionRow(*way) for way in ways]
        whole = [(w.kind, w.pool, w.milligpus, w.partner_kind, w.batch_size, w.share_column) for w in ordered]
        kind, pool, milligpus, partner_kind, batch_size, account = np.array(whole, dtype=np.int64).reshape(-1, 6).T.copy()
        rate, spread = np.array([(w.rate, w.uncertainty) for w in ordered], dtype=np.float64).reshape(-1, 2).T.copy()
        sides = {(w.kind, w.partner_kind, w.pool, w.milligpus): row for row, w in enumerate(ordered) if w.partner_kind >= 0}
        sizes = {(w.kind, w.pool, w.milligpus, w.batch_size): row for row, w in enumerate(ordered) if w.partner_kind < 0}
        partner_row = [sides.get((w.partner_kind, w.kind, w.pool, w.milligpus), -1) for w in ordered]
        alone = [sizes.get((w.kind, w.pool, w.milligpus, w.batch_size), -1) for w in ordered]
        usual = partner_kind >= 0
        solo = np.flatnonzero(~usual)
        requested = np.array([w.requested for w in ordered], dtype=bool)
        first = solo[np.argsort(~requested[solo], kind="stable")]
        usual[first[np.unique(kind[first] * (1 << 32) + pool[first], return_index=True)[1]]] = True
        of_kind = _by_kind(kind, np.arange(len(ordered)), kinds)
        account = _numbered(of_kind, account, kind, usual)
        by_kind = _by_kind(kind, solo[np.lexsort((pool[solo], milligpus[solo], -rate[solo]))], kinds)
        exists = by_kind >= 0
        too_slow = _find_too_slow(kind, pool, milligpus, rate, by_kind, lasting)
        options = cls(
            kind=kind,
            pool=pool,
            milligpus=milligpus,
            rate=rate,
            uncertainty=spread,
            batch_size=batch_size,
            partner_kind=partner_kind,
            partner_row=np.array(partner_row, dtype=np.int64),
            alone=np.array(alone, dtype=np.int64),
            requested=requested,
            default_size=usual,
            share_column=account,
            by_share_column=_by_account(kind, account, kinds),
            of_kind=of_kind,
            by_kind=by_kind,
            best=by_kind[:, 0].copy(),
            kind_need=np.where(exists, milligpus[by_kind] if len(ordered) else 0, NEVER_FITS),
            kind_pool=np.where(exists, pool[by_kind] if len(ordered) else 0, 0),
            has_colocated=bool((partner_kind >= 0).any()),
            has_fractions=bool((milligpus < MILLI).any()),
            too_slow=too_slow,
            has_too_slow=bool(too_slow.any()),
            elastic=not usual.all(),
            lasting=lasting,
        )
        for name in cls.__slots__:
            column = getattr(options, name)
            if isinstance(column, np.ndarray):
                column.setflags(write=False)  # policies see these arrays themselves
        return options

    def with_lasting(self, lasting: tuple[int, ...]) -> "Options":
        """Return these options after nodes have left. `lasting` has the GPUs of each pool that remain."""
        if lasting == self.lasting:
            return self
        too_slow = _find_too_slow(self.kind, self.pool, self.milligpus, self.rate, self.by_kind, lasting)
        too_slow.setflags(write=False)
        return replace(self, too_slow=too_slow, has_too_slow=bool(too_slow.any()), lasting=lasting)

    def with_share_columns(self, rows: Ints) -> "Options":
        """Return these options with share columns for the options in these rows."""
        missing = rows[self.share_column[rows] < 0]
        if not len(missing):
            return self
        account = self.share_column.copy()
        used = (self.by_share_column >= 0).sum(axis=1)
        for row in np.unique(missing).tolist():
            account[row] = used[self.kind[row]]
            used[self.kind[row]] += 1
        by_account = _by_account(self.kind, account, len(self.by_kind))
        for column in (account, by_account):
            column.setflags(write=False)
        return replace(self, share_column=account, by_share_column=by_account)


def _find_too_slow(kind: Ints, pool: Ints, milligpus: Ints, rate: Floats, by_kind: Ints, lasting: tuple[int, ...]) -> Bools:
    """Return which options are MUCH_SLOWER than the best of their kind that fits on the nodes that have not left."""
    if not len(kind):
        return np.zeros(0, dtype=bool)
    first = by_kind[:, 0]
    if lasting:
        room = np.zeros(int(pool.max()) + 1, dtype=np.int64)
        room[: len(lasting)] = lasting[: len(room)]
        fits = (by_kind >= 0) & (milligpus[by_kind] <= room[pool[by_kind]] * MILLI)
        first = np.where(fits.any(axis=1), by_kind[np.arange(len(by_kind)), fits.argmax(axis=1)], first)
    best = first[kind]
    slower: Bools = rate * MUCH_SLOWER * milligpus[best] < rate[best] * milligpus
    return slower


def _numbered(of_kind: Ints, account: Ints, kind: Ints, usual: Bools) -> Ints:
    """Number the share columns of each kind. Those in use keep their number, and default sizes without one get the next."""
    for number in np.unique(kind[usual & (account < 0)]).tolist():
        rows = of_kind[number][of_kind[number] >= 0]
        new = rows[usual[rows] & (account[rows] < 0)]
        account[new] = np.arange(len(new)) + account[rows].max(initial=-1) + 1
    return account


def _by_account(kind: Ints, account: Ints, kinds: int) -> Ints:
    found = np.full((kinds, max(int(account.max(initial=-1)) + 1, 1)), -1, dtype=np.int64)
    rows = np.flatnonzero(account >= 0)
    found[kind[rows], account[rows]] = rows
    return found


def _by_kind(kind: Ints, rows: Ints, kinds: int) -> Ints:
    """Return these rows by kind, in the given order, padded with -1."""
    of = kind[rows]
    order = np.argsort(of, kind="stable")
    counts = np.bincount(of, minlength=kinds) if kinds else np.zeros(0, dtype=np.int64)
    found = np.full((kinds, max(int(counts.max(initial=0)), 1)), -1, dtype=np.int64)
    start = np.concatenate(([0], np.cumsum(counts)))[:-1]
    found[of[order], np.arange(len(rows)) - start[of[order]]] = rows[order]
    return found
