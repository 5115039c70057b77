"""Runs on made-up GPUs, for those who have no file of measured ones: shaped like what PAL published of a cluster of V100s.

GPUs differ by a few per cent for the class that computes most (A) and less for the others. Of the runs of class A one or two in a
hundred take half as long again or up to three and a half times as long, on any GPU: no GPU is slow for good.
"""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

GPUS, RUNS = 336, 6
SEED = 42
"""Chosen, of the first 60, such that the draw that PAL published (seed 42, 64 GPUs) has one GPU at 2.8 and no other beyond 1.1,
much as it has with the measured runs: five do. With most others it has no slow one, or several, and gains differ as much."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Of the runs of one application."""

    between: float
    """How much GPUs differ, relatively."""
    within: float
    """How much runs on one GPU differ."""
    odd: float = 0.0
    """The part of the runs that something went wrong with."""


SHAPES: Mapping[str, Shape] = {
    "resnet": Shape(0.025, 0.02, 0.014),
    "bert": Shape(0.01, 0.009),
    "pagerank": Shape(0.006, 0.002),
}
CLASSES: Mapping[str, str] = {"A": "resnet", "B": "bert", "C": "bert", "D": "pagerank"}
ODDEST = (1.5, 3.5)
"""How many times longer an odd run takes."""


def write_runs(folder: Path, seed: int = SEED) -> Path:
    """Write them as files that `read_variability` reads; returns the folder."""
    draw = np.random.Generator(np.random.Philox(key=seed))
    for name, shape in SHAPES.items():
        gpu = np.exp(shape.between * draw.standard_normal(GPUS))
        runs = gpu[:, None] * np.exp(shape.within * draw.standard_normal((GPUS, RUNS)))
        odd = draw.random(runs.shape) < shape.odd
        runs[odd] *= draw.uniform(*ODDEST, int(odd.sum()))
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("uuid", "perf"))
            writer.writerows((f"gpu-{number}", f"{time:.6f}") for number, times in enumerate(runs.tolist()) for time in times)
    (folder / "profiles.json").write_text(json.dumps({f"class{key}": f"{name}.csv" for key, name in CLASSES.items()}), "utf-8")
    return folder
