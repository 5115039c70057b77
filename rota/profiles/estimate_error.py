"""Error of estimates for unprofiled jobs: every profile of a table is left out in turn, some of its cells count as measured, and
the estimates of the others are compared with the table."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from rota.beliefs.estimate import Estimator
from rota.beliefs.rates import SPEEDS, Key, Rates
from rota.errors import OptionError, ProfileError
from rota.profiles.measured_rates import read_measured

T = TypeVar("T")

EVERY = "all"
EXCLUSIVE, ACROSS_NODES, COLOCATED = "exclusive", "across nodes", "colocated"
HALF = 0.5
"""Fraction of its rate that a naive guess leaves to a job next to another one, before any pair was measured."""

Progress = Callable[[int, int, float], None]
"""Called with the number of profiles done, the number of all profiles, and 0."""


@dataclass(frozen=True, slots=True)
class EstimateErrorLine:
    """Error of the estimates over a group of hidden cells, with that of a naive guess."""

    what: str
    """`exclusive`, `across nodes` (exclusive, on several nodes), or `colocated` (fraction of the exclusive rate left on shared
    GPUs)."""
    accelerator: str
    cells: int
    typical_factor: float | None
    """Factor, up or down, within which half of the cells are."""
    p90_factor: float | None
    """Factor, up or down, within which nine tenths of the cells are."""
    worst_factor: float | None
    naive_typical_factor: float | None
    naive_p90_factor: float | None
    naive_worst_factor: float | None
    said_spread: float | None
    """Median of the relative spread that the estimator gives: about `typical_factor` - 1 if it is right. The spread of a rate
    next to another job includes that of the exclusive rate."""
    misjudged: int
    """Number of cells that run although the estimator predicts that they do not fit, or the other way round. They count nowhere
    else."""


@dataclass(frozen=True, slots=True)
class EstimateErrorReport:
    """The error over all profiles."""

    hide: float
    seed: int
    profiles: int
    lines: tuple[EstimateErrorLine, ...]
    """Lines by what was estimated and accelerator type, each group followed by one for all types."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """A hidden cell: the truth, the estimate with its spread, and the naive guess."""

    what: str
    accelerator: str
    true: float
    estimate: float
    spread: float
    naive: float


def estimate_table(path: Path | str, hide: float, seed: int = 0, progress: Progress | None = None) -> EstimateErrorReport:
    """Leave every profile of a table out in turn, and estimate this fraction of its cells from the rest of them."""
    return left_out(read_measured(path), hide, seed, where=str(path), progress=progress)


def left_out(
    rates: Rates, hide: float, seed: int = 0, *, where: str = "", progress: Progress | None = None
) -> EstimateErrorReport:
    if not 0 < hide < 1:
        raise OptionError("must be between 0 and 1.", field="--hide", value=hide, hint="--hide 0.7 measures three cells of ten")
    if seed < 0:
        raise OptionError("must be 0 or more.", field="--seed", value=seed, hint="--seed 0")
    names = sorted({profile for profile, _, _ in (*rates.table, *rates.across_nodes)})
    if len(names) < 2:
        problem = f"has {len(names)} profile; a profile is estimated from others."
        raise ProfileError(problem, where=where, hint="a table with several profiles")
    draw = np.random.Generator(np.random.Philox(key=seed))
    samples: list[_Sample] = []
    for done, name in enumerate(names):
        if progress is not None:
            progress(done, len(names), 0.0)
        samples += _one_left_out(rates, name, tuple(other for other in names if other != name), hide, draw)
    if progress is not None:
        progress(len(names), len(names), 0.0)
    return EstimateErrorReport(hide, seed, len(names), tuple(_lines(samples)))


def _one_left_out(rates: Rates, name: str, others: tuple[str, ...], hide: float, draw: np.random.Generator) -> list[_Sample]:
    """Return the hidden cells of a profile of which the estimator knows only the other cells."""
    alone = {key: rate for key, rate in rates.table.items() if key[0] == name}
    apart = {key: rate for key, rate in rates.across_nodes.items() if key[0] == name}
    pairs = {key: both for key, both in rates.pairs.items() if key[0] == name}
    shown = _given(alone, hide, draw)
    spread_out = _some(sorted(apart), hide, draw) if shown else _given(apart, hide, draw)
    packed = _some(sorted(pairs), hide, draw)
    known = Estimator(rates, others)
    for _, kind, gpus in shown:
        known = known.observed(name, kind, gpus, alone[name, kind, gpus])
    for _, kind, gpus in spread_out:
        known = known.observed(name, kind, gpus, apart[name, kind, gpus], levels=1)
    for _, other, kind, gpus in packed:
        mine, theirs = pairs[name, other, kind, gpus]
        known = known.observed(name, kind, gpus, mine, colocated_with=other).observed(
            other, kind, gpus, theirs, colocated_with=name
        )
    naive = _naive({key: rate for key, rate in alone.items() if key in shown})
    found = []
    for table, what, seen, levels in ((alone, EXCLUSIVE, shown, 0), (apart, ACROSS_NODES, spread_out, 1)):
        for (_, kind, gpus), rate in table.items():
            guess = known.rate(name, kind, gpus, levels) if (name, kind, gpus) not in seen else None
            if guess is not None:
                found.append(_Sample(what, kind, rate, *guess, naive(kind, gpus)))
    return found + _pairs_left_out(rates, known, name, pairs, packed)


def _pairs_left_out(
    rates: Rates,
    known: Estimator,
    name: str,
    pairs: Mapping[tuple[str, str, str, int], tuple[float, float]],
    packed: set[tuple[str, str, str, int]],
) -> list[_Sample]:
    """Return both sides of the hidden pairs, as ratios, so the error of exclusive rates does not count."""

    def ratios(key: tuple[str, str, str, int]) -> list[float] | None:
        whole = [rates.table.get((profile, key[2], key[3]), 0.0) for profile in key[:2]]
        return [min(1.0, packed / alone) for packed, alone in zip(pairs[key], whole, strict=True)] if all(whole) else None

    seen = [shares for key in packed if (shares := ratios(key)) is not None and all(shares)]
    means = [float(np.mean([shares[side] for shares in seen])) if seen else HALF for side in (0, 1)]
    found = []
    for key in sorted(pairs):
        shares = ratios(key) if key not in packed else None
        guess = known.colocated_rates(*key) if shares is not None else None
        if shares is None or guess is None:
            continue
        for side, profile in enumerate(key[:2]):
            alone = known.rate(profile, key[2], key[3])
            ratio = min(1.0, guess[0][side] / alone[0]) if alone is not None and alone[0] > 0 else 0.0
            found.append(_Sample(COLOCATED, key[2], shares[side], ratio, guess[1], means[side]))
    return found


def _given(cells: Mapping[Key, float], hide: float, draw: np.random.Generator) -> set[Key]:
    """Choose some cells, at least one of them with a rate above 0. Without it the speed of the profile is unknown."""
    found = _some(sorted(cells), hide, draw)
    running = [key for key in sorted(cells) if cells[key] > 0]
    if running and not any(cells[key] > 0 for key in found):
        found.add(running[int(draw.integers(len(running)))])
    return found


def _some(cells: list[T], hide: float, draw: np.random.Generator) -> set[T]:
    order = draw.permutation(len(cells))
    return {cells[number] for number in order[: round(len(cells) * (1 - hide))]}


def _naive(shown: Mapping[Key, float]) -> Callable[[str, int], float]:
    """Return a guess in proportion to memory bandwidth and GPUs, at the mean level of the measured cells."""
    logs = [math.log(rate / (SPEEDS.get(kind, 1.0) * gpus)) for (_, kind, gpus), rate in shown.items() if rate > 0]
    level = math.exp(float(np.mean(logs))) if logs else 1.0
    return lambda kind, gpus: level * SPEEDS.get(kind, 1.0) * gpus


def _lines(samples: list[_Sample]) -> list[EstimateErrorLine]:
    lines = []
    for what in (EXCLUSIVE, ACROSS_NODES, COLOCATED):
        some = [sample for sample in samples if sample.what == what]
        for kind in (*sorted({sample.accelerator for sample in some}), EVERY):
            chosen = [sample for sample in some if kind in (sample.accelerator, EVERY)]
            if chosen:
                lines.append(_line(what, kind, chosen))
    return lines


def _line(what: str, accelerator: str, samples: list[_Sample]) -> EstimateErrorLine:
    misjudged = sum((sample.true > 0) != (sample.estimate > 0) for sample in samples)
    both = [sample for sample in samples if sample.true > 0 and sample.estimate > 0]
    if not both:
        return EstimateErrorLine(what, accelerator, 0, None, None, None, None, None, None, None, misjudged)
    ours = _factors([sample.estimate / sample.true for sample in both])
    naive = _factors([sample.naive / sample.true for sample in both])
    return EstimateErrorLine(
        what, accelerator, len(both), *ours, *naive, float(np.median([sample.spread for sample in both])), misjudged
    )


def _factors(ratios: list[float]) -> tuple[float, float, float]:
    """Return the typical factor, the factor of nine tenths, and the worst one."""
    off = np.abs(np.log2(ratios))
    return float(2 ** np.median(off)), float(2 ** np.quantile(off, 0.9)), float(2 ** off.max())
