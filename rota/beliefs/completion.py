"""Completion of rows from reference rows: estimates for an unprofiled job in cells where it was not measured.

A profile is a row of cells: log steps per second on a number of GPUs of a type, and the fraction of that rate which is left when
colocated with another profile (colocated over exclusive, from 0 to 1), for the profile itself and for the other one. Two guesses
are made for a cell and weighted by how accurate each is for the references:

- completion: the row is the mean reference plus a ridge-regressed blend of the references' deviations from it. Gaps in the
  references are filled before, by the same low-rank idea: singular values are shrunk, repeatedly;
- nearest references: their cells, weighted by how near they are in the measured cells.

Steps differ between profiles, so the level of a row has no meaning: twice the measured rates give twice the estimates. A rate of
0 means that the profile does not fit; the nearest references vote on that. Nothing is drawn at random. The typical error of a
guess is the median error for the references themselves, each left out in turn and known by the same cells. It is larger for a
profile that is farther from its nearest reference than the references are from theirs, and smaller for a nearer one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rota.beliefs.rates import UNPROFILED_UNCERTAINTY, Rates

Floats = NDArray[np.float64]

RIDGE = 0.003
"""Variance that the blend leaves unexplained in a cell, in squared log units. The error is flat around this value."""
NEAR = 0.07
"""Distance (RMS over measured cells) from which references count much less than one at distance 0."""
NO_FIT_DISTANCE = 0.2
"""Distance between two profiles in a cell where one fits and the other does not."""
MAX_LEFT_OUT = 32
"""Maximum number of references that are left out in turn to find the error of a guess."""
MAX_SCALE = 2.0
"""Maximum factor by which a profile's error may differ from that of a typical reference, up or down."""
ROUNDS = 20
"""Rounds of filling gaps in the references. The cells hardly change after ten."""


class ProfileCell(NamedTuple):
    """A cell of a profile: a place where something may be measured."""

    accelerator: str
    gpus: int
    across_nodes: bool = False
    """Whether the GPUs are on several nodes."""
    colocated_with: str = ""
    """The profile on the same GPUs; empty if there is none."""
    of_partner: bool = False
    """Whether the cell is the fraction left for the other profile, not for this one."""


@dataclass(frozen=True)
class Guess:
    """A row with all its gaps filled."""

    values: Floats
    """Log rate or ratio by column."""
    errors: Floats
    """Typical absolute error of each value."""
    fits: Floats
    """Share of the votes that the profile fits, by column."""
    weights: Floats
    """Weights of the references by nearness; they add up to 1."""
    distances: Floats


@dataclass(frozen=True)
class ReferenceTable:
    """Measurements of the references, as columns."""

    names: tuple[str, ...]
    columns: Mapping[ProfileCell, int]
    values: Floats
    """Values by reference and cell, with gaps filled."""
    known: NDArray[np.bool_]
    """Whether the cell was measured and the profile runs there."""
    fits: Floats
    """1 where the profile runs, 0 where it does not, NaN if unknown."""
    levelled: NDArray[np.bool_]
    """Whether the level of a row moves the column. That holds for rates, not for ratios."""

    def says(self, cell: ProfileCell) -> bool:
        """Return whether some reference was measured in this cell and runs there."""
        return cell in self.columns and bool(self.known[:, self.columns[cell]].any())

    @cached_property
    def pair_places(self) -> frozenset[tuple[str, int]]:
        """Accelerator types and GPU counts with a measured pair."""
        return frozenset((cell.accelerator, cell.gpus) for cell in self.columns if cell.colocated_with)

    @cached_property
    def _learnt(self) -> dict[tuple[int, ...], tuple[Floats, Floats, float]]:
        return {}

    def complete(self, row: Mapping[ProfileCell, float]) -> Guess:
        """Return the guess for a row with these known cells."""
        if not self.names:
            none = np.zeros(0)
            return Guess(none, none, none, none, none)
        there = sorted((self.columns[cell], cell) for cell, value in row.items() if value > 0 and self.says(cell))
        at = np.array([column for column, _ in there], dtype=np.intp)
        seen = np.array([_scaled(cell, row[cell]) for _, cell in there])
        fits = np.full(len(self.columns), np.nan)
        for cell, value in row.items():
            if cell in self.columns:
                fits[self.columns[cell]] = float(value > 0)
        distances = _distances(self.values, self.fits, self.levelled, at, seen, fits)
        blended, near, votes, weights = self._guesses(np.arange(len(self.names)), at, seen, distances)
        votes = votes + self._bias(fits - votes)
        key = tuple(int(column) for column in at)
        if key not in self._learnt:
            self._learnt[key] = self._left_out(at)
        trust, errors, typical = self._learnt[key]
        # If the profile is farther from its nearest reference than references are from theirs, less is known about it than about
        # them.
        scale = min(max(float(distances.min()) / typical, 1 / MAX_SCALE), MAX_SCALE) if typical > 1e-6 else 1.0
        return Guess(trust * blended + (1 - trust) * near, errors * scale, votes, weights, distances)

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """Number of the group of each column whose profiles share memory: pairs on as many GPUs of a type; -1 for other
        columns."""
        numbers: dict[tuple[str, int], int] = {}
        places = [(cell.accelerator, cell.gpus) if cell.colocated_with else None for cell in self.columns]
        return np.array([-1 if place is None else numbers.setdefault(place, len(numbers)) for place in places], dtype=np.intp)

    def _bias(self, surprises: Floats) -> Floats:
        """Return a correction of the votes. A profile that fits together with fewer profiles than its nearest references do needs
        more memory, so it fits with fewer of the others too. One surprise is not yet a rule, so the mean includes one more cell
        without a surprise."""
        seen = ~np.isnan(surprises) & (self._places >= 0)
        if not seen.any():
            return np.zeros(len(surprises))
        most = int(self._places.max()) + 1
        counts = np.bincount(self._places[seen], minlength=most)
        means = np.bincount(self._places[seen], weights=surprises[seen], minlength=most) / (counts + 1)
        return np.where(self._places >= 0, means[self._places], 0.0)

    def _guesses(
        self, among: NDArray[np.intp], at: NDArray[np.intp], seen: Floats, distances: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the guess by completion, the guess by the nearest references, the votes that the profile fits, and the weights
        of the references."""
        values = self.values[among]
        blended = _blend(values, self.levelled, at, seen)
        # A ratio beyond those of all references comes from the regression, not from the job.
        blended = np.where(self.levelled, blended, np.clip(blended, values.min(axis=0), values.max(axis=0)))
        weights = _weights(distances)
        # The filled gaps of a reference count little compared with a reference that was measured in the cell.
        trusted = weights[:, None] * np.where(self.known[among], 1.0, 1e-3)
        total = trusted.sum(axis=0)
        shifted = values + _shifts(values, self.levelled, at, seen)[:, None] * self.levelled
        near = (trusted * shifted).sum(axis=0) / np.maximum(total, 1e-300)
        known = np.where(np.isnan(self.fits[among]), 0.0, weights[:, None])
        votes = (known * np.nan_to_num(self.fits[among])).sum(axis=0)
        share = np.where(known.sum(axis=0) > 0, votes / np.maximum(known.sum(axis=0), 1e-300), 1.0)
        return blended, near, share, weights

    def _left_out(self, at: NDArray[np.intp]) -> tuple[Floats, Floats, float]:
        """Return, by column, the share of the completion in the guess and the typical absolute error of the guess, and a typical
        distance to the nearest reference. They come from references that are left out in turn and known by these cells only."""
        count, width = len(self.names), len(self.columns)
        if count < 3:
            return np.full(width, 0.5), np.full(width, UNPROFILED_UNCERTAINTY), 0.0
        chosen = np.unique(np.linspace(0, count - 1, min(count, MAX_LEFT_OUT)).astype(np.intp))
        off, nearest = np.full((2, len(chosen), width), np.nan), []
        for place, left_out in enumerate(chosen):
            rest = np.delete(np.arange(count), left_out)
            mine = at[self.known[left_out, at]]
            if not self.levelled[mine].any():
                continue
            seen = self.values[left_out, mine]
            none = np.full(width, np.nan)
            distances = _distances(self.values[rest], self.fits[rest], self.levelled, mine, seen, none)
            nearest.append(float(distances.min()))
            guesses = np.stack(self._guesses(rest, mine, seen, distances)[:2])
            off[:, place] = np.where(self.known[left_out], guesses - self.values[left_out], np.nan)
        blended, near = (_medians(np.abs(side)) ** 2 + 1e-12 for side in off)
        trust = near / (blended + near)
        typical = float(np.median(nearest)) if nearest else 0.0
        return trust, _medians(np.abs(trust * off[0] + (1 - trust) * off[1])), typical


def _medians(errors: Floats) -> Floats:
    """Return the median of each column without NaN; UNPROFILED_UNCERTAINTY for columns without values."""
    counted = ~np.isnan(errors).all(axis=0)
    found = np.full(errors.shape[1], UNPROFILED_UNCERTAINTY)
    found[counted] = np.nanmedian(errors[:, counted], axis=0)
    return found


def _scaled(cell: ProfileCell, value: float) -> float:
    return value if cell.colocated_with else math.log(value)


def rate_of(log_rate: float) -> float:
    return math.exp(min(max(log_rate, -700.0), 700.0))


def _shifts(values: Floats, levelled: NDArray[np.bool_], at: NDArray[np.intp], seen: Floats) -> Floats:
    """Return the shift that moves each reference to the level of the measured cells."""
    rates = levelled[at]
    return (seen[rates] - values[:, at[rates]]).mean(axis=1) if rates.any() else np.zeros(len(values))


def _distances(
    values: Floats, fits: Floats, levelled: NDArray[np.bool_], at: NDArray[np.intp], seen: Floats, runs: Floats
) -> Floats:
    """Return the RMS difference between each reference, moved to the same level, and the measured cells of a profile."""
    shifts = _shifts(values, levelled, at, seen)[:, None] * levelled[at]
    squared = ((values[:, at] + shifts - seen) ** 2).sum(axis=1)
    # NaN differs from everything, and is not counted.
    differ = (np.abs(fits - runs) == 1.0).sum(axis=1)
    freedom = len(at) - bool(levelled[at].any()) + differ
    return np.asarray(np.sqrt((squared + NO_FIT_DISTANCE**2 * differ) / np.maximum(freedom, 1)))


def _weights(distances: Floats) -> Floats:
    if not len(distances):
        return distances
    # If the nearest reference is far, its distance is the unit by which the others are weighted.
    width = max(NEAR, float(distances.min()))
    found = np.exp(-0.5 * ((distances**2 - distances.min() ** 2) / width**2))
    return np.asarray(found / found.sum())


def _blend(values: Floats, levelled: NDArray[np.bool_], at: NDArray[np.intp], seen: Floats) -> Floats:
    """Return the mean reference plus deviations of the references, regressed on the measured cells; the level is free."""
    flat = values - _levels(values, levelled)[:, None] * levelled
    middle = flat.mean(axis=0)
    deviations = flat - middle
    terms = np.vstack([deviations[:, at], levelled[at].astype(float)])
    penalty = np.full(len(terms), RIDGE * max(1, len(values)))
    penalty[-1] = 1e-9
    found = _solved(terms @ terms.T + np.diag(penalty), terms @ (seen - middle[at]))
    return np.asarray(middle + found[:-1] @ deviations + found[-1] * levelled)


def _levels(values: Floats, levelled: NDArray[np.bool_]) -> Floats:
    return values[:, levelled].mean(axis=1) if levelled.any() else np.zeros(len(values))


def _solved(matrix: Floats, right: Floats) -> Floats:
    """Return the solution; zeros, which stand for the mean reference, if there is none."""
    try:
        found = np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        found = np.zeros_like(right)
    return np.where(np.isfinite(found), found, 0.0)


def _shrinking(gram: Floats, penalty: float) -> Floats:
    return _solved(gram + penalty * np.eye(len(gram)), gram)


def _filled(values: Floats, levelled: NDArray[np.bool_]) -> Floats:
    """Fill gaps (NaN): first by level and column mean, then by rows of low rank until these hardly change."""
    known = ~np.isnan(values)
    plain = np.where(known, values, 0.0)
    rates = known & levelled
    middle, levels = np.zeros(values.shape[1]), np.zeros(len(values))
    for _ in range(ROUNDS):
        levels = np.where(rates, plain - middle, 0.0).sum(axis=1) / np.maximum(rates.sum(axis=1), 1)
        lifted = levels[:, None] * levelled
        middle = np.where(known, plain - lifted, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    lifted = levels[:, None] * levelled + middle
    rest = np.where(known, plain - lifted, 0.0)
    if known.all():
        return values
    penalty = RIDGE * len(values)
    for _ in range(ROUNDS):
        # Each singular value s becomes s^3 / (s^2 + penalty). That is a product with a small matrix, and needs no decomposition.
        if len(values) <= values.shape[1]:
            smooth = _shrinking(rest @ rest.T, penalty) @ rest
        else:
            smooth = rest @ _shrinking(rest.T @ rest, penalty)
        rest = np.where(known, rest, smooth)
    return np.asarray(np.where(known, values, rest + lifted))


def reference_table(rows: Mapping[str, Mapping[ProfileCell, float]], paired: bool) -> ReferenceTable:
    """Build the columns of the references: exclusive rates, and ratios if `paired`."""
    cells = sorted({cell for row in rows.values() for cell in row if paired or not cell.colocated_with})
    columns = {cell: number for number, cell in enumerate(cells)}
    values = np.full((len(rows), len(cells)), np.nan)
    fits = np.full((len(rows), len(cells)), np.nan)
    for number, row in enumerate(rows.values()):
        for cell, value in row.items():
            if cell in columns:
                fits[number, columns[cell]] = float(value > 0)
                if value > 0:
                    values[number, columns[cell]] = _scaled(cell, value)
    levelled = np.array([not cell.colocated_with for cell in cells], dtype=bool)
    return ReferenceTable(tuple(rows), columns, _filled(values, levelled), ~np.isnan(values), fits, levelled)


def reference_rows(reference: Rates, names: Sequence[str]) -> dict[str, dict[ProfileCell, float]]:
    """Return the measurements of each reference: exclusive steps per second, and ratios in pairs."""
    rows: dict[str, dict[ProfileCell, float]] = {name: {} for name in names}
    for table, apart in ((reference.table, False), (reference.across_nodes, True)):
        for (profile, accelerator, gpus), rate in table.items():
            if profile in rows:
                rows[profile][ProfileCell(accelerator, gpus, apart)] = rate
    for (first, second, accelerator, gpus), packed in reference.pairs.items():
        if first not in rows or second not in rows:
            continue
        alone = [rows[name].get(ProfileCell(accelerator, gpus)) for name in (first, second)]
        ratios = [ratio_of(rate, whole) for rate, whole in zip(packed, alone, strict=True) if whole is not None]
        if len(ratios) == 2:
            for one, other, (mine, theirs) in ((first, second, ratios), (second, first, ratios[::-1])):
                rows[one].setdefault(ProfileCell(accelerator, gpus, colocated_with=other), mine)
                rows[one].setdefault(ProfileCell(accelerator, gpus, colocated_with=other, of_partner=True), theirs)
    return {name: row for name, row in rows.items() if row}


def ratio_of(packed: float, alone: float) -> float:
    return min(1.0, packed / alone) if alone > 0 else 0.0
