"""Writing a trace in Rota's own format, such that reading it gives the same arrivals back."""

import csv
import io
from dataclasses import fields
from pathlib import Path

from rota.errors import TraceError
from rota.files.csv_table import MAX_CELL_CHARS, CsvRow
from rota.files.text import defused
from rota.model.job import Arrival
from rota.traces.rota_format import ROTA, arrival, cells
from rota.traces.trace import Trace

_ALWAYS = ("submit_time", "gpus", "duration", "steps", "name")


def write_trace(trace: Trace, path: Path | str) -> None:
    """Write the arrivals of a trace. Raise TraceError, before anything is written, if the format cannot hold a job."""
    where = str(path)
    if not trace.arrivals:
        raise TraceError(
            f"the trace {trace.name!r} has no jobs to write.", where=where, hint="write a trace with at least one job"
        )
    if trace.searches:
        raise TraceError(
            f"the trace {trace.name!r} has searches, which stop jobs while they run. A file cannot hold them.",
            where=where,
            hint="leave feedback_steps out",
        )
    work = "steps" if any(each.spec.profile or each.spec.epoch_steps for each in trace.arrivals) else "duration"
    rows = [cells(each, work) for each in trace.arrivals]
    columns = [column for column in rows[0] if column in _ALWAYS or any(row[column] for row in rows)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for line, (each, row) in enumerate(zip(trace.arrivals, rows, strict=True), 2):
        _check(each, CsvRow(where, line, row, TraceError))
        writer.writerow([defused(row[column]) for column in columns])
    try:
        Path(path).write_bytes(text.getvalue().encode())
    except FileNotFoundError:
        folder = Path(path).parent
        raise TraceError(f"the folder {folder} does not exist.", where=where, hint=f"mkdir -p {folder}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"cannot be written: {why}.", where=where, hint="check the folder and its permissions") from None


def _check(given: Arrival, row: CsvRow) -> None:
    """Raise TraceError if a job would read back as a different one."""
    for column, cell in row.cells.items():
        if len(cell) > MAX_CELL_CHARS or any(sign in cell for sign in "\n\r\0") or not _encodable(cell):
            raise row.wrong(column, f"the {ROTA.name} format cannot hold this text.", hint="use one short line of plain text")
    read = arrival(row._replace(cells={column: cell.strip() for column, cell in row.cells.items()}))
    for field in fields(given.spec):
        want, got = getattr(given.spec, field.name), getattr(read.spec, field.name)
        if want != got:
            raise TraceError(
                f"the {ROTA.name} format cannot hold this; it would be read as {got!r}.",
                where=row.where,
                line=row.line,
                field=field.name,
                value=want,
                hint="change the job, or keep the trace in the format it came in",
            )


def _encodable(cell: str) -> bool:
    try:
        cell.encode()
    except UnicodeEncodeError:
        return False
    return True
