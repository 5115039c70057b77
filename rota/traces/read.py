"""Reading a trace: which format it is, which rows are wanted, and the order they go in."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rota.errors import NameUnknown, TraceError
from rota.files.rows import Row, Table, closest, read_table, shown
from rota.model.job import Arrival
from rota.traces.format import Format
from rota.traces.philly import PHILLY
from rota.traces.rota_format import ROTA
from rota.traces.tiresias import TIRESIAS
from rota.traces.trace import Trace

FORMATS: Mapping[str, Format] = {known.name: known for known in (ROTA, PHILLY, TIRESIAS)}
NOT_YET = ("gavel", "helios", "pal", "pollux", "openb", "kalos")
"""Formats that people will ask for by name and that have no reader so far."""
AUTO = "auto"

_VALUES_SHOWN = 5


def read_trace(path: Path | str, *, format: str = AUTO, where: Sequence[tuple[str, str]] = ()) -> Trace:
    """Read a trace file.

    `where` keeps the rows whose columns hold exactly these values; rows it leaves out are not looked at further. `auto` goes
    by the header.
    """
    wanted = None if format == AUTO else _named(format)
    table = read_table(path, TraceError, instead="name a built-in trace: demo")
    if wanted is None:
        wanted = _detected(table)
    wanted.check_header(table)
    asked = _checked(table, where)
    arrivals: list[Arrival] = []
    lines: list[int] = []
    seen: dict[str, int] = {}
    # Rows are not kept: a large file is read in one pass over its lines.
    for row in table.rows():
        if not asked or all(row.cells[column] == value for column, value in asked):
            if wanted.unique:
                _check_unique(row, wanted.unique, seen)
            arrivals.append(wanted.arrival(row))
            lines.append(row.line)
    if not arrivals:
        raise _nothing_left(table, asked)
    if wanted.wall_clock:
        start_s = min(arrival.submitted_s for arrival in arrivals)
        arrivals = [Arrival(submitted_s - start_s, spec) for submitted_s, spec in arrivals]
    return Trace.of(Path(path).name, wanted.name, arrivals, lines=lines)


def check_format(name: str) -> None:
    """Raise unless `name` is `auto` or a format that can be read."""
    if name != AUTO:
        _named(name)


def _named(name: str) -> Format:
    if name in FORMATS:
        return FORMATS[name]
    if name in NOT_YET:
        raise TraceError(
            f"format {name!r} is not readable yet.",
            field="format",
            value=name,
            hint=f"convert it to one of {', '.join(FORMATS)}",
        )
    raise NameUnknown("trace format", shown(name), [AUTO, *FORMATS], hint="--format auto goes by the header")


def _detected(table: Table) -> Format:
    present = set(table.columns)
    fitting = [known for known in FORMATS.values() if present.issuperset(known.required)]
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
            hint=f"say which: --format {fitting[0].name}",
        )
    needs = "; ".join(f"{known.name} needs {', '.join(known.required)}" for known in FORMATS.values())
    nearest = max(FORMATS.values(), key=lambda known: len(present.intersection(known.required)) / len(known.required))
    raise TraceError(
        f"fits no format: {needs}.",
        where=table.where,
        line=table.header_line,
        field="header",
        value=header,
        hint=f"rename the columns, separated by commas, or see what is missing with --format {nearest.name}",
    )


def _checked(table: Table, where: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The filters, without blanks around their parts; each names a column of the file."""
    asked = [(column.strip(), value.strip()) for column, value in where]
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


def _nothing_left(table: Table, asked: Sequence[tuple[str, str]]) -> TraceError:
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


def _check_unique(row: Row, column: str, seen: dict[str, int]) -> None:
    value = row.text(column)
    if value and seen.setdefault(value, row.line) != row.line:
        raise row.wrong(column, f"is already used on line {seen[value]}.", hint=f"give every job its own {column}")
