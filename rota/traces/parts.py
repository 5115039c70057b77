"""Cells that several formats have in common."""

import re
from datetime import datetime

from rota.files.csv_table import CsvRow
from rota.model.cluster import ACCELERATOR, canonical

NO_GPU = "requests no GPU"
"""Reason for skipping jobs that run on CPUs alone."""

NO_TIME = "ran for no time"
"""Reason for skipping jobs that never ran."""

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)
_ORIGIN = datetime(2000, 1, 1)
"""Any fixed date: times are counted from the first arrival."""


def filled(row: CsvRow, column: str) -> str:
    """Return a text that must not be empty."""
    cell = row.text(column)
    if not cell:
        raise row.wrong(column, "is empty.", hint=f"give every job its {column}")
    return cell


def instant(row: CsvRow, column: str) -> float:
    """Return local time without a zone, `YYYY-MM-DD HH:MM:SS`, as seconds since a fixed date."""
    cell = row.cells[column]
    # fromisoformat alone would also accept week dates and zones.
    if _TIMESTAMP.fullmatch(cell):
        try:
            return (datetime.fromisoformat(cell) - _ORIGIN).total_seconds()
        except ValueError as error:
            raise row.wrong(column, f"is not a date: {error}.", hint="write it like 2017-10-09 07:01:55") from None
    raise row.wrong(column, "is not YYYY-MM-DD HH:MM:SS.", hint="write it like 2017-10-09 07:01:55")


def accelerators(row: CsvRow, column: str) -> tuple[str, ...]:
    """Return accelerator types separated by bars, each once; empty if the cell is empty, which means any."""
    cell = row.text(column)
    if not cell:
        return ()
    types = [canonical(part) for part in cell.split("|")]
    for kind in types:
        if not ACCELERATOR.fullmatch(kind):
            raise row.wrong(column, f"{kind!r} is not an accelerator type.", hint="separate types with a bar: A100|V100")
    return tuple(dict.fromkeys(types))


def weight(row: CsvRow, column: str) -> float:
    """Return a weight above 0; 1 if the cell is empty."""
    if not row.text(column):
        return 1.0
    value = row.number(column)
    if value == 0:
        raise row.wrong(column, "must be more than 0.", hint="a job with half the share of others has weight 0.5")
    return value
