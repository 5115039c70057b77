"""Parts of a row that several formats have in common."""

import re
from datetime import datetime

from rota.files.csv_table import CsvRow
from rota.model.cluster import ACCELERATOR, canonical

NO_GPU = "asks for no GPU"
"""Why jobs that run on CPUs alone are skipped."""

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)
_ORIGIN = datetime(2000, 1, 1)
"""Any fixed date: the reader counts from the first arrival."""


def filled(row: CsvRow, column: str) -> str:
    """A text that must not be empty."""
    cell = row.text(column)
    if not cell:
        raise row.wrong(column, "is empty.", hint=f"give every job its {column}")
    return cell


def instant(row: CsvRow, column: str) -> float:
    """Local time without a zone, `YYYY-MM-DD HH:MM:SS`, as seconds since a fixed date."""
    cell = row.cells[column]
    # fromisoformat alone would also take week dates and zones.
    if _TIMESTAMP.fullmatch(cell):
        try:
            return (datetime.fromisoformat(cell) - _ORIGIN).total_seconds()
        except ValueError as error:
            raise row.wrong(column, f"is no date: {error}.", hint="write it like 2017-10-09 07:01:55") from None
    raise row.wrong(column, "is not YYYY-MM-DD HH:MM:SS.", hint="write it like 2017-10-09 07:01:55")


def accelerators(row: CsvRow, column: str) -> tuple[str, ...]:
    """Accelerator types with bars between them, each once; empty: any."""
    cell = row.text(column)
    if not cell:
        return ()
    types = [canonical(part) for part in cell.split("|")]
    for kind in types:
        if not ACCELERATOR.fullmatch(kind):
            raise row.wrong(column, f"{kind!r} is no accelerator type.", hint="separate types with a bar: A100|V100")
    return tuple(dict.fromkeys(types))


def weight(row: CsvRow, column: str) -> float:
    """More than 0; 1 where nothing is said."""
    if not row.text(column):
        return 1.0
    value = row.number(column)
    if value == 0:
        raise row.wrong(column, "must be more than 0.", hint="a job with half the share of others has weight 0.5")
    return value
