"""Any CSV file with a header as a trace: `--columns` says which column has what.

    rota trace convert site.csv mine.csv --columns submit=Submitted,user=Owner,gpus=GPUs,seconds=Runtime

| name | what the column has |
|---|---|
| `submit` | time of submission: seconds, or a date like `2026-01-05 09:00:00`; or instead of it |
| `interval` | seconds since the submission of the job on the line before |
| `gpus` | GPUs; jobs with 0 are skipped |
| `seconds` | run time in seconds; jobs with 0 are skipped; or instead of it |
| `start`, `end` | start and end of the run: seconds, or dates |
| `user`, `tenant`, `name` | text |
| `accelerator` | accelerator types that the job accepts, separated by bars |

Times are counted from the first job. A job has one step per second of its run time, and no profile.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from rota.errors import OptionError
from rota.files.csv_table import DATE, CsvRow, closest, shown
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format
from rota.traces.parts import NO_GPU, NO_TIME, accelerators
from rota.traces.trace import SkippedRow

NAMES = ("submit", "interval", "gpus", "seconds", "start", "end", "user", "tenant", "name", "accelerator")
FLAG = "--columns"
_EXAMPLE = f"{FLAG} submit=Submitted,user=Owner,gpus=GPUs,seconds=Runtime"


def read_columns(text: str, *, filtered: bool = False) -> dict[str, str]:
    """Return a mapping from names of ours to columns of the file, from a text like `submit=Submitted,gpus=GPUs`. Raise
    OptionError if a name is unknown or given twice, or if too few are given. `filtered`: whether rows are left out."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, column = (each.strip() for each in part.partition("="))
        if not equals or not column:
            raise OptionError("is not NAME=COLUMN.", field=FLAG, value=shown(part), hint=_EXAMPLE)
        if name not in NAMES:
            problem = f"{name!r} is not a name.{closest(name, NAMES)} All: {', '.join(NAMES)}."
            raise OptionError(problem, field=FLAG, value=shown(part), hint=_EXAMPLE)
        if name in found:
            raise OptionError(f"{name} is given twice.", field=FLAG, value=shown(text), hint=_EXAMPLE)
        found[name] = column
    for group in (("gpus",), ("submit", "interval")):
        if len(set(group) & set(found)) != 1:
            raise OptionError(
                f"needs {' or '.join(group)}{' and not both' if len(group) > 1 else ''}.", field=FLAG, hint=_EXAMPLE
            )
    if ("seconds" in found) == bool({"start", "end"} & set(found)) or len({"start", "end"} & set(found)) == 1:
        raise OptionError("needs seconds, or both start and end.", field=FLAG, hint=_EXAMPLE)
    if filtered and "interval" in found:
        raise OptionError("interval needs every line.", field=FLAG, value=shown(text), hint="convert the whole file first")
    return found


def mapped_format(columns: Mapping[str, str]) -> Format:
    """Return the format of a file with these columns. A format reads one file."""
    return Format("columns", _reader(columns), required=tuple(dict.fromkeys(columns.values())), folds=False, wall_clock=True)


def _reader(columns: Mapping[str, str]) -> Callable[[CsvRow], Arrival | SkippedRow]:
    clock_s = 0.0

    def arrival(row: CsvRow) -> Arrival | SkippedRow:
        nonlocal clock_s
        if "interval" in columns:
            clock_s += row.number(columns["interval"])
        submitted_s = clock_s if "interval" in columns else _instant(row, columns["submit"])
        gpus = row.whole(columns["gpus"], least=0)
        if not gpus:
            return SkippedRow(row.line, NO_GPU)
        seconds = _seconds(row, columns)
        if not seconds:
            return SkippedRow(row.line, NO_TIME)
        spec = JobSpec(
            name=_text(row, columns, "name") or f"line-{row.line}",
            gpus=gpus,
            steps=seconds,
            user=_text(row, columns, "user"),
            tenant=_text(row, columns, "tenant"),
            accelerators=accelerators(row, columns["accelerator"]) if "accelerator" in columns else (),
        )
        return Arrival(submitted_s, spec)

    return arrival


def _text(row: CsvRow, columns: Mapping[str, str], name: str) -> str:
    return row.text(columns[name]) if name in columns else ""


def _seconds(row: CsvRow, columns: Mapping[str, str]) -> float:
    if "seconds" in columns:
        return row.number(columns["seconds"])
    seconds = _instant(row, columns["end"]) - _instant(row, columns["start"])
    if seconds < 0:
        raise row.wrong(columns["end"], "is before the start of the job.", hint="check which column is the start")
    return seconds


def _instant(row: CsvRow, column: str) -> float:
    """Return seconds, or a date with or without a zone, which is UTC if there is none."""
    cell = row.text(column)
    if not DATE.match(cell):
        return row.number(column)
    try:
        found = datetime.fromisoformat(cell)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise row.wrong(column, "is not a date.", hint="write it like 2026-01-05 09:00:00") from None
