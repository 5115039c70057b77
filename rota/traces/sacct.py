"""The accounting of a Slurm cluster, as `sacct --parsable2` prints it: a header, and one job per line with bars between cells.

    sacct --allusers --starttime 2026-01-01 --parsable2 \\
        --format JobID,JobName,User,Account,State,Submit,ElapsedRaw,ReqTRES,AllocTRES > site.txt

GPUs are those of `AllocTRES`, or of `ReqTRES` where nothing was allocated: `gres/gpu=4`. A type that the job asked for
(`gres/gpu:a100=4` in `ReqTRES`) becomes its accelerator type. `Account` becomes the tenant. The run time is `ElapsedRaw`, in
seconds, or `Elapsed`, as `[DAYS-]HH:MM:SS`; a job has one step per second of it, and no profile. Skipped: steps of jobs (`412.0`,
`412.batch`), jobs without GPUs, and jobs that had not ended or did not run.
"""

import re
from datetime import UTC, datetime

from rota.errors import TraceError
from rota.files.csv_table import CsvRow, FileTable, Lines, closest
from rota.model.cluster import ACCELERATOR, canonical
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format
from rota.traces.parts import NO_GPU, NO_TIME, filled
from rota.traces.trace import SkippedRow

SEPARATOR = "|"
_REQUIRED = ("jobid", "submit")
_ONE_OF = (("elapsedraw", "elapsed"), ("alloctres", "reqtres"))
_UNFINISHED = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING")
"""States in which the time is not the whole run time."""
_ELAPSED = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,4}):)?(\d{1,4}):(\d{1,4})(?:\.\d+)?", re.ASCII)
_GPUS = re.compile(r"gres/gpu(?::([^=,]+))?=(\d{1,6})", re.ASCII)
_EXAMPLE = "sacct --parsable2 --format JobID,JobName,User,Account,State,Submit,ElapsedRaw,ReqTRES,AllocTRES"


def arrival(row: CsvRow) -> Arrival | SkippedRow:
    number = filled(row, "jobid")
    if "." in number:
        return SkippedRow(row.line, "is a step of a job")
    if row.text("state").partition(" ")[0].upper() in _UNFINISHED:
        return SkippedRow(row.line, "had not ended")
    gpus = _gpus(row, "alloctres") or _gpus(row, "reqtres")
    if not gpus:
        return SkippedRow(row.line, NO_GPU)
    seconds = _seconds(row)
    if not seconds:
        return SkippedRow(row.line, NO_TIME)
    spec = JobSpec(
        name=row.text("jobname") or f"slurm-{number}",
        gpus=gpus,
        steps=seconds,
        accelerators=_types(row),
        tenant=row.text("account"),
        user=row.text("user"),
    )
    return Arrival(_instant(row), spec)


def _gpus(row: CsvRow, column: str) -> int:
    """Return the number of GPUs in a cell like `cpu=8,gres/gpu=4,gres/gpu:a100=4`, where typed counts are parts of the total."""
    found = _GPUS.findall(row.text(column))
    if row.text(column) and "gres/gpu" in row.text(column) and not found:
        raise row.wrong(column, "has no number of GPUs.", hint="gres/gpu=4, as sacct writes it")
    whole = [int(count) for kind, count in found if not kind]
    return whole[0] if whole else sum(int(count) for _, count in found)


def _types(row: CsvRow) -> tuple[str, ...]:
    asked = [canonical(kind) for kind, count in _GPUS.findall(row.text("reqtres")) if kind and int(count)]
    return tuple(dict.fromkeys(kind for kind in asked if ACCELERATOR.fullmatch(kind)))


def _seconds(row: CsvRow) -> float:
    if "elapsedraw" in row.cells:
        return row.number("elapsedraw")
    found = _ELAPSED.fullmatch(row.text("elapsed"))
    if found is None:
        raise row.wrong("elapsed", "is not [DAYS-]HH:MM:SS.", hint="write it like 1-02:30:00, or use ElapsedRaw")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _instant(row: CsvRow) -> float:
    cell = row.text("submit")
    if cell.isascii() and cell.isdigit():  # SLURM_TIME_FORMAT=%s
        return row.number("submit")
    try:
        found = datetime.strptime(cell, "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        raise row.wrong("submit", "is not YYYY-MM-DDTHH:MM:SS.", hint="write it like 2026-01-05T09:00:00") from None
    return found.replace(tzinfo=UTC).timestamp()


def _is_sacct(file: Lines) -> bool:
    cells = [cell.strip().lower() for cell in file.lines[file.first_line - 1].split(SEPARATOR)]
    return len(cells) > 1 and "jobid" in cells


def _table(file: Lines) -> FileTable:
    table = file.with_separator(SEPARATOR).folded()
    groups = [*((name,) for name in _REQUIRED), *_ONE_OF]
    for group in groups:
        if not set(group) & set(table.columns):
            raise TraceError(
                f"the sacct format needs this column{' or ' + group[1] if len(group) > 1 else ''}."
                f"{closest(group[0], table.columns)}",
                where=table.where,
                line=table.header_line,
                field=group[0],
                hint=_EXAMPLE,
            )
    return table


SACCT = Format("sacct", arrival, wall_clock=True, parse=_table, recognises=_is_sacct)
