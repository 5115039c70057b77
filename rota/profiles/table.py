"""Our own table of rates: comma-separated UTF-8 text, a header, one measurement per line, columns in any order.

| column | what it is |
|---|---|
| `profile` | the key that jobs name in their spec |
| `accelerator` | accelerator type; upper and lower case are one |
| `gpus` | GPUs it was measured on, a whole number from 1; may be left out: 1 |
| `steps_per_second` | optimiser steps per second of the whole gang; 0: known not to run there |

    profile,accelerator,gpus,steps_per_second
    resnet50,V100,1,5.1
    resnet50,V100,4,18.7
    resnet50,K80,1,0
"""

import re
from pathlib import Path

from rota.beliefs.rates import Rates
from rota.errors import ProfileError
from rota.files.rows import Row, Table, closest, read_table, shown
from rota.model.cluster import canonical

REQUIRED = ("profile", "accelerator", "steps_per_second")
COLUMNS = ("profile", "accelerator", "gpus", "steps_per_second")

_EXAMPLE = f"a header {','.join(COLUMNS)}"
_TYPE = re.compile(r"[\w.-]+")
"""The names a cluster can be described with."""


def read_rates(path: Path | str) -> Rates:
    """Read a table of rates; what it does not list keeps the relative speeds of the accelerator types."""
    rates: dict[tuple[str, str, int], float] = {}
    lines: dict[tuple[str, str, int], int] = {}
    table = read_table(path, ProfileError)
    _check_header(table)
    for row in table.rows():
        key = (_profile(row), _accelerator(row), _gpus(row))
        if key in rates:
            raise row.wrong(
                "profile", f"{key[1]} on {key[2]} GPUs is already given on line {lines[key]}.", hint="keep one of the two lines"
            )
        rates[key], lines[key] = row.number("steps_per_second"), row.line
    if not rates:
        raise ProfileError("a header, but no rates below it.", where=str(path), hint="add one line per measurement")
    return Rates(rates)


def _profile(row: Row) -> str:
    if not row.text("profile"):
        raise row.wrong("profile", "is empty.", hint="name the profile as your jobs do")
    return row.text("profile")


def _accelerator(row: Row) -> str:
    kind = canonical(row.text("accelerator"))
    if not _TYPE.fullmatch(kind):
        raise row.wrong("accelerator", "is no accelerator type.", hint="one type per line, such as V100")
    return kind


def _gpus(row: Row) -> int:
    return row.whole("gpus", least=1) if row.text("gpus") else 1


def _check_header(table: Table) -> None:
    for column in table.columns:
        if column not in COLUMNS:
            raise ProfileError(
                f"a table of rates has no such column.{closest(column, COLUMNS)} All: {', '.join(COLUMNS)}.",
                where=table.where,
                line=table.header_line,
                field="column",
                value=shown(column),
                hint="rename it, or take it out",
            )
    for column in REQUIRED:
        if column not in table.columns:
            raise ProfileError(
                "a table of rates needs this column.", where=table.where, line=table.header_line, field=column, hint=_EXAMPLE
            )
