"""Rota's own table of rates: comma-separated UTF-8 text, a header, one measurement per line, columns in any order.

| column | what it is |
|---|---|
| `profile` | the key that jobs name in their spec |
| `accelerator` | accelerator type; upper or lower case |
| `gpus` | GPUs of the measurement, a whole number from 1; default 1 |
| `nodes` | nodes of these GPUs, a whole number from 1; default 1 |
| `colocated_with` | profile that shared these GPUs; may be left out or empty: none |
| `steps_per_second` | optimiser steps per second of the whole gang; 0: known not to run there |

A gang over several nodes has one rate, whether they are two or more. A pair takes two lines, one for each profile.

    profile,accelerator,gpus,nodes,colocated_with,steps_per_second
    resnet50,V100,1,1,,5.1
    resnet50,V100,4,1,,4.8
    resnet50,V100,4,2,,4.1
    resnet50,K80,1,1,,0
    resnet50,V100,1,1,lm,3.9
    lm,V100,1,1,resnet50,40.2
"""

from pathlib import Path

from rota.beliefs.rates import Key, Rates
from rota.errors import ProfileError
from rota.files.csv_table import CsvRow, read_table
from rota.model.cluster import ACCELERATOR, canonical
from rota.model.counted import counted

REQUIRED = ("profile", "accelerator", "steps_per_second")
COLUMNS = ("profile", "accelerator", "gpus", "nodes", "colocated_with", "steps_per_second")
OLD_COLUMNS = {"beside": "colocated_with"}
"""Old name -> name of today of a column."""

_EXAMPLE = "a header profile,accelerator,gpus,steps_per_second"


def read_rates(path: Path | str) -> Rates:
    """Read a table of rates. Profiles that it does not have keep the relative speeds of the accelerator types."""
    alone: dict[Key, float] = {}
    apart: dict[Key, float] = {}
    shared: dict[tuple[str, Key], float] = {}
    rows: dict[tuple[Key, bool, str], CsvRow] = {}
    source = read_table(path, ProfileError).folded(COLUMNS, OLD_COLUMNS)
    source.check_header("rates", COLUMNS, REQUIRED, _EXAMPLE)
    for row in source.rows():
        key, spans, colocated_with = (_profile(row), _accelerator(row), _gpus(row)), _spans(row), row.text("colocated_with")
        if (key, spans, colocated_with) in rows:
            line = rows[key, spans, colocated_with].line
            how = " over several nodes" if spans else f" colocated with {colocated_with}" if colocated_with else ""
            problem = f"{key[1]} on {counted(key[2], 'GPU')}{how} is already given on line {line}."
            raise row.wrong("profile", problem, hint="keep one of the two lines")
        rows[key, spans, colocated_with] = row
        rate = row.number("steps_per_second")
        if spans:
            apart[key] = _running(row, rate)
        elif colocated_with:
            shared[colocated_with, key] = rate
        else:
            alone[key] = rate
    if not alone and not apart:
        raise ProfileError("a header, but no rates below it.", where=str(path), hint="add one line per measurement")
    pairs = {}
    for (colocated_with, key), rate in shared.items():
        profile, accelerator, gpus = key
        other = shared.get((profile, (colocated_with, accelerator, gpus)))
        if other is None:
            row = rows[key, False, colocated_with]
            raise row.wrong(
                "colocated_with", f"the line for {colocated_with} next to {profile} is missing.", hint="a pair takes two lines"
            )
        pairs[profile, colocated_with, accelerator, gpus] = (rate, other)
    return Rates(alone, across_nodes=apart, pairs=pairs)


def _profile(row: CsvRow) -> str:
    if not row.text("profile"):
        raise row.wrong("profile", "is empty.", hint="name the profile as your jobs do")
    return row.text("profile")


def _accelerator(row: CsvRow) -> str:
    kind = canonical(row.text("accelerator"))
    if not ACCELERATOR.fullmatch(kind):
        raise row.wrong("accelerator", "is not an accelerator type.", hint="one type per line, such as V100")
    return kind


def _gpus(row: CsvRow) -> int:
    return row.whole("gpus", least=1) if row.text("gpus") else 1


def _spans(row: CsvRow) -> bool:
    """Return whether the GPUs of a row were on several nodes."""
    if not row.text("nodes"):
        return False
    nodes = row.whole("nodes", least=1)
    if nodes > _gpus(row):
        raise row.wrong("nodes", f"is more than the number of GPUs, {_gpus(row)}.", hint="every node has at least one of them")
    if nodes > 1 and row.text("colocated_with"):
        raise row.wrong("nodes", "profiles share GPUs of one node only.", hint="leave `colocated_with` empty, or give 1")
    return nodes > 1


def _running(row: CsvRow, rate: float) -> float:
    # A scheduler may spread any gang that runs at all, so the rate of a spread gang must be above 0.
    if rate == 0:
        raise row.wrong("steps_per_second", "must be more than 0 for a gang that spans nodes.", hint="leave the line out")
    return rate
