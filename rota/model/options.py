"""Options: the ways to run each kind of job. One row per option kind; heterogeneity and sharing are just more rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rota.model.job import Demand, JobSpec
from rota.model.units import MILLI, Bools, Floats, Ints

NEVER_FITS = 1 << 60

MUCH_SLOWER = 100.0
"""An option that does this many times fewer steps with each GPU than the best of a job is as good as none: it runs by another,
whatever the policy says."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What two jobs must share to have the same options."""

    profile: str
    demand: Demand
    accelerators: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: JobSpec) -> "Kind":
        return cls(spec.profile, spec.demand, spec.accelerators)


class OptionRow(NamedTuple):
    """One option before it has a row number."""

    kind: int
    pool: int
    milligpus: int
    rate: float
    spread: float
    partner_kind: int = -1
    """Kind of the job it shares its GPUs with; -1: it has them to itself."""
    batch_size: int = 0
    """Examples per step; 0: the job did not say."""
    account: int = -1
    """Where a job's account of it is kept; -1: it has none yet."""
    requested: bool = False
    """It is the size that its kind asked for."""

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
    """Believed steps per second of a job that runs by it. A step means the same at every batch size: it is counted at the one
    that the job asked for."""
    spread: Floats
    """Believed relative spread of that rate."""
    batch_size: Ints
    """Examples per step; 0: the job did not say."""
    partner_kind: Ints
    """Kind of the job it shares its GPUs with; -1: it has them to itself."""
    partner_row: Ints
    """Row of the partner's side; itself when both are of one kind, -1 alone."""
    alone: Ints
    """Row of the same kind and size on the same pool with the GPUs to itself; -1: it has none."""
    requested: Bools
    """Whether it is the size that its kind asked for."""
    default_size: Bools
    """Whether it is the size that its kind asked for, or the first it accepts where that does not fit the pool."""
    account: Ints
    """Where a job's account of it is kept; -1: nowhere, because it is not the usual size and no job has used it yet."""
    by_account: Ints
    """Row numbers of the options with an account, by kind and account; padded with -1: shape (kinds, accounts)."""
    of_kind: Ints
    """Row numbers of all options of a kind, shared ones too, in order; padded with -1."""
    by_kind: Ints
    """Row numbers of each kind's options alone, best believed rate first, padded with -1: shape (kinds, most of a kind)."""
    best: Ints
    """The first of them."""
    kind_need: Ints
    """Milli-GPUs of those options, in the same shape; where there is none, more than any pool has."""
    kind_pool: Ints
    """Pools of those options, in the same shape."""
    has_colocated: bool
    """Whether any of them shares GPUs."""
    has_fractions: bool
    """Whether any of them takes less than a whole GPU."""
    too_slow: Bools
    """Whether it is MUCH_SLOWER than the best of its kind."""
    has_too_slow: bool
    """Whether any of them is."""
    elastic: bool
    """Whether any kind accepts more than one size."""
    lasting: tuple[int, ...] = ()
    """GPUs of each pool on nodes that have not left; empty if none has. An option that needs more makes no other hopeless."""

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
        columns = [getattr(self, name) for name in OptionRow._fields]
        return map(OptionRow._make, zip(*(column.tolist() for column in columns), strict=True))

    @classmethod
    def of(
        cls, ways: Sequence[OptionRow | tuple[int, int, int, float, float]], kinds: int, lasting: tuple[int, ...] = ()
    ) -> "Options":
        """Build from rows, which keep their order: a new row is added at the end, so that numbers in use stay true."""
        ordered = [OptionRow(*way) for way in ways]
        whole = [(w.kind, w.pool, w.milligpus, w.partner_kind, w.batch_size, w.account) for w in ordered]
        kind, pool, milligpus, partner_kind, batch_size, account = np.array(whole, dtype=np.int64).reshape(-1, 6).T.copy()
        rate, spread = np.array([(w.rate, w.spread) for w in ordered], dtype=np.float64).reshape(-1, 2).T.copy()
        sides = {(w.kind, w.partner_kind, w.pool, w.milligpus): row for row, w in enumerate(ordered) if w.partner_kind >= 0}
        sizes = {(w.kind, w.pool, w.milligpus, w.batch_size): row for row, w in enumerate(ordered) if w.partner_kind < 0}
        partner_row = [sides.get((w.partner_kind, w.kind, w.pool, w.milligpus), -1) for w in ordered]
        alone = [sizes.get((w.kind, w.pool, w.milligpus, w.batch_size), -1) for w in ordered]
        usual = partner_kind >= 0
        solo = np.flatnonzero(~usual)
        asked = np.array([w.requested for w in ordered], dtype=bool)
        first = solo[np.argsort(~asked[solo], kind="stable")]
        usual[first[np.unique(kind[first] * (1 << 32) + pool[first], return_index=True)[1]]] = True
        of_kind = _by_kind(kind, np.arange(len(ordered)), kinds)
        account = _numbered(of_kind, account, kind, usual)
        by_kind = _by_kind(kind, solo[np.lexsort((pool[solo], milligpus[solo], -rate[solo]))], kinds)
        exists = by_kind >= 0
        hopeless = _hopeless(kind, pool, milligpus, rate, by_kind, lasting)
        options = cls(
            kind=kind,
            pool=pool,
            milligpus=milligpus,
            rate=rate,
            spread=spread,
            batch_size=batch_size,
            partner_kind=partner_kind,
            partner_row=np.array(partner_row, dtype=np.int64),
            alone=np.array(alone, dtype=np.int64),
            requested=asked,
            default_size=usual,
            account=account,
            by_account=_by_account(kind, account, kinds),
            of_kind=of_kind,
            by_kind=by_kind,
            best=by_kind[:, 0].copy(),
            kind_need=np.where(exists, milligpus[by_kind] if len(ordered) else 0, NEVER_FITS),
            kind_pool=np.where(exists, pool[by_kind] if len(ordered) else 0, 0),
            has_colocated=bool((partner_kind >= 0).any()),
            has_fractions=bool((milligpus < MILLI).any()),
            too_slow=hopeless,
            has_too_slow=bool(hopeless.any()),
            elastic=not usual.all(),
            lasting=lasting,
        )
        for name in cls.__slots__:
            column = getattr(options, name)
            if isinstance(column, np.ndarray):
                column.setflags(write=False)  # policies see these very arrays
        return options

    def with_lasting(self, lasting: tuple[int, ...]) -> "Options":
        """The same options once nodes have left, and each pool has these GPUs."""
        if lasting == self.lasting:
            return self
        hopeless = _hopeless(self.kind, self.pool, self.milligpus, self.rate, self.by_kind, lasting)
        hopeless.setflags(write=False)
        return replace(self, too_slow=hopeless, has_too_slow=bool(hopeless.any()), lasting=lasting)

    def with_accounts(self, rows: Ints) -> "Options":
        """The same options, in which these have an account too."""
        missing = rows[self.account[rows] < 0]
        if not len(missing):
            return self
        account = self.account.copy()
        used = (self.by_account >= 0).sum(axis=1)
        for row in np.unique(missing).tolist():
            account[row] = used[self.kind[row]]
            used[self.kind[row]] += 1
        by_account = _by_account(self.kind, account, len(self.by_kind))
        for column in (account, by_account):
            column.setflags(write=False)
        return replace(self, account=account, by_account=by_account)


def _hopeless(kind: Ints, pool: Ints, milligpus: Ints, rate: Floats, by_kind: Ints, lasting: tuple[int, ...]) -> Bools:
    """Which options are MUCH_SLOWER than the best of their kind that fits on the nodes that have not left."""
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
    """Accounts by number within a kind: those in use keep theirs, and usual sizes without one get the next."""
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
    """These rows listed by kind in the order given, padded with -1."""
    of = kind[rows]
    order = np.argsort(of, kind="stable")
    counts = np.bincount(of, minlength=kinds) if kinds else np.zeros(0, dtype=np.int64)
    found = np.full((kinds, max(int(counts.max(initial=0)), 1)), -1, dtype=np.int64)
    start = np.concatenate(([0], np.cumsum(counts)))[:-1]
    found[of[order], np.arange(len(rows)) - start[of[order]]] = rows[order]
    return found
