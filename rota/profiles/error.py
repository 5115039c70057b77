"""Error of the catalogue against measurements: measured divided by modelled rate, by source, model and accelerator type."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rota.errors import ProfileError
from rota.profiles.catalogue import read_key
from rota.profiles.published import read_measurements

EVERY = "all"


@dataclass(frozen=True, slots=True)
class ModelErrorLine:
    """Error of the model over a group of measurements."""

    source: str
    model: str
    accelerator: str
    cells: int
    ratio: float | None
    """Median of measured divided by modelled rate. Above 1 the model is too slow."""
    typical_factor: float | None
    """Factor, up or down, within which half of the measurements are."""
    p90_factor: float | None
    """Factor, up or down, within which nine tenths of the measurements are."""
    refused: int
    """Number of measurements that ran although the model predicts that they do not fit in memory. They count nowhere else."""


@dataclass(frozen=True, slots=True)
class ModelErrorReport:
    """Error against all named files."""

    lines: tuple[ModelErrorLine, ...]
    """Lines by source, model and accelerator type, then one for each source, then one for everything."""
    unknown: int
    """Number of measurements of profiles that the catalogue does not know."""


def compare(paths: Iterable[Path | str], renamed: Mapping[str, str] | None = None) -> ModelErrorReport:
    """Compare the catalogue with files and folders. `renamed` maps the type that a file names to the type that was really
    measured."""
    named = [Path(path) for path in paths]
    true_types = renamed or {}
    groups: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    unknown = 0
    for path in named:
        for source, profile, kind, gpus, nodes, measured, catalogue in read_measurements(path):
            accelerator = true_types.get(kind, kind)
            reading, answer = read_key(profile), catalogue.rate(profile, accelerator, gpus, int(nodes > 1))
            if reading is None or answer is None:
                unknown += 1
                continue
            for group in ((source, reading.workload.name, accelerator), (source, EVERY, EVERY), (EVERY, EVERY, EVERY)):
                groups.setdefault(group, []).append((measured, answer[0]))
    if not groups:
        where = ", ".join(str(path) for path in named)
        raise ProfileError("holds no profile that the catalogue knows.", where=where, hint="rota profile list")
    return ModelErrorReport(tuple(_line(*group, groups[group]) for group in sorted(groups, key=_order)), unknown)


def _order(group: tuple[str, str, str]) -> tuple[bool, bool, tuple[str, str, str]]:
    return group[0] == EVERY, group[1] == EVERY, group


def _line(source: str, model: str, accelerator: str, cells: Sequence[tuple[float, float]]) -> ModelErrorLine:
    logs = np.array([math.log2(measured / modelled) for measured, modelled in cells if modelled > 0])
    refused = len(cells) - len(logs)
    if not len(logs):
        return ModelErrorLine(source, model, accelerator, 0, None, None, None, refused)
    off = np.abs(logs)
    ratio, typical, p90 = (float(2**value) for value in (np.median(logs), np.median(off), np.quantile(off, 0.9)))
    return ModelErrorLine(source, model, accelerator, len(logs), ratio, typical, p90, refused)
