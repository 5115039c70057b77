"""Allowed range of each number of a study. A value outside of it is a mistake, such as a wrong unit or too many zeros."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rota.compose.study import Study
from rota.errors import OptionError

MAX_SEEDS = 10_000
"""Maximum number of seeds of a comparison or a sweep. More would not narrow the interval."""
MAX_SECONDS = 1e8
"""Maximum length of time, in seconds: three years."""


@dataclass(frozen=True, slots=True)
class FieldRange:
    """Allowed range of a number."""

    least: float
    most: float
    example: str


LIMITS: Mapping[str, FieldRange] = {
    "round_seconds": FieldRange(1.0, MAX_SECONDS, "360"),
    "launch_seconds": FieldRange(0.0, 1e6, "5"),
    "checkpoint_seconds": FieldRange(0.0, 1e6, "6"),
    "restore_seconds": FieldRange(0.0, 1e6, "3"),
    "checkpoint_every_seconds": FieldRange(1.0, math.inf, "600"),
    "node_mtbf_seconds": FieldRange(1.0, math.inf, "86400"),
    "node_repair_seconds": FieldRange(0.0, MAX_SECONDS, "3600"),
    "spread_penalty": FieldRange(1.0, 1000.0, "1.7"),
    "cordon_slower_than": FieldRange(1.0, 1000.0, "1.5"),
    "min_run_factor": FieldRange(0.0, 1e6, "10"),
    "whole_steps_seconds": FieldRange(0.0, MAX_SECONDS, "360"),
    "completion_poll_seconds": FieldRange(0.0, MAX_SECONDS, "360"),
    "measurement_noise": FieldRange(0.0, 1.0, "0.05"),
    "seed": FieldRange(0, 2**63 - 1, "0"),
    "first": FieldRange(1, 1e9, "1000"),
}
"""Field of a study -> its range. Other numbers, such as `profiled`, are checked where they are used."""


def check_limits(study: Study) -> None:
    """Raise OptionError for the first number out of range. A penalty that is not a plain number is checked when it is read."""
    for name, limits in LIMITS.items():
        given = getattr(study, name)
        if given is None or not isinstance(given, int | float | tuple):
            continue
        if not np.all((np.asarray(given, dtype=float) >= limits.least) & (np.asarray(given, dtype=float) <= limits.most)):
            raise out_of_range(name, given)


def out_of_range(name: str, value: object) -> OptionError:
    """Return an error that names the range."""
    limits = LIMITS[name]
    most = f" to {limits.most:,.0f}" if math.isfinite(limits.most) else " on"
    unit = "; times are in seconds" if name.endswith("_seconds") else ""
    hint = f"--{name.replace('_', '-')} {limits.example}"
    return OptionError(f"must be from {limits.least:,g}{most}{unit}.", field=name, value=value, hint=hint)
