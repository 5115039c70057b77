"""`rota jobs`: list the jobs of a scheduler. A library for tables would take longer to load than all the rest."""

import shutil
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.cli.screen import fitted, screen_columns, shortened, widths_of
from rota.errors import OptionError
from rota.model.counted import counted

if TYPE_CHECKING:
    from rota.live.home_on_disk import HomeOnDisk
    from rota.wire.client import Client
    from rota.wire.rows import JobRow, StatusRow

REDRAW_SECONDS = 0.5
"""Minimum interval between two redraws, in seconds."""
SHOWN_JOBS = 50
"""Default of --limit for tables."""
LOOK_SECONDS = 10.0
"""Maximum interval between two redraws, so that displayed times advance, in seconds."""

_COLOURS = {"running": "32", "starting": "32", "suspended": "33", "failed": "31", "unreachable": "31", "queued": "2"}
_HEADS = ("ID", "NAME", "USER", "PHASE", "TIME", "GPUS", "PROGRESS", "ETA", "NOTE")
MAX_NAME_CHARS = 32
"""Maximum length of a job's name in the table. -o wide shows whole names."""
_MIN_WIDTHS = {"NAME": 12, "NOTE": 8}
"""Column that shrinks on a narrow terminal -> its minimum width, in the order in which columns shrink."""
_WIDE = ("WEIGHT", "TENANT", "SUBMITTED", "STARTED", "ENDED", "SUSPENSIONS", "LOST WORK", "LOST STEPS", "COMMAND")
_PHASE = _HEADS.index("PHASE")


def jobs(
    everything: Annotated[bool, typer.Option("--all", help="List jobs that have ended too.")] = False,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="List only jobs of this user; `me` for yours.")
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option("--phase", metavar="PHASE", help="List only jobs in this phase: queued, running, suspended, failed, ..."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="List only jobs submitted since: 2h, 3d or 2026-12-01T09:00.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            parser=flag.number("--limit", whole=True),
            metavar="N",
            help=f"Maximum number of jobs; 0 for all. Default: {SHOWN_JOBS} in a table, else all.",
        ),
    ] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="List each task of an array.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Update the table on every change, until Ctrl-C.")] = False,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """List the jobs: jobs with GPUs first, then waiting jobs, then ended jobs. A job array is one line.

    Example: rota jobs --watch
    """
    shaped = flag.shape(output)
    if watch and shaped == "csv":
        raise OptionError("does not go with -o csv.", field="--watch", hint="-o json, which writes a line for every change")
    from rota.cli import job_text
    from rota.cli.offline import connect_or_read
    from rota.wire.client import connect, user_name
    from rota.wire.rows import ENDED

    if phase is not None and phase not in job_text.PHASES:
        raise OptionError("is not a phase.", field="--phase", value=phase, hint=f"--phase {', '.join(job_text.PHASES)}")
    if limit is not None and limit < 0:
        raise OptionError("is below 0.", field="--limit", value=limit, hint=f"--limit {SHOWN_JOBS}, or --limit 0 for all")
    wanted = {
        "everything": everything or phase in ENDED,
        "user": user_name() if user == "me" else user or "",
        "phase": phase or "",
        "since_s": 0.0 if since is None else job_text.moment(since),
        "tasks": tasks,
    }
    if not watch:
        _show(connect_or_read(home), shaped, wanted, limit)
        return
    client = connect(home)
    try:
        _watch(client, shaped, wanted, limit)
    except KeyboardInterrupt:  # how users end --watch
        sys.stdout.write("\n" * sys.stdout.isatty())


def _watch(client: "Client", shaped: str, wanted: dict[str, Any], limit: int | None) -> None:
    seen = client.changes(0, 0.0)
    while True:
        _show(client, shaped, wanted, limit, redraw=True)
        time.sleep(REDRAW_SECONDS)
        seen = client.changes(seen, LOOK_SECONDS)


def _show(source: "Client | HomeOnDisk", shaped: str, wanted: dict[str, Any], limit: int | None, *, redraw: bool = False) -> None:
    from rota.cli import job_text
    from rota.wire.client import Client

    if shaped in ("json", "csv"):
        job_text.data(shaped, source.jobs(**wanted) if not limit else _jobs(source, wanted, limit)[0])
        return
    status = source.status() if isinstance(source, Client) else None
    notes = _notes(status) if status is not None else []
    most, on_screen = SHOWN_JOBS if limit is None else limit, redraw and sys.stdout.isatty()
    height = shutil.get_terminal_size().lines
    columns = screen_columns()
    if on_screen:  # the heads, the footer and the notes must fit too
        most = min(most or height, max(1, height - 3 - len(notes)))
    rows, total = _jobs(source, wanted, most)
    lines = (
        table(rows, wide=shaped == "wide", colour=job_text.colourful(), ended=wanted["everything"], columns=columns)
        if rows
        else []
    )
    lines += [footer(len(rows), total, wanted["everything"], status), *notes]
    if on_screen:
        # Overwriting line by line from the top, then clearing the rest, does not flicker.
        job_text.say("\x1b[H" + "".join(f"{cut(line, columns or 80)}\x1b[K\n" for line in lines[: height - 1]) + "\x1b[J", end="")
    else:
        job_text.say("\n".join(lines))


def _notes(status: "StatusRow") -> list[str]:
    """Return the lines below the table about what needs attention."""
    from rota.cli import job_text

    lines = [f"The policy failed: {job_text.clean(status.policy_error)}"] if status.policy_error else []
    lines += [job_text.clean(line) for line in status.slow_gpus]
    if status.disk_problem:
        lines.append(f"Attention: {job_text.clean(status.disk_problem)}")
    return lines


def _jobs(source: "Client | HomeOnDisk", wanted: dict[str, Any], limit: int) -> "tuple[list[JobRow], int]":
    """Return at most `limit` jobs (0 for all), and how many there are."""
    from rota.wire.client import Client
    from rota.wire.job_filter import MAX_JOBS

    if not isinstance(source, Client):
        every = source.jobs(**wanted)
        return every[: limit or None], len(every)
    found = source.page(**wanted, limit=min(limit or MAX_JOBS, MAX_JOBS))
    rows = found.jobs
    while (not limit or len(rows) < limit) and len(rows) < found.total:
        more = source.page(**wanted, skip=len(rows), limit=min(limit - len(rows) if limit else MAX_JOBS, MAX_JOBS)).jobs
        if not more:
            break
        rows = rows + more
    return rows, max(found.total, len(rows))


def table(rows: "list[JobRow]", *, wide: bool, colour: bool, ended: bool = False, columns: int | None = None) -> list[str]:
    """Return the lines of the table. `ended` adds a column with the time of each job's end. `columns` is the terminal's width;
    None if standard output is not a terminal."""
    from rota.cli import job_text

    heads: tuple[str, ...] = (*_HEADS, *_WIDE) if wide else _HEADS
    cells = [_cells(row, wide) for row in rows]
    if ended and not wide:  # the wide table has this column
        at = heads.index("TIME") + 1
        heads = (*heads[:at], "ENDED", *heads[at:])
        when = [job_text.clock(row.finished_at) if row.finished_at else "-" for row in rows]
        cells = [(*line[:at], each, *line[at:]) for line, each in zip(cells, when, strict=True)]
    if not wide:
        heads, *cells = _fitted([heads, *cells], columns)
    widths = widths_of([heads, *cells])
    lines = [_line(heads, widths, "1" if colour else "")]
    for line in cells:
        lines.append(_line(line, widths, "", _COLOURS.get(line[_PHASE], "") if colour else ""))
    return lines


def _fitted(cells: list[tuple[str, ...]], columns: int | None) -> list[tuple[str, ...]]:
    """Fit the table to a narrow terminal: drop the progress bars first, then shorten names and notes."""
    heads = cells[0]
    at = heads.index("PROGRESS")
    least = {heads.index(name): width for name, width in _MIN_WIDTHS.items()}
    if columns is None or fitted(cells, columns, least) == cells:
        return cells
    return fitted([(*row[:at], row[at].lstrip("▇▁ "), *row[at + 1 :]) for row in cells], columns, least)


def _line(cells: tuple[str, ...], widths: list[int], whole: str, phase: str = "") -> str:
    padded = [
        cell.rjust(width) if i == 0 else cell.ljust(width) for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    padded[-1] = padded[-1].rstrip()
    if phase:
        padded[_PHASE] = f"\x1b[{phase}m{padded[_PHASE]}\x1b[0m"
    line = "  ".join(padded).rstrip()
    return f"\x1b[{whole}m{line}\x1b[0m" if whole else line


def _cells(row: "JobRow", wide: bool) -> tuple[str, ...]:
    from rota.cli import job_text

    place = job_text.holds(row) or (f"wants {_short(row)}" if row.phase == "queued" else "-")
    usual = (
        str(row.id),
        job_text.clean(row.name) if wide else shortened(job_text.clean(row.name), MAX_NAME_CHARS),
        job_text.user(row),
        job_text.phase(row),
        job_text.time_of(row),
        job_text.clean(place),
        job_text.progress(row),
        job_text.eta(row),
        job_text.note(row),
    )
    if not wide:
        return usual
    return (
        *usual,
        f"{row.weight:g}",
        job_text.clean(row.tenant) or "-",
        job_text.clock(row.submitted_at),
        job_text.clock(row.started_at) if row.started_at else "-",
        job_text.clock(row.finished_at) if row.finished_at else "-",
        str(row.suspensions),
        job_text.length(row.lost_seconds) if row.lost_seconds else "-",
        f"{row.lost_steps:,.0f}",
        job_text.clean(row.command) or "-",
    )


def _short(row: "JobRow") -> str:
    return f"{row.gpus:g}x{'/'.join(row.accepted_accelerators)}" if row.accepted_accelerators else f"{row.gpus:g}"


def footer(shown: int, total: int, everything: bool, status: "StatusRow | None") -> str:
    """Return the line below the table. `status` is None if the scheduler is not running."""
    what = counted(total, "job") if total else "No jobs" if everything else "No unfinished jobs"
    if shown < total:
        what = f"showing {shown:,} of {what} (--limit 0 shows all)"
    if status is None:
        return f"{what} · read from disk, without the scheduler"
    kind = "pretend GPUs" if status.pretend else "GPUs"
    return f"{what} · {status.gpus_busy}/{status.gpus} {kind} busy · policy {status.policy}"


def cut(line: str, columns: int) -> str:
    """Cut the line to the terminal's width. Colour codes take no room."""
    shown, i = 0, 0
    while i < len(line):
        if line[i] == "\x1b":
            i = line.index("m", i) + 1
            continue
        if shown == columns:
            return line[:i] + "\x1b[0m" * ("\x1b" in line)
        shown, i = shown + 1, i + 1
    return line
