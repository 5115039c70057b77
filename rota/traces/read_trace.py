"""Reading a trace: its format, the wanted rows, and their order."""

import contextlib
import gc
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rota.errors import TraceError, UnknownNameError
from rota.files.csv_table import CsvRow, FileTable, Lines, closest, lines_in, read_lines, shown
from rota.files.text import decoded
from rota.model.job import Arrival
from rota.traces.format import Format
from rota.traces.gavel_format import GAVEL
from rota.traces.helios import HELIOS
from rota.traces.kalos import KALOS
from rota.traces.kueue import KUEUE
from rota.traces.openb import OPENB
from rota.traces.pal_format import PAL
from rota.traces.philly import PHILLY
from rota.traces.pollux import POLLUX
from rota.traces.rota_format import ROTA
from rota.traces.sacct import SACCT
from rota.traces.tiresias_format import TIRESIAS
from rota.traces.trace import SkippedRow, Trace

FORMATS: Mapping[str, Format] = {
    known.name: known for known in (ROTA, GAVEL, PHILLY, HELIOS, TIRESIAS, PAL, POLLUX, OPENB, KALOS, SACCT, KUEUE)
}
AUTO = "auto"
STDIN, STDIN_NAME = "-", "standard input"
"""The path that means standard input, and the name of a trace from there."""

_VALUES_SHOWN = 5


def read_trace(path: Path | str, *, format: str | Format = AUTO, where: Sequence[tuple[str, str]] = ()) -> Trace:
    """Read a trace file; `-` is standard input. Names of columns may be in upper or lower case.

    `where` keeps the rows whose columns have exactly these values; other rows are not checked further. With `auto` the header
    decides the format, or the first line of a file without a header.
    """
    wanted = format if isinstance(format, Format) else None if format == AUTO else _named(format)
    file = _standard_input() if str(path) == STDIN else read_lines(path, TraceError, instead="name a built-in trace: demo")
    if wanted is None:
        wanted = _detected(file)
    table = wanted.table(file)
    asked = _checked(table, where)
    arrivals: list[Arrival] = []
    lines: list[int] = []
    skipped: list[SkippedRow] = []
    remarks: Counter[str] = Counter()
    seen: dict[str, int] = {}
    arrival_of, remarks_of, unique = wanted.arrival, wanted.remarks, wanted.unique
    # Rows are not kept, so a large file is read in one pass over its lines.
    with _without_collection():
        for row in table.rows():
            if not asked or all(row.cells[column] == value for column, value in asked):
                if unique:
                    _check_unique(row, unique, seen)
                found = arrival_of(row)
                if isinstance(found, SkippedRow):
                    skipped.append(found)
                    continue
                if remarks_of:
                    remarks.update(remarks_of(row))
                arrivals.append(found)
                lines.append(row.line)
        if wanted.wall_clock and arrivals:
            start_s = min(arrival.submitted_s for arrival in arrivals)
            arrivals = [Arrival(submitted_s - start_s, spec) for submitted_s, spec in arrivals]
    if not arrivals:
        raise _nothing_left(table, asked, skipped)
    notes = [f"{jobs:,} {'job' if jobs == 1 else 'jobs'} {remark}" for remark, jobs in remarks.items()]
    return Trace.of(
        STDIN_NAME if str(path) == STDIN else Path(path).name, wanted.name, arrivals, lines=lines, skipped=skipped, notes=notes
    )


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Pause garbage collection, because each collection would look at all jobs read by then, and none is garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _standard_input() -> Lines:
    """Return the content of standard input. It can be read only once, so it is kept for later calls."""
    if sys.stdin.isatty():
        raise TraceError("standard input is a terminal.", field="trace", value=STDIN, hint="cat jobs.csv | rota sim --trace -")
    if not _READ:
        _READ.append(sys.stdin.buffer.read())
    return lines_in(decoded(_READ[0], STDIN_NAME, TraceError), STDIN_NAME, TraceError)


_READ: list[bytes] = []


def check_format(name: str) -> None:
    """Raise UnknownNameError unless `name` is `auto` or a known format."""
    if name != AUTO:
        _named(name)


def _named(name: str) -> Format:
    if name in FORMATS:
        return FORMATS[name]
    raise UnknownNameError("trace format", shown(name), [AUTO, *FORMATS], hint="--format auto finds the format by the header")


def _detected(file: Lines) -> Format:
    for known in FORMATS.values():
        if known.recognises is not None and known.recognises(file):
            return known
    headless = [known for known in FORMATS.values() if known.layouts]
    for known in headless:
        if known.reads_first(file):
            return known
    table = file.with_header()
    present = set(table.folded().columns)
    headed = [known for known in FORMATS.values() if not known.layouts and known.recognises is None]
    fitting = [known for known in headed if present.issuperset(known.required)]
    if len(fitting) == 1:
        return fitting[0]
    header = shown(",".join(table.columns))
    if fitting:
        names = ", ".join(known.name for known in fitting)
        raise TraceError(
            f"fits more than one format: {names}.",
            where=table.where,
            line=table.header_line,
            field="header",
            value=header,
            hint=f"name one: --format {fitting[0].name}",
        )
    nearest = next((known for known in headless if known.layout(file)), None)
    if nearest is None:
        nearest = max(headed, key=lambda known: len(present.intersection(known.required)) / len(known.required))
    needs = f", which needs {', '.join(nearest.required)}" if nearest.required else ", without a header"
    raise TraceError(
        f"fits no format. Nearest: {nearest.name}{needs}. All: {', '.join(FORMATS)}.",
        where=table.where,
        line=table.header_line,
        field="header",
        value=header,
        hint=f"rename the columns, separated by commas, or see what is missing with --format {nearest.name}",
    )


def _checked(table: FileTable, where: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the filters without surrounding blanks. Raise TraceError if one names a column that the file does not have."""
    asked = [(column.strip(), value.strip()) for column, value in where]
    lower = {column.lower(): column for column in table.columns}
    asked = [(column if column in table.columns else lower.get(column.lower(), column), value) for column, value in asked]
    for column, _ in asked:
        if column not in table.columns:
            raise TraceError(
                f"the file has no such column.{closest(column, table.columns)} All: {shown(', '.join(table.columns))}.",
                where=table.where,
                line=table.header_line,
                field="where",
                value=shown(column),
                hint="filter by a column of the file, as COLUMN=VALUE",
            )
    return asked


def _nothing_left(table: FileTable, asked: Sequence[tuple[str, str]], skipped: Sequence[SkippedRow]) -> TraceError:
    if skipped:
        reasons = "; ".join(f"{why}: {rows:,}" for why, rows in Counter(each.why for each in skipped).most_common())
        return TraceError(f"every row is left out ({reasons}).", where=table.where, hint="use a trace of jobs that ran on GPUs")
    rows = list(table.rows())
    if not rows:
        return TraceError(
            "a header, but no jobs below it.", where=table.where, line=table.header_line, hint="add one line per job"
        )
    for column, value in asked:
        values = list(dict.fromkeys(row.cells[column] for row in rows))
        if value not in values:
            some = ", ".join(repr(shown(each)) for each in values[:_VALUES_SHOWN])
            more = f" and {len(values) - _VALUES_SHOWN:,} more" if len(values) > _VALUES_SHOWN else ""
            return TraceError(
                f"no row has this value.{closest(value, values)} There are {some}{more}.",
                where=table.where,
                field=shown(column),
                value=shown(value),
                hint="take a value that exists; upper and lower case count",
            )
    filters = shown(", ".join(f"{column}={value}" for column, value in asked))
    return TraceError(
        "no row meets all of these at once.", where=table.where, field="where", value=filters, hint="leave one of the filters out"
    )


def _check_unique(row: CsvRow, column: str, seen: dict[str, int]) -> None:
    value = row.text(column)
    if value and seen.setdefault(value, row.line) != row.line:
        raise row.wrong(column, f"is already used on line {seen[value]}.", hint=f"give every job its own {column}")
