"""Hiding part of a table of rates from the scheduler, which then estimates those rates and learns them from running jobs."""

import numpy as np

from rota.beliefs.estimate import Estimator
from rota.beliefs.rates import Rates
from rota.errors import OptionError
from rota.model.view import keyed_rng

REFERENCES = 0.5
"""Fraction of the profiles whose rates are never hidden."""


def reveal_rates(rates: Rates, fraction: float, seed: int) -> Rates:
    """Return all rates of half of the profiles, and this fraction of the rates of each other one, at least one rate. The same
    seed hides the same rates."""
    if not 0 < fraction <= 1:
        raise OptionError("must be more than 0 and at most 1.", field="known_rates", value=fraction, hint="--known-rates 0.3")
    names = sorted({name for name, _, _ in rates.table})
    if not names:
        raise OptionError("needs measured rates to hide.", field="known_rates", value=fraction, hint="--profile TABLE")
    rng = keyed_rng(seed, 0, 7)
    references = set(rng.permutation(names)[: max(round(REFERENCES * len(names)), 1)].tolist())
    measured: dict[tuple[str, str, int, bool, str], tuple[float, ...]] = {}
    for name in names:
        if name in references:
            continue
        cells = [(name, accelerator, gpus, False, "") for profile, accelerator, gpus in rates.table if profile == name]
        for one in _some(cells, fraction, rng):
            measured[one] = (rates.table[one[0], one[1], one[2]],)
    for (first, second, accelerator, gpus), (a, b) in rates.pairs.items():
        if {first, second} <= references or rng.random() >= fraction:
            continue
        measured[first, accelerator, gpus, False, second] = (a,)
        measured[second, accelerator, gpus, False, first] = (b,)
    model = Estimator(rates, tuple(sorted(references)), measured)
    return Rates(speeds=rates.speeds, model=model, spread_penalty=rates.spread_penalty, everywhere=rates.everywhere)


def _some(
    cells: list[tuple[str, str, int, bool, str]], fraction: float, rng: np.random.Generator
) -> list[tuple[str, str, int, bool, str]]:
    count = max(round(fraction * len(cells)), 1)
    return [cells[i] for i in sorted(rng.permutation(len(cells))[:count].tolist())]
