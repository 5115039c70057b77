"""Rates of unprofiled jobs, from a few measurements of their own and from profiles that were measured before.

`completion` has the mathematics. This module has the known measurements of a profile, the queries, and the answers where the
references end:

| query | answer |
|---|---|
| a cell that was measured | the median of the latest `KEEP_MEASUREMENTS` measurements |
| a cell that was measured for some reference | the completed row |
| another number of GPUs | the nearest number on that type, scaled as the row scales with GPUs |
| a type on which no reference was measured | the row on other types, in proportion to memory bandwidth |
| a pair where no pair was measured | the same pair on the other types, on as many GPUs |

Narayanan et al. (Gavel, OSDI'20) estimate colocated rates like this, with one nearest reference, for jobs of one GPU.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median

import numpy as np

from rota.beliefs.completion import Floats, Guess, ProfileCell, ReferenceTable, rate_of, ratio_of, reference_rows, reference_table
from rota.beliefs.rates import SPEEDS, UNPROFILED_UNCERTAINTY, Rates
from rota.errors import ProfileError

KEEP_MEASUREMENTS = 9
"""Number of measurements of a cell that count. Their median ignores outliers and follows drift."""
TYPICAL_SHARE = 0.6
"""Fraction of the rate that is assumed to be left next to another job, for a job that never ran exclusively: about the median of
the pairs in Gavel's table that fit."""
MAX_UNCERTAINTY = 2.0
"""Largest spread of an estimate: a factor of three."""

Measured = tuple[str, str, int, bool, str]
"""Profile, accelerator type, GPUs, whether on several nodes, and the colocated profile or an empty string."""


@dataclass(frozen=True)
class Estimator:
    """Beliefs about the rates of profiles, known or new. A value: a measurement makes a new one. It is a `Source` too."""

    reference: Rates
    """Rates to learn from. Only measurements count: `table`, `apart` and `pairs`."""
    profiles: tuple[str, ...] | None = None
    """Profiles of the reference to learn from; the others count as never measured. None for all."""
    measured: Mapping[Measured, tuple[float, ...]] = field(default_factory=dict)
    """Measured steps per second, the latest last. They take precedence over the reference."""
    _rows: dict[str, dict[ProfileCell, float]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _tables: dict[bool, ReferenceTable] = field(default_factory=dict, init=False, repr=False, compare=False)
    _guesses: dict[tuple[str, bool], Guess] = field(default_factory=dict, init=False, repr=False, compare=False)
    _known: dict[str, dict[ProfileCell, float]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _rates: dict[tuple[str, ProfileCell], tuple[float, float] | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _pairs: dict[tuple[str, str, str, int], tuple[tuple[float, float], float] | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Cached answers: the options of every kind are estimated again after each measurement."""

    def observed(
        self, profile: str, accelerator: str, gpus: int, rate: float, colocated_with: str = "", levels: int = 0
    ) -> "Estimator":
        """Return an estimator with one more measurement: exclusive steps per second, or those next to another profile on the same
        GPUs; 0 if it does not fit."""
        _check(profile, accelerator, gpus, rate, colocated_with, levels)
        key = (profile, accelerator, gpus, levels > 0, colocated_with)
        latest = (*self.measured.get(key, ()), float(rate))[-KEEP_MEASUREMENTS:]
        made = replace(self, measured={**self.measured, key: latest})
        made._rows.update(self._references())
        made._tables.update(self._tables)
        # Rates of profiles that ran next to this one are known relative to this one's exclusive rate.
        touched = {profile, colocated_with}.union(*((name, other) for name, *_, other in self._keys.get(profile, ())))
        made._guesses.update({key: guess for key, guess in self._guesses.items() if key[0] not in touched})
        made._pairs.update({key: pair for key, pair in self._pairs.items() if key[0] not in touched and key[1] not in touched})
        # An exclusive rate follows from the profile's own measurements.
        made._known.update({name: known for name, known in self._known.items() if name != profile})
        made._rates.update({key: rate for key, rate in self._rates.items() if key[0] != profile})
        return made

    def rate(self, profile: str, accelerator: str, gpus: int, levels: int = 0) -> tuple[float, float] | None:
        """Return (steps per second of the gang, relative spread). The rate is 0 if the profile does not fit; None if nothing is
        known about its speed."""
        key = (profile, ProfileCell(accelerator, gpus, levels > 0))
        if key not in self._rates:
            self._rates[key] = self._rate(*key)
        return self._rates[key]

    def _rate(self, profile: str, cell: ProfileCell) -> tuple[float, float] | None:
        seen = self._seen(profile, cell)
        if seen is not None:
            return seen
        known = self._alone(profile)
        if cell.across_nodes:
            return self._several(profile, known, cell)
        if not any(rate > 0 for rate in known.values()):
            return None
        rate, spread = self._one(profile, known, cell)
        if not any(name == profile and not colocated_with for name, *_, colocated_with in self._keys.get(profile, ())):
            # Neither the profile nor anything that stands for it ran exclusively.
            spread = max(spread, UNPROFILED_UNCERTAINTY if profile not in self._references() else 0.0)
        # On one node it is at least as fast as on several.
        return max(rate, known.get(cell._replace(across_nodes=True), 0.0)), spread

    def colocated_rates(self, first: str, second: str, accelerator: str, gpus: int) -> tuple[tuple[float, float], float] | None:
        """Return (steps per second of each while both share these GPUs, relative spread of the worse one); None if nothing is
        known."""
        key = (first, second, accelerator, gpus)
        if key not in self._pairs:
            self._pairs[key] = self._together(*key)
        return self._pairs[key]

    def _together(self, first: str, second: str, accelerator: str, gpus: int) -> tuple[tuple[float, float], float] | None:
        both = ((first, second), (second, first))
        seen = [self._seen(one, ProfileCell(accelerator, gpus, colocated_with=other)) for one, other in both]
        shares = [self._share(one, other, accelerator, gpus) if None in seen else None for one, other in both]
        votes = [share[2] for share in shares if share is not None]
        # A profile that ran next to the other fits, and so does the other.
        fits = any(side[0] > 0 for side in seen if side) if any(seen) else sum(votes) >= len(votes) / 2
        sides = []
        for (one, _), side, share in zip(both, seen, shares, strict=True):
            alone = self.rate(one, accelerator, gpus) if side is None else None
            if side is None and alone is not None and share is not None:
                side = (alone[0] * share[0] if fits else 0.0, math.hypot(alone[1], share[1]))
            if side is None:
                return None
            sides.append(side)
        return (sides[0][0], sides[1][0]), max(sides[0][1], sides[1][1])

    def tried(self, profile: str, accelerator: str, gpus: int) -> bool:
        """Return whether the profile was measured there, or is known from a reference."""
        return self._seen(profile, ProfileCell(accelerator, gpus)) is not None

    def nearest(self, profile: str) -> tuple[str, float] | None:
        """Return (most similar reference, similarity): 1 if all cells measured for both are equal, 0.9 if a typical cell is a
        tenth off. A reference without measurements of its own is nearest to itself. None without references, or if nothing is
        known of the profile."""
        guess = self._guess(profile, paired=True)
        if guess is None or not len(guess.distances):
            return None
        names = self._table(paired=True).names
        best = int(np.argmin(guess.distances))
        mine = names.index(profile) if profile in names else best
        best = mine if guess.distances[mine] <= guess.distances[best] else best
        return names[best], math.exp(-float(guess.distances[best]))

    @cached_property
    def _keys(self) -> dict[str, list[Measured]]:
        """Measurements in which each profile took part."""
        found: dict[str, list[Measured]] = {}
        for key in sorted(self.measured):
            for name in {key[0], key[4]} - {""}:
                found.setdefault(name, []).append(key)
        return found

    def _references(self) -> dict[str, dict[ProfileCell, float]]:
        if not self._rows:
            every = {name for name, _, _ in (*self.reference.table, *self.reference.across_nodes)}
            names = every if self.profiles is None else every.intersection(self.profiles)
            self._rows.update(reference_rows(self.reference, sorted(names)))
        return self._rows

    def _table(self, paired: bool) -> ReferenceTable:
        if paired not in self._tables:
            self._tables[paired] = reference_table(self._references(), paired)
        return self._tables[paired]

    def _seen(self, profile: str, cell: ProfileCell) -> tuple[float, float] | None:
        """Return (rate, spread) as measured here or for the reference."""
        found = self.measured.get((profile, cell.accelerator, cell.gpus, cell.across_nodes, cell.colocated_with))
        if found:
            middle = median(found)
            return middle, median(abs(rate - middle) for rate in found) / middle if middle > 0 else 0.0
        if self.profiles is not None and not {profile, cell.colocated_with or profile}.issubset(self.profiles):
            return None
        if cell.colocated_with:
            pair = self.reference.colocated_rates(profile, cell.colocated_with, cell.accelerator, cell.gpus)
            return None if pair is None else (pair[0], 0.0)
        row = self._references().get(profile, {})
        return (row[cell], 0.0) if cell in row else None

    def _alone(self, profile: str) -> dict[ProfileCell, float]:
        """Return the known exclusive steps per second of a profile. If it never ran exclusively, they are estimated from
        colocated ones."""
        if profile not in self._known:
            self._known[profile] = self._measured_alone(profile)
        return self._known[profile]

    def _measured_alone(self, profile: str) -> dict[ProfileCell, float]:
        row = {cell: rate for cell, rate in self._references().get(profile, {}).items() if not cell.colocated_with}
        shared: dict[ProfileCell, float] = {}
        for name, accelerator, gpus, apart, colocated_with in self._keys.get(profile, ()):
            if name == profile:
                rate = median(self.measured[name, accelerator, gpus, apart, colocated_with])
                (shared if colocated_with else row)[ProfileCell(accelerator, gpus, apart)] = rate
        if any(rate > 0 for rate in row.values()):
            return row
        return {cell: rate / TYPICAL_SHARE for cell, rate in shared.items() if rate > 0} | row

    def _row(self, profile: str) -> dict[ProfileCell, float]:
        """Return all known cells of a profile: exclusive rates, and ratios next to references."""
        row = dict(self._references().get(profile, {})) | self._alone(profile)
        for name, accelerator, gpus, apart, colocated_with in self._keys.get(profile, ()):
            if colocated_with:
                alone = self.rate(name, accelerator, gpus)
                if alone is not None:
                    share = ratio_of(median(self.measured[name, accelerator, gpus, apart, colocated_with]), alone[0])
                    if name == profile:
                        row[ProfileCell(accelerator, gpus, colocated_with=colocated_with)] = share
                    if colocated_with == profile:
                        row[ProfileCell(accelerator, gpus, colocated_with=name, of_partner=True)] = share
        return row

    def _guess(self, profile: str, paired: bool) -> Guess | None:
        """Return the completed row of a profile; None if no known cell gives its speed."""
        if (profile, paired) not in self._guesses:
            row = self._row(profile) if paired else self._alone(profile)
            if not any(value > 0 for value in row.values()):
                return None
            self._guesses[profile, paired] = self._table(paired).complete(row)
        return self._guesses[profile, paired]

    def _one(self, profile: str, known: Mapping[ProfileCell, float], cell: ProfileCell) -> tuple[float, float]:
        """Return an exclusive rate in one node that was not measured."""
        completed = self._completed(profile, known, cell)
        if completed is not None:
            value, spread, votes = completed
            return (rate_of(value) if self._fits(known, cell, votes) else 0.0), spread
        if not self._fits(known, cell, 1.0):
            return 0.0, UNPROFILED_UNCERTAINTY
        row = {other: math.log(rate) for other, rate in known.items() if rate > 0 and not other.across_nodes}
        for other in self._table(paired=False).columns:
            if other not in known and not other.across_nodes and (found := self._completed(profile, known, other)) is not None:
                row[other] = found[0]
        # Measured on several nodes only. In one node the profile is at least as fast.
        row = row or {other: math.log(rate) for other, rate in known.items() if rate > 0}
        return rate_of(_beyond(row, cell)), UNPROFILED_UNCERTAINTY

    def _several(self, profile: str, known: Mapping[ProfileCell, float], cell: ProfileCell) -> tuple[float, float] | None:
        """Return an exclusive rate over several nodes that was not measured. It is as in one node if no reference was measured
        like this."""
        one, completed = self.rate(profile, cell.accelerator, cell.gpus), self._completed(profile, known, cell)
        if one is None or completed is None:
            return one
        return min(one[0], rate_of(completed[0])), max(completed[1], one[1])

    def _completed(
        self, profile: str, known: Mapping[ProfileCell, float], cell: ProfileCell
    ) -> tuple[float, float, float] | None:
        """Return (log rate, relative spread, share of votes that it fits) from the references. None if no reference was measured
        in the cell, or none where the profile was measured: without a common cell the level of its row is unknown."""
        table, guess = self._table(paired=False), self._guess(profile, paired=False)
        shared = any(rate > 0 and table.says(other) for other, rate in known.items())
        if guess is None or not shared or cell not in table.columns:
            return None
        column = table.columns[cell]
        spread = min(MAX_UNCERTAINTY, math.expm1(min(float(guess.errors[column]), MAX_UNCERTAINTY)))
        return float(guess.values[column]), spread, float(guess.fits[column])

    def _fits(self, known: Mapping[ProfileCell, float], cell: ProfileCell, votes: float) -> bool:
        """Let the references vote on whether the profile fits. If it did not fit on the nearest number of GPUs, only the
        references that did not fit there either vote."""
        same = [other for other in known if other.accelerator == cell.accelerator and not other.across_nodes]
        near = min(same, key=lambda other: (abs(math.log(other.gpus / cell.gpus)), other.gpus), default=None)
        if near is None or known[near] > 0:
            return votes >= 0.5
        alike = [row[cell] > 0 for row in self._references().values() if cell in row and row.get(near) == 0]
        return sum(alike) * 2 > len(alike)

    def _share(self, one: str, other: str, accelerator: str, gpus: int) -> tuple[float, float, float] | None:
        """Return (fraction that `one` keeps next to `other`, relative spread, share of votes that they fit); None if no pair is
        known."""
        table = self._table(paired=True)
        places = {place for place in table.pair_places if place[1] == gpus}
        exact = (accelerator, gpus) in places
        found = [
            cells
            for kind, count in ([(accelerator, gpus)] if exact else sorted(places))
            for profile, partner, theirs in self._views(one, other)
            if (cells := self._left(profile, partner, kind, count, theirs)) is not None
        ]
        if not found:
            return None
        value, error, votes = np.mean(found, axis=0)
        ratio = float(np.clip(value, 0.01, 1.0))
        spread = min(MAX_UNCERTAINTY, float(error) / ratio)
        return ratio, spread if exact else max(spread, UNPROFILED_UNCERTAINTY), float(votes)

    def _views(self, one: str, other: str) -> list[tuple[str, str, bool]]:
        """Return whose row to read, in which partner's columns, and whether these are the partner's: rows whose partner is itself
        a reference and needs no stand-in; otherwise both."""
        both = [(one, other, False), (other, one, True)]
        return [view for view in both if view[1] in self._references()] or both

    def _left(self, profile: str, partner: str, accelerator: str, gpus: int, theirs: bool) -> Floats | None:
        """Return (ratio, its typical error, votes that it fits) in a row next to a partner. A partner that is not a reference is
        represented by its nearest references."""
        guess, table = self._guess(profile, paired=True), self._table(paired=True)
        weights = {partner: 1.0} if partner in self._references() else {}
        if not weights and (stand_in := self._guess(partner, paired=True)) is not None:
            weights = dict(zip(table.names, stand_in.weights.tolist(), strict=True))
        at = [
            (table.columns.get(ProfileCell(accelerator, gpus, False, name, theirs)), weight) for name, weight in weights.items()
        ]
        held = [(column, weight) for column, weight in at if column is not None and weight > 0]
        if guess is None or not held:
            return None
        columns, parts = [column for column, _ in held], np.array([weight for _, weight in held])
        cells = np.stack([guess.values[columns], guess.errors[columns], guess.fits[columns]])
        return np.asarray(cells @ (parts / parts.sum()))


def _beyond(row: Mapping[ProfileCell, float], cell: ProfileCell) -> float:
    """Return the log rate where no reference was measured, from log rates elsewhere."""
    slopes = [
        (row[more] - row[less]) / math.log(more.gpus / less.gpus)
        for less in row
        for more in row
        if less.accelerator == more.accelerator and less.gpus < more.gpus
    ]
    # More GPUs make it faster, but never more than in proportion; in proportion if the scaling is unknown.
    slope = min(1.0, max(0.0, median(slopes))) if slopes else 1.0
    same = [other for other in row if other.accelerator == cell.accelerator] or list(row)
    close = min(abs(math.log(other.gpus / cell.gpus)) for other in same)
    near = [other for other in same if abs(math.log(other.gpus / cell.gpus)) == close]
    return median(row[other] + slope * math.log(cell.gpus / other.gpus) + _faster(cell, other) for other in near)


def _faster(cell: ProfileCell, other: ProfileCell) -> float:
    return math.log(SPEEDS.get(cell.accelerator, 1.0) / SPEEDS.get(other.accelerator, 1.0))


def _check(profile: str, accelerator: str, gpus: int, rate: float, colocated_with: str, levels: int) -> None:
    if not profile or not accelerator:
        raise ProfileError("is empty.", field="accelerator" if profile else "profile", value="", hint="name what was measured")
    if gpus < 1:
        raise ProfileError("must be 1 or more.", field="gpus", value=gpus, hint="GPUs of the whole gang")
    if not (math.isfinite(rate) and rate >= 0):
        raise ProfileError("is not a rate.", field="rate", value=rate, hint="steps per second, 0 where it does not fit")
    if levels and colocated_with:
        raise ProfileError(
            "profiles share GPUs of one node only.", field="levels", value=levels, hint="leave `colocated_with` empty"
        )
    if levels and rate == 0:
        raise ProfileError("must be more than 0 on several nodes.", field="rate", value=rate, hint="leave it out")
