"""Rates of the jobs in Gandiva's experiments: a table of profiles alone and in pairs, on V100s.

Measured rates are those of Gavel's authors. Without them, rates alone come from the built-in catalogue, and pairs follow a model
of our own: a job keeps its GPU busy for a fraction of the time, two jobs use it together, and slow each other down where both
need it.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path

from rota.beliefs.rates import Rates
from rota.profiles.catalogue import Catalogue
from rota.profiles.measured_rates import read_measured
from rota.profiles.rates_csv import COLUMNS
from rota.traces.gandiva_jobs import GIB, ONE_GPU, SIZES

KIND = "V100"

UTILISATION: Mapping[str, float] = {
    "ResNet-18 (batch size 16)": 0.35,
    "ResNet-18 (batch size 32)": 0.40,
    "ResNet-18 (batch size 64)": 0.50,
    "ResNet-18 (batch size 128)": 0.65,
    "ResNet-18 (batch size 256)": 0.80,
    "ResNet-50 (batch size 16)": 0.70,
    "ResNet-50 (batch size 32)": 0.85,
    "ResNet-50 (batch size 64)": 0.95,
    "ResNet-50 (batch size 128)": 1.00,
    "Transformer (batch size 16)": 0.45,
    "Transformer (batch size 32)": 0.50,
    "Transformer (batch size 64)": 0.65,
    "Transformer (batch size 128)": 0.80,
    "Transformer (batch size 256)": 0.95,
    "LM (batch size 5)": 0.55,
    "LM (batch size 10)": 0.60,
    "LM (batch size 20)": 0.65,
    "LM (batch size 40)": 0.70,
    "LM (batch size 80)": 0.80,
    "Recommendation (batch size 512)": 0.60,
    "Recommendation (batch size 1024)": 0.65,
    "Recommendation (batch size 2048)": 0.75,
    "Recommendation (batch size 4096)": 0.85,
    "Recommendation (batch size 8192)": 0.95,
    "A3C": 0.30,
    "CycleGAN": 0.85,
}
"""Utilization of a V100 by each model: our guesses, not measurements."""

CONTENTION = 0.15
"""Fraction of the GPU that is lost if two jobs each need the whole GPU."""


def measured_rates(path: Path | str) -> Rates:
    """Read the rates of V100s from Gavel's file. Its pairs of gangs are all zero, which means not measured: they are left out, so
    two gangs count as taking turns. On single GPUs a zero is a pair that does not fit."""
    whole = read_measured(path)
    return Rates(
        {key: rate for key, rate in whole.table.items() if key[1] == KIND},
        across_nodes={key: rate for key, rate in whole.across_nodes.items() if key[1] == KIND},
        pairs={key: both for key, both in whole.pairs.items() if key[2] == KIND and (key[3] == 1 or max(both) > 0)},
    )


def made_up_rates() -> Rates:
    rates = Rates(model=Catalogue())
    table, apart = {}, {}
    for model in GIB:
        for gpus in SIZES:
            if gpus > 1 and model.partition(" ")[0] in ONE_GPU:
                continue
            table[model, KIND, gpus] = rates.rate(model, KIND, gpus)[0]
            if gpus > 1:
                apart[model, KIND, gpus] = rates.rate(model, KIND, gpus, 1)[0]
    pairs = {}
    for gpus in SIZES:
        for first, second in combinations_with_replacement([model for model in GIB if (model, KIND, gpus) in table], 2):
            part = share(UTILISATION[first], UTILISATION[second])
            pairs[first, second, KIND, gpus] = (part * table[first, KIND, gpus], part * table[second, KIND, gpus])
    return Rates(table, across_nodes=apart, pairs=pairs)


def share(first: float, second: float) -> float:
    """Return the fraction of its speed that a job keeps when colocated, by the utilization of each job alone."""
    return min(1.0, 1.0 / (first + second)) * (1.0 - CONTENTION * min(first, second))


def disturbed(rates: Rates, factor: float) -> Rates:
    """Return these rates with pairs this many times as fast, but no job faster than alone."""
    return replace(
        rates,
        pairs={
            (first, second, kind, gpus): (
                min(one * factor, rates.table[first, kind, gpus]),
                min(other * factor, rates.table[second, kind, gpus]),
            )
            for (first, second, kind, gpus), (one, other) in rates.pairs.items()
        },
    )


def write_rates(rates: Rates, path: Path) -> Path:
    """Write the rates as a table for `--profile`."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(_rows(rates))
    return path


def _rows(rates: Rates) -> Iterator[tuple[str, str, int, int, str, float]]:
    for (profile, kind, gpus), rate in rates.table.items():
        yield profile, kind, gpus, 1, "", rate
    for (profile, kind, gpus), rate in rates.across_nodes.items():
        yield profile, kind, gpus, 2, "", rate
    done = set()
    for first, second, kind, gpus in rates.pairs:
        if (second, first, kind, gpus) in done:
            continue  # a table has a pair once; measured files may have both orders
        done.add((first, second, kind, gpus))
        both = rates.colocated_rates(first, second, kind, gpus)
        assert both is not None
        yield first, kind, gpus, 1, second, both[0]
        if first != second:
            yield second, kind, gpus, 1, first, both[1]
