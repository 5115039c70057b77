"""Step times over GPUs and batch size, from the tables that Pollux and ElasticFlow published (see `published.py`), and the models
fitted to them.

The truth of a simulation interpolates the measurements: between two of them linearly, at the smallest number of nodes that was
measured for a number of GPUs. A scheduler's belief is the model of Pollux, fitted to them (`beliefs/step_time.py`), with its
error as the spread.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from rota.beliefs.rates import Source
from rota.beliefs.step_time import TINY, StepMeasurement, StepTime, fit
from rota.errors import ProfileError
from rota.files.inputs import input_exists, input_is_folder, inputs_in
from rota.model.accelerators import ACCELERATORS
from rota.model.units import Floats
from rota.profiles.catalogue import Catalogue
from rota.profiles.curves import published_efficiency
from rota.profiles.published import read_measurements, with_columns

_KEY = re.compile(r"(?P<name>.+)/(?P<of>bs|global)(?P<batch>[1-9]\d{0,6})")

MIN_POINTS = 8
"""Minimum number of measurements to fit a model."""

Line = tuple[tuple[float, ...], tuple[float, ...]]
"""Examples on a GPU, and the seconds of a step with each."""


@dataclass(frozen=True)
class StepTable:
    """Measured step times of one model on one accelerator type."""

    inside: Mapping[int, Line]
    """GPUs of one node -> measurements."""
    between: Mapping[int, Line]
    """GPUs of several nodes -> measurements."""
    most_local: float

    def seconds(self, gpus: int, batch_size: float, spans: bool) -> float:
        """Return the seconds of a step. They are interpolated between two numbers of GPUs; beyond the last, each further GPU adds
        as much, but they never fall. A batch that exceeds the memory of a GPU is accumulated over several passes."""
        local = max(batch_size / gpus, 1.0)
        passes = math.ceil(local / self.most_local - TINY)
        if passes == 1:
            return self._gathered(gpus, local, 1, spans)
        # Not measured, but assumed: more examples than fit into one pass less do not take less time than those.
        return max(self._gathered(gpus, local / passes, passes, spans), self._gathered(gpus, self.most_local, passes - 1, spans))

    def _gathered(self, gpus: int, local: float, passes: int, spans: bool) -> float:
        """Return the seconds of a step with this many examples on each GPU in a pass. Gradients are exchanged after the last
        pass."""
        last = self._at(self.between if spans and self.between else self.inside, gpus, local)
        return last + (passes - 1) * min(self._at(self.inside, 1, local), last) if passes > 1 else last

    @cached_property
    def _counts(self) -> tuple[list[int], list[int]]:
        return sorted(self.inside), sorted(self.between)

    def _at(self, rows: Mapping[int, Line], gpus: int, local: float) -> float:
        counts = self._counts[rows is self.between and bool(self.between)]
        if gpus in rows:
            return _on_line(rows[gpus], local)
        if len(counts) == 1:
            return _on_line(rows[counts[0]], local)
        at = min(max(int(np.searchsorted(counts, gpus)), 1), len(counts) - 1)
        low, high = counts[at - 1], counts[at]
        first, second = _on_line(rows[low], local), _on_line(rows[high], local)
        found = first + (second - first) * (gpus - low) / (high - low)
        if low <= gpus <= high:
            return found
        return max(found, first / 2) if gpus < low else max(found, second)


def _on_line(line: Line, local: float) -> float:
    """Interpolate between two measurements, constant below the first, and along the last two beyond the last."""
    sizes, seconds = line
    if local <= sizes[-1] or len(sizes) < 2:
        return float(np.interp(local, sizes, seconds))
    slope = max(seconds[-1] - seconds[-2], 0.0) / (sizes[-1] - sizes[-2])
    return seconds[-1] + slope * (local - sizes[-1])


@dataclass(frozen=True)
class StepTimes:
    """A source of rates: step times by model and accelerator type, measured or fitted. Another source has all other rates."""

    tables: Mapping[str, StepTable | StepTime]
    """Step times by a model and an accelerator type: `cifar10 T4`."""
    beyond: Source = field(default_factory=Catalogue)

    def rate(self, profile: str, accelerator: str, gpus: int, levels: int = 0) -> tuple[float, float] | None:
        """Return the rate of a profile. On a type on which the model was not measured, it is scaled by the other source, or else
        by memory bandwidths."""
        match = _KEY.fullmatch(profile)
        if match is None or match["name"] not in self._types:
            return self.beyond.rate(profile, accelerator, gpus, levels)
        batch = int(match["batch"]) * (gpus if match["of"] == "bs" else 1)
        name, types = match["name"], self._types[match["name"]]
        measured = accelerator if accelerator in types else types[0]
        table = self.tables[f"{name} {measured}"]
        rate, spread = 1.0 / table.seconds(gpus, batch, levels > 0), table.error if isinstance(table, StepTime) else 0.0
        if measured == accelerator:
            return rate, spread
        here, there = (self.beyond.rate(profile, each, gpus, levels) for each in (accelerator, measured))
        if here is not None and there is not None and there[0] > 0:
            return rate * here[0] / there[0], max(spread, here[1])
        known = ACCELERATORS.get(accelerator), ACCELERATORS.get(measured)
        ratio = known[0].bandwidth_gb_s / known[1].bandwidth_gb_s if known[0] is not None and known[1] is not None else 1.0
        return rate * ratio, 0.5

    def fitted(self) -> "StepTimes":
        """Return these step times as a scheduler's belief."""
        return replace(self, tables={key: _fitted(table) for key, table in self.tables.items()})

    @property
    def models(self) -> tuple[str, ...]:
        """Models with known step times."""
        return tuple(self._types)

    @cached_property
    def _types(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key in self.tables:
            name, _, accelerator = key.rpartition(" ")
            found.setdefault(name, []).append(accelerator)
        return found


def read_step_times(folder: Path | str) -> StepTimes:
    """Read the step times in a folder of Pollux or ElasticFlow."""
    if not input_is_folder(folder):
        problem = "is not a folder." if input_exists(folder) else "there is no such folder."
        raise ProfileError(problem, where=str(folder), hint="a folder with throughputs_A100/*.csv or MODEL/placements.csv")
    found: dict[str, dict[tuple[int, bool], dict[float, tuple[int, float]]]] = {}

    def add(key: str, gpus: int, nodes: int, local: float, seconds: float) -> None:
        cell = found.setdefault(key, {}).setdefault((gpus, nodes > 1), {})
        if local not in cell or (nodes, seconds) < cell[local]:
            cell[local] = (nodes, seconds)  # the fewest nodes, and the best of those

    for each in read_measurements(Path(folder)):
        match = _KEY.fullmatch(each.profile)
        if match is not None:
            local = int(match["batch"]) / (1 if match["of"] == "bs" else each.gpus)
            add(f"{match['name']} {each.accelerator}", each.gpus, each.nodes, local, 1 / each.rate)
    for path in inputs_in(folder, "*/scalability.csv"):
        for row in with_columns(path, "num_nodes", "num_replicas", "local_bsz", "step_time").rows():
            seconds = row.number("step_time")
            if seconds == 0:
                raise row.wrong("step_time", "must be more than 0.", hint="take the row out")
            gpus, nodes = row.whole("num_replicas", least=1), row.whole("num_nodes", least=1)
            add(f"{path.parent.name} T4", gpus, nodes, row.whole("local_bsz", least=1), seconds)
    return StepTimes({key: _table(cells) for key, cells in found.items()})


def _table(cells: Mapping[tuple[int, bool], Mapping[float, tuple[int, float]]]) -> StepTable:
    lines: tuple[dict[int, Line], dict[int, Line]] = ({}, {})
    for (gpus, spans), cell in cells.items():
        sizes = sorted(cell)
        lines[spans][gpus] = (tuple(sizes), tuple(cell[size][1] for size in sizes))
    inside = lines[0] or lines[1]
    return StepTable(inside, lines[1], max(line[0][-1] for line in inside.values()))


def measured_points(table: StepTable) -> list[StepMeasurement]:
    return [
        StepMeasurement(gpus, spans, local, seconds)
        for spans, rows in ((False, table.inside), (True, table.between))
        for gpus, line in rows.items()
        for local, seconds in zip(*line, strict=True)
    ]


def _fitted(table: StepTable | StepTime) -> StepTable | StepTime:
    if isinstance(table, StepTime):
        return table
    points = measured_points(table)
    return replace(fit(points), most_local=table.most_local) if len(points) >= MIN_POINTS else table


def fit_errors(table: StepTable, model: StepTime) -> Floats:
    """Return the relative difference between the model and each measurement."""
    points = measured_points(table)
    return np.array([model.seconds(p.gpus, p.local_batch * p.gpus, p.spans) / p.seconds - 1 for p in points])


@dataclass(frozen=True, slots=True)
class ScalingLine:
    """Step times and efficiency of a model on an accelerator type."""

    model: str
    accelerator: str
    points: int
    mean_error: float | None
    """Mean relative error of modelled step times; None if there were too few measurements to fit a model, so that the table is
    used."""
    typical_error: float | None
    """Relative error within which half of the step times are."""
    p90_error: float | None
    """Relative error within which nine tenths of the step times are."""
    most_local: float
    noise_examples: float | None
    """Gradient noise scale, in examples; None if unknown."""
    efficiency: float | None
    """Training per example at the largest measured batch size, divided by that at the smallest."""


def describe_scaling(folder: Path | str) -> list[ScalingLine]:
    """Describe the step times and efficiency of every model in a folder."""
    measured, known = read_step_times(folder), published_efficiency()
    fitted, modelled = measured.fitted(), known.modelled()
    found = []
    for key, table in measured.tables.items():
        model, _, accelerator = key.rpartition(" ")
        believed = fitted.tables[key]
        assert isinstance(table, StepTable)
        off = np.abs(fit_errors(table, believed)) if isinstance(believed, StepTime) else None
        sizes = known.sizes(model)
        most = sizes[-1] if sizes else 0
        found.append(
            ScalingLine(
                model,
                accelerator,
                len(measured_points(table)),
                None if off is None else float(off.mean()),
                None if off is None else float(np.median(off)),
                None if off is None else float(np.quantile(off, 0.9)),
                table.most_local,
                modelled.noise.get(model),
                known.progress(model, most) / most if sizes else None,
            )
        )
    return found


SOURCES: tuple[type, ...] = (Catalogue, StepTimes, StepTable, StepTime)
"""Types that snapshots and configurations store as sources of rates."""
