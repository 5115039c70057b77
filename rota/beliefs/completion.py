"""Completion of rows from reference rows: what a job nobody has profiled would do in cells where it was not measured.

A profile is a row of cells: log steps per second on so many GPUs of a type, and what is left of that beside another profile
(packed over alone, from 0 to 1), for itself and for the other one. Two guesses are made for a cell and weighed by how right
each is for the references:

- completion: the row is the mean reference plus a ridge-regressed blend of the references' deviations from it. Gaps in the
  references are filled before, by the same low-rank idea: singular values shrunk, again and again;
- nearest references: their cells, weighted by how near they are in what was measured.

What a step is differs between profiles, so the level of a row carries no meaning: twice the rates measured, twice the estimates.
A rate of 0 means that it does not fit; the nearest references vote on that. Nothing is drawn at random. How wrong a guess is
typically: the median error for the references themselves, each left out in turn and known by the same cells; more for a profile
that is farther from its nearest reference than these are from theirs, and less for one that is nearer.
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
"""Variance that the blend leaves unexplained in a cell, in squared log units; around it the error is flat."""
NEAR = 0.07
"""References as far as this from the profile (RMS over what was measured) count much less than one right beside it."""
NO_FIT_DISTANCE = 0.2
"""How far two profiles are in a cell where one fits and the other does not."""
MOST_LEFT_OUT = 32
"""References that are left out in turn to learn how wrong a guess is."""
MOST_SCALE = 2.0
"""A profile is this many times better or worse known than a typical reference, at most."""
ROUNDS = 20
"""Of filling gaps in the references; the cells hardly change after ten."""


class ProfileCell(NamedTuple):
    """Where something of a profile may be measured."""

    accelerator: str
    gpus: int
    apart: bool = False
    """On several nodes."""
    beside: str = ""
    """The profile on the same GPUs."""
    theirs: bool = False
    """What that profile has left, not what this one has."""


@dataclass(frozen=True)
class Guess:
    """A row with all its gaps filled."""

    values: Floats
    """By column: log rate, or ratio."""
    errors: Floats
    """Typical absolute error of these."""
    fits: Floats
    """Share of the votes that it runs there."""
    weights: Floats
    """Nearness by reference; they add up to 1."""
    distances: Floats


@dataclass(frozen=True)
class ReferenceTable:
    """What the references say about some cells, as columns."""

    names: tuple[str, ...]
    columns: Mapping[ProfileCell, int]
    values: Floats
    """References by cells; gaps are filled."""
    known: NDArray[np.bool_]
    """Measured, and it runs there."""
    fits: Floats
    """1 where it runs, 0 where it does not, NaN where nobody knows."""
    levelled: NDArray[np.bool_]
    """Columns that a row's level moves: rates, not ratios."""

    def says(self, cell: ProfileCell) -> bool:
        """Whether some reference was measured there and runs."""
        return cell in self.columns and bool(self.known[:, self.columns[cell]].any())

    @cached_property
    def pair_places(self) -> frozenset[tuple[str, int]]:
        """Accelerator types and numbers of GPUs where some pair was measured."""
        return frozenset((cell.accelerator, cell.gpus) for cell in self.columns if cell.beside)

    @cached_property
    def _learnt(self) -> dict[tuple[int, ...], tuple[Floats, Floats, float]]:
        return {}

    def complete(self, row: Mapping[ProfileCell, float]) -> Guess:
        """Both guesses for a row of which these cells are known."""
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
        # Farther from its nearest reference than references are from theirs: less is known about it than about them.
        scale = min(max(float(distances.min()) / typical, 1 / MOST_SCALE), MOST_SCALE) if typical > 1e-6 else 1.0
        return Guess(trust * blended + (1 - trust) * near, errors * scale, votes, weights, distances)

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """Columns with the same number share memory: pairs on as many GPUs of a type; -1 for the others."""
        numbers: dict[tuple[str, int], int] = {}
        places = [(cell.accelerator, cell.gpus) if cell.beside else None for cell in self.columns]
        return np.array([-1 if place is None else numbers.setdefault(place, len(numbers)) for place in places], dtype=np.intp)

    def _bias(self, surprises: Floats) -> Floats:
        """A profile that fits beside fewer than its nearest references do needs more memory, so it fits beside fewer of the rest
        too. One surprise is not yet a rule, so the mean is that of one more cell without any."""
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
        """By completion, by the nearest, the votes that it fits, and the weights of the references."""
        values = self.values[among]
        blended = _blend(values, self.levelled, at, seen)
        # No reference had more left beside this one, or less: a ratio beyond them is the regression's, not the job's.
        blended = np.where(self.levelled, blended, np.clip(blended, values.min(axis=0), values.max(axis=0)))
        weights = _weights(distances)
        # A reference's filled gaps say little beside one that was measured there.
        trusted = weights[:, None] * np.where(self.known[among], 1.0, 1e-3)
        total = trusted.sum(axis=0)
        shifted = values + _shifts(values, self.levelled, at, seen)[:, None] * self.levelled
        near = (trusted * shifted).sum(axis=0) / np.maximum(total, 1e-300)
        known = np.where(np.isnan(self.fits[among]), 0.0, weights[:, None])
        votes = (known * np.nan_to_num(self.fits[among])).sum(axis=0)
        share = np.where(known.sum(axis=0) > 0, votes / np.maximum(known.sum(axis=0), 1e-300), 1.0)
        return blended, near, share, weights

    def _left_out(self, at: NDArray[np.intp]) -> tuple[Floats, Floats, float]:
        """(share of the completion in the guess, typical absolute error of the guess) by column, and a typical distance to the
        nearest: from references that are left out in turn and known by these cells only."""
        count, width = len(self.names), len(self.columns)
        if count < 3:
            return np.full(width, 0.5), np.full(width, UNPROFILED_UNCERTAINTY), 0.0
        chosen = np.unique(np.linspace(0, count - 1, min(count, MOST_LEFT_OUT)).astype(np.intp))
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
    """By column, of what there is."""
    counted = ~np.isnan(errors).all(axis=0)
    found = np.full(errors.shape[1], UNPROFILED_UNCERTAINTY)
    found[counted] = np.nanmedian(errors[:, counted], axis=0)
    return found


def _scaled(cell: ProfileCell, value: float) -> float:
    return value if cell.beside else math.log(value)


def rate_of(log_rate: float) -> float:
    return math.exp(min(max(log_rate, -700.0), 700.0))


def _shifts(values: Floats, levelled: NDArray[np.bool_], at: NDArray[np.intp], seen: Floats) -> Floats:
    """By how much each reference has to be moved to the level of what was seen."""
    rates = levelled[at]
    return (seen[rates] - values[:, at[rates]]).mean(axis=1) if rates.any() else np.zeros(len(values))


def _distances(
    values: Floats, fits: Floats, levelled: NDArray[np.bool_], at: NDArray[np.intp], seen: Floats, runs: Floats
) -> Floats:
    """RMS difference between each reference, moved to the same level, and what was seen of a profile."""
    shifts = _shifts(values, levelled, at, seen)[:, None] * levelled[at]
    squared = ((values[:, at] + shifts - seen) ** 2).sum(axis=1)
    # NaN differs from everything, and counts for nothing.
    differ = (np.abs(fits - runs) == 1.0).sum(axis=1)
    freedom = len(at) - bool(levelled[at].any()) + differ
    return np.asarray(np.sqrt((squared + NO_FIT_DISTANCE**2 * differ) / np.maximum(freedom, 1)))


def _weights(distances: Floats) -> Floats:
    if not len(distances):
        return distances
    # The nearest one may be far: then it is the yardstick, and the others count by how much farther they are.
    width = max(NEAR, float(distances.min()))
    found = np.exp(-0.5 * ((distances**2 - distances.min() ** 2) / width**2))
    return np.asarray(found / found.sum())


def _blend(values: Floats, levelled: NDArray[np.bool_], at: NDArray[np.intp], seen: Floats) -> Floats:
    """The mean reference plus deviations of the references, regressed on what was seen; the level is free."""
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
    """The solution, or none of the blend where there is no solution: the mean reference is an answer too."""
    try:
        found = np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        found = np.zeros_like(right)
    return np.where(np.isfinite(found), found, 0.0)


def _shrinking(gram: Floats, penalty: float) -> Floats:
    return _solved(gram + penalty * np.eye(len(gram)), gram)


def _filled(values: Floats, levelled: NDArray[np.bool_]) -> Floats:
    """Gaps (NaN) filled: first by level and column mean, then by rows of low rank until these hardly change."""
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
        # Each singular value s becomes s^3 / (s^2 + penalty). That is a product with a small matrix, and takes no decomposition.
        if len(values) <= values.shape[1]:
            smooth = _shrinking(rest @ rest.T, penalty) @ rest
        else:
            smooth = rest @ _shrinking(rest.T @ rest, penalty)
        rest = np.where(known, rest, smooth)
    return np.asarray(np.where(known, values, rest + lifted))


def reference_table(rows: Mapping[str, Mapping[ProfileCell, float]], paired: bool) -> ReferenceTable:
    """The references as columns: rates alone, and ratios if `paired`."""
    cells = sorted({cell for row in rows.values() for cell in row if paired or not cell.beside})
    columns = {cell: number for number, cell in enumerate(cells)}
    values = np.full((len(rows), len(cells)), np.nan)
    fits = np.full((len(rows), len(cells)), np.nan)
    for number, row in enumerate(rows.values()):
        for cell, value in row.items():
            if cell in columns:
                fits[number, columns[cell]] = float(value > 0)
                if value > 0:
                    values[number, columns[cell]] = _scaled(cell, value)
    levelled = np.array([not cell.beside for cell in cells], dtype=bool)
    return ReferenceTable(tuple(rows), columns, _filled(values, levelled), ~np.isnan(values), fits, levelled)


def reference_rows(reference: Rates, names: Sequence[str]) -> dict[str, dict[ProfileCell, float]]:
    """What was measured of each reference: steps per second alone, ratios in pairs."""
    rows: dict[str, dict[ProfileCell, float]] = {name: {} for name in names}
    for table, apart in ((reference.table, False), (reference.apart, True)):
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
                rows[one].setdefault(ProfileCell(accelerator, gpus, beside=other), mine)
                rows[one].setdefault(ProfileCell(accelerator, gpus, beside=other, theirs=True), theirs)
    return {name: row for name, row in rows.items() if row}


def ratio_of(packed: float, alone: float) -> float:
    return min(1.0, packed / alone) if alone > 0 else 0.0
