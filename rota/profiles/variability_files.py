"""Scores of GPUs, read from measurements of real ones.

**Runs**, as PAL publishes them: a folder with `profiles.json`, which names for every class a CSV file with one run per line; or
such a JSON file with another name; or a single CSV file, for a single class. Its columns are `perf`, the time of a run in any
unit, and `uuid`, the GPU on which it ran; `cabinet`, `node` and `device` identify GPUs across files that name them differently.
Other columns are not read. Times are relative to the median of all runs of the file.

**Scores**: a CSV file with a line per GPU and class, columns in any order,

| column | what it is |
|---|---|
| `gpu` | its number in the cluster, from 0 |
| `class` | the class's name |
| `score` | factor on the time of a step; more than 0, 1.0 is the median |
| `spread` | relative uncertainty of the score; may be left out or empty: unknown |

where GPUs that are not listed count as the median; or PAL's, with a line per GPU: `gpu_id` and a column `pm_classA` for class A
and so on (`node_id` and `bin_classA` are not read: bins are computed here), or `GPU_ID` and `PerfVar_classA`.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from rota.beliefs.variability import SLOWEST, Variability
from rota.errors import InputError, OptionError, ProfileError
from rota.files.csv_table import CsvRow, FileTable, closest, read_table, shown
from rota.files.inputs import input_is_file, input_is_folder
from rota.files.text import read_text
from rota.files.tree import TreeEntry, read_tree
from rota.model.cluster import Cluster
from rota.model.units import Floats
from rota.profiles.measured_rates import is_json

CLASS_FILES = "profiles.json"
SEED = 0
OUTLIER = 1.5
"""Factor over the median from which an operator should look at a GPU."""
MIN_SPREAD = 1e-4
"""Smallest spread of a measured score: 0 would mean that the score is unknown."""

PAL_CLASSES: Mapping[str, str] = {
    "resnet50": "A",
    "bert": "B",
    "dcgan": "B",
    "gpt2": "B",
    "vgg19": "C",
    "pointnet": "D",
}
"""Classes of PAL's models, for files that have those classes."""

OWN = ("gpu", "class", "score", "spread")
_WIDE = re.compile(r"(?:pm|bin)_class\w+|node_id|gpu_id")
_TESTBED = ("", "GPU_ID", "GPU_UUID", "Local_GPU_ID", "Node_ID", "IP_addr", "IN_USE", "JOB_IDS")
_EXAMPLE = "columns gpu,class,score[,spread], or uuid,perf, or gpu_id,pm_classA,..."


@dataclass(frozen=True)
class Runs:
    """A file of runs, with times relative to the median of all runs."""

    where: str
    times: Sequence[float]
    """Times in the order of the file."""
    by_gpu: Mapping[str, tuple[float, ...]]
    """Times by GPU; empty if the file does not name the GPU of a run."""

    @property
    def noise(self) -> float:
        """Return the relative difference between runs on one GPU: the median over GPUs with several runs; 0 if there are none."""
        found = [_deviation(times) for times in self.by_gpu.values() if len(times) > 1]
        return float(np.median(found)) if found else 0.0


@dataclass(frozen=True, slots=True)
class ClassLine:
    """Summary of one class."""

    name: str
    gpus: int
    least: float
    median: float
    most: float
    spread: float | None
    """Median uncertainty of a score over GPUs; None if unknown."""
    bins: tuple[tuple[float, int], ...]
    """Value and number of GPUs of every bin, as in PAL's code."""
    outliers: tuple[tuple[int, float], ...]
    """GPU and score, the slowest first."""


@dataclass(frozen=True, slots=True)
class VariabilitySummary:
    """Summary of a file or folder with variability."""

    path: str
    gpus: int
    sampled: bool | None
    """Whether a score is a run drawn from all runs, or a GPU's median; None if the file has scores."""
    seed: int | None
    classes: tuple[ClassLine, ...]


def read_variability(
    path: Path | str,
    cluster: Cluster | None = None,
    seed: int = SEED,
    sampled: bool = True,
    class_of: Mapping[str, str] | None = None,
) -> Variability:
    """Read scores for every GPU of a cluster; without a cluster, for as many GPUs as the file has.

    Scores are made from runs in one of two ways. With `sampled`, a run is drawn from the file for every GPU and class, whichever
    GPU it was on, as PAL does. Otherwise real GPUs are drawn, each at most once while there are enough, and a GPU's score is the
    median of its runs: the same real GPU for every class whose file has it. `class_of` maps profile or model to class; None for
    PAL's classes.
    """
    if seed < 0:
        raise OptionError("must be 0 or more.", field="--seed", value=seed, hint=f"--seed {SEED}")
    classes, scores, spread = _read(path, cluster.gpus if cluster is not None else None, seed, sampled)
    known = PAL_CLASSES if class_of is None else class_of
    if class_of is None:
        known = {model: name for model, name in known.items() if name in classes}
    return Variability(classes, scores, spread, known)


def describe_variability(
    path: Path | str, cluster: Cluster | None = None, seed: int = SEED, sampled: bool = True
) -> VariabilitySummary:
    """Summarise the variability of a file or folder by class."""
    found = read_variability(path, cluster, seed, sampled)
    drawn = has_runs(path)
    slow = found.outliers(OUTLIER)
    lines = []
    for row, name in enumerate(found.classes):
        scores, known = found.scores[row], found.uncertainty[row][found.uncertainty[row] > 0]
        values, counts = np.unique(found.bins()[row], return_counts=True)
        lines.append(
            ClassLine(
                name,
                found.gpus,
                float(scores.min()),
                float(np.median(scores)),
                float(scores.max()),
                float(np.median(known)) if len(known) else None,
                tuple(zip(values.tolist(), counts.tolist(), strict=True)),
                tuple((gpu, score) for gpu, each, score in slow if each == name),
            )
        )
    return VariabilitySummary(str(path), found.gpus, sampled if drawn else None, seed if drawn else None, tuple(lines))


def variability_files(path: Path | str) -> list[Path]:
    """Return every file that `read_variability` reads."""
    place = Path(path) / CLASS_FILES if input_is_folder(path) else Path(path)
    if not is_json(read_text(place, ProfileError)):
        return [place]
    named = (_resolved(place.parent, entry) for entry in read_tree(place, ProfileError).mapping().values())
    return [place, *dict.fromkeys(named)]


_Read = tuple[tuple[str, ...], Floats, Floats]


def has_runs(path: Path | str) -> bool:
    """Return whether a file or folder has runs of GPUs, from which scores are made, rather than scores."""
    if input_is_folder(path) or is_json(read_text(path, ProfileError)):
        return True
    return "perf" in read_table(path, ProfileError).columns


def _read(path: Path | str, gpus: int | None, seed: int, sampled: bool) -> _Read:
    place = Path(path)
    if input_is_folder(place):
        if not input_is_file(place / CLASS_FILES):
            problem = f"this folder has no {CLASS_FILES}."
            raise ProfileError(problem, where=str(path), hint='write one: {"A": "resnet.csv"}, or name one CSV file')
        place = place / CLASS_FILES
    if is_json(read_text(place, ProfileError)):
        files = _class_files(place)
        return (tuple(files), *_from_runs(list(files.values()), gpus, seed, sampled))
    table = read_table(place, ProfileError)
    if "perf" in table.columns:
        return (("A",), *_from_runs([_runs(table)], gpus, seed, sampled))
    if "gpu" in table.columns:
        return _own(table, gpus)
    if "gpu_id" in table.columns or "GPU_ID" in table.columns:
        return _wide(table, gpus)
    problem = f"is neither a table of runs nor one of scores; its columns: {shown(', '.join(table.columns))}."
    raise ProfileError(problem, where=table.where, line=table.header_line, field="header", hint=_EXAMPLE)


def _class_files(path: Path) -> dict[str, Runs]:
    read: dict[Path, Runs] = {}
    found: dict[str, Runs] = {}
    for name, entry in read_tree(path, ProfileError).mapping().items():
        short = _class_name(name)
        if not short or short in found:
            raise entry.wrong("is not the name of a class, or is given twice.", hint='such as "classA"')
        file = _resolved(path.parent, entry)
        if file not in read:
            read[file] = _runs(read_table(file, ProfileError))
        found[short] = read[file]
    if not found:
        raise ProfileError("names no classes.", where=str(path), hint='{"classA": "resnet.csv"}')
    return found


def _class_name(text: str) -> str:
    """Return `A` of `classA`."""
    return text.strip().removeprefix("class").strip()


def _resolved(folder: Path, entry: TreeEntry) -> Path:
    """Return the named file, or the file with the last parts of that path: published folders get moved."""
    parts = PurePosixPath(entry.text()).parts
    for start in range(len(parts)):
        if input_is_file(folder.joinpath(*parts[start:])):
            return folder.joinpath(*parts[start:])
    raise entry.wrong("there is no such file next to it.", hint=f"give a path relative to {folder}")


def _runs(table: FileTable) -> Runs:
    if "perf" not in table.columns:
        problem = "a table of runs needs this column."
        raise ProfileError(problem, where=table.where, line=table.header_line, field="perf", hint="uuid,perf")
    rows = list(table.rows())
    if not rows:
        raise ProfileError("a header, but no runs below it.", where=table.where, hint="add one line per run")
    times = [_positive(row, "perf") for row in rows]
    middle = float(np.median(times))
    relative = [time / middle for time in times]
    for row, time in zip(rows, relative, strict=True):
        if time > SLOWEST:
            raise row.wrong("perf", f"is {time:.0e} times the median of the file.", hint="all runs must be in one unit")
    by_gpu: dict[str, list[float]] = {}
    for gpu, time in zip(_gpu_names(table, rows), relative, strict=True):
        by_gpu.setdefault(gpu, []).append(time)
    by_gpu.pop("", None)
    return Runs(table.where, relative, {gpu: tuple(times) for gpu, times in sorted(by_gpu.items())})


def _gpu_names(table: FileTable, rows: Sequence[CsvRow]) -> list[str]:
    """Return the real GPU of each run. Locations identify it if every line has one, since files of one cluster name GPUs
    differently."""
    if {"cabinet", "node", "device"} <= set(table.columns):
        places = [[row.text(column) for column in ("cabinet", "node", "device")] for row in rows]
        if all(part and not part.startswith("-") for place in places for part in place):
            return ["-".join((cabinet, node.lstrip("0") or "0", device)) for cabinet, node, device in places]
    if "uuid" not in table.columns:
        return [""] * len(rows)
    for row in rows:
        if not row.text("uuid"):
            raise row.wrong("uuid", "is empty.", hint="name the GPU of every run")
    return [row.text("uuid") for row in rows]


def _from_runs(files: Sequence[Runs], gpus: int | None, seed: int, sampled: bool) -> tuple[Floats, Floats]:
    for file in files:
        if not file.by_gpu and (gpus is None or not sampled):
            problem = "does not name the GPU of each run."
            raise ProfileError(problem, where=file.where, field="uuid", hint="add the column uuid, or sample runs for a cluster")
    count = gpus if gpus is not None else len(files[0].by_gpu)
    draw = random.Random(seed)
    if sampled:
        scores = [[draw.choice(file.times) for file in files] for _ in range(count)]
        return np.array(scores).T, np.zeros((len(files), count))
    return _medians(files, count, draw)


def _medians(files: Sequence[Runs], count: int, draw: random.Random) -> tuple[Floats, Floats]:
    names = list(files[0].by_gpu)
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += draw.sample(names, len(names))
    # A class with the same file as another class shares its medians.
    once = {id(file): _gpu_medians(file) for file in files}
    known = [once[id(file)] for file in files]
    listed = [list(each) for each in known]
    scores, spread = np.empty((len(files), count)), np.empty((len(files), count))
    for gpu in range(count):
        held = [drawn[gpu]]
        for row, by_gpu in enumerate(known):
            real = next((each for each in held if each in by_gpu), None)
            if real is None:
                # This file does not have that GPU. Another GPU replaces it, the same one for all files that have the replacement.
                real = draw.choice(listed[row])
                held.append(real)
            scores[row, gpu], spread[row, gpu] = by_gpu[real]
    return scores, spread


def _gpu_medians(file: Runs) -> dict[str, tuple[float, float]]:
    noise = file.noise
    return {gpu: (float(np.median(times)), _median_spread(times, noise)) for gpu, times in file.by_gpu.items()}


def _deviation(times: Sequence[float]) -> float:
    """Return a robust standard deviation, relative to the median."""
    middle = np.median(times)
    return float(1.4826 * np.median(np.abs(np.asarray(times) - middle)) / middle)


def _median_spread(times: Sequence[float], noise: float) -> float:
    """Return the uncertainty of a GPU's median, assuming that no GPU is steadier than usual; 0 for a single run without other
    information."""
    usual = max(_deviation(times), noise)
    if len(times) == 1 and noise == 0:
        return 0.0
    # The median of n samples varies by 1.25 of their standard deviation over the root of n.
    return max(float(1.2533 * usual / np.sqrt(len(times))), MIN_SPREAD)


def _positive(row: CsvRow, column: str) -> float:
    value = row.number(column)
    if value == 0:
        raise row.wrong(column, "must be more than 0.", hint="take the row out if the run failed")
    return value


def _score(row: CsvRow, column: str) -> float:
    value = _positive(row, column)
    if value > SLOWEST:
        raise row.wrong(column, f"is more than {SLOWEST:.0e}.", hint="a score is relative: 1.0 is the median GPU")
    return value


def _own(table: FileTable, gpus: int | None) -> tuple[tuple[str, ...], Floats, Floats]:
    _check_header(table, lambda column: column in OWN, ("gpu", "class", "score"), OWN)
    found: dict[tuple[str, int], tuple[float, float]] = {}
    lines: dict[tuple[str, int], int] = {}
    for row in table.rows():
        name, gpu = _class_name(row.text("class")), _gpu(row, "gpu", gpus)
        if not name:
            raise row.wrong("class", "is empty.", hint="name the class, such as A")
        if (name, gpu) in found:
            raise row.wrong("gpu", f"its class {name} is already given on line {lines[name, gpu]}.", hint="keep one of the two")
        found[name, gpu] = (_score(row, "score"), row.number("spread") if row.text("spread") else 0.0)
        lines[name, gpu] = row.line
    classes = tuple(sorted({name for name, _ in found}))
    if not classes:
        raise ProfileError("a header, but no scores below it.", where=table.where, hint="add one line per GPU and class")
    count = gpus if gpus is not None else max(gpu for _, gpu in found) + 1
    scores, spread = np.ones((len(classes), count)), np.zeros((len(classes), count))
    for (name, gpu), (score, off) in found.items():
        scores[classes.index(name), gpu], spread[classes.index(name), gpu] = score, off
    return classes, scores, spread


def _wide(table: FileTable, gpus: int | None) -> tuple[tuple[str, ...], Floats, Floats]:
    """Read PAL's scores: a line for every GPU, a column for every class."""
    testbed = "GPU_ID" in table.columns
    prefix, number = ("PerfVar_class", "GPU_ID") if testbed else ("pm_class", "gpu_id")
    columns = [column for column in table.columns if column.startswith(prefix) and len(column) > len(prefix)]
    known = (lambda c: c in _TESTBED or c in columns) if testbed else (lambda c: bool(_WIDE.fullmatch(c)))
    _check_header(table, known, (number, *(columns or [f"{prefix}A"])), (number, f"{prefix}A"))
    found: dict[int, list[float]] = {}
    for row in table.rows():
        gpu = _gpu(row, number, gpus)
        if gpu in found:
            raise row.wrong(number, "is given twice.", hint="keep one of the two lines")
        found[gpu] = [_score(row, column) for column in columns]
    count = gpus if gpus is not None else max(found, default=-1) + 1
    missing = next((gpu for gpu in range(count) if gpu not in found), None)
    if missing is not None or not found:
        problem = f"has no line for GPU {missing or 0} of {max(count, 1):,}."
        raise ProfileError(problem, where=table.where, field=number, hint="a line for every GPU of the cluster, from 0")
    scores = np.array([found[gpu] for gpu in range(count)]).T
    return tuple(column.removeprefix(prefix) for column in columns), scores, np.zeros(scores.shape)


def _gpu(row: CsvRow, column: str, gpus: int | None) -> int:
    gpu = row.whole(column, least=0)
    if gpus is not None and gpu >= gpus:
        raise row.wrong(column, f"the cluster has GPUs 0 to {gpus - 1}.", hint="take the line out, or name a larger cluster")
    return gpu


def _check_header(table: FileTable, known: Callable[[str], bool], required: Sequence[str], usual: Sequence[str]) -> None:
    def wrong(problem: str, **more: Any) -> InputError:
        return ProfileError(problem, where=table.where, line=table.header_line, **more)

    for column in table.columns:
        if not known(column):
            problem = f"a table of scores has no such column.{closest(column, usual)} Usual: {', '.join(usual)}."
            raise wrong(problem, field="column", value=shown(column), hint="rename it, or take it out")
    for column in required:
        if column not in table.columns:
            raise wrong("a table of scores needs this column.", field=column, hint=_EXAMPLE)
