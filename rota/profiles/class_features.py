"""Use of a GPU by profiles, and the application classes that follow from it: comma-separated UTF-8 text, a header, one profile
per line, columns in any order.

| column | what it is |
|---|---|
| `profile` | the key that jobs name in their spec |
| `compute` | how busy the compute pipes are, in percent of the peak, from 0 to 100 |
| `dram` | how much of the memory bandwidth is used, in percent of the peak, from 0 to 100 |

    profile,compute,dram
    resnet50,71,48
    bert,52,39
    pagerank,6,88
"""

from dataclasses import dataclass
from pathlib import Path

from rota.beliefs.application_classes import Features, classify
from rota.errors import ProfileError
from rota.files.csv_table import CsvRow, read_table

COLUMNS = ("profile", "compute", "dram")


@dataclass(frozen=True, slots=True)
class ClassOf:
    """A class, its centre and its profiles."""

    name: str
    compute: float
    dram: float
    profiles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassesReport:
    """The classes of a file, the most compute-bound first."""

    path: str
    quality: float
    """Silhouette of the classes."""
    classes: tuple[ClassOf, ...]


def read_features(path: Path | str) -> dict[str, Features]:
    """Return profile -> compute and DRAM, in percent of the peak."""
    table = read_table(path, ProfileError)
    table.check_header("utilization", COLUMNS, COLUMNS, "a header profile,compute,dram")
    found: dict[str, Features] = {}
    lines: dict[str, int] = {}
    for row in table.rows():
        profile = row.text("profile")
        if not profile:
            raise row.wrong("profile", "is empty.", hint="name the profile as your jobs do")
        if profile in found:
            raise row.wrong("profile", f"is already given on line {lines[profile]}.", hint="keep one of the two lines")
        found[profile] = (_percent(row, "compute"), _percent(row, "dram"))
        lines[profile] = row.line
    if not found:
        raise ProfileError("a header, but no profiles below it.", where=table.where, hint="add one line per profile")
    return found


def describe_classes(path: Path | str) -> ClassesReport:
    """Return the classes of the profiles in a file."""
    found = classify(read_features(path))
    lines = [
        ClassOf(name, float(centre[0]), float(centre[1]), tuple(each for each, its in found.names.items() if its == name))
        for name, centre in zip(found.classes, found.centres, strict=True)
    ]
    return ClassesReport(str(path), found.quality, tuple(lines))


def _percent(row: CsvRow, column: str) -> float:
    value = row.number(column)
    if value > 100:
        raise row.wrong(column, "is more than 100.", hint="percent of the peak, from 0 to 100")
    return value
