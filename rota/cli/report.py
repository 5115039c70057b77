"""`rota report`: show who used how much of the cluster, how long jobs waited, and how much work was lost."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import common_flags as flag
from rota.errors import OptionError
from rota.wire.job_filter import whole_days

if TYPE_CHECKING:
    from rota.wire.rows import UsageGroupRow, UsageReportRow

GROUPS = ("user", "tenant", "type", "day")
HOUR_SECONDS = 3600.0
_HEADS = ("JOBS", "FINISHED", "FAILED", "CANCELLED", "GPU-HOURS", "WORK", "WAIT", "JCT", "PREEMPTED", "LOST", "GPUS BUSY")
_WIDE = ("ATTEMPTS", "LOST TO FAILURES")
_RECLAIMS = ("RECLAIMS", "RECLAIM P99")
_RECLAIM_FIELDS = ("reclaims", "reclaim_seconds_p99")
"""Fields about GPUs that tenants got back; left out if none did."""


def report(
    last: Annotated[str, typer.Option("--last", metavar="DAYS", help="Number of days in UTC, today included.")] = "7d",
    by: Annotated[str, typer.Option("--by", metavar="WHAT", help="Group by user, tenant, type or day.")] = "user",
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Show GPU-hours, normalised work, waiting times, preemptions and lost work.

    Example: rota report --last 30d --by tenant
    """
    shaped = flag.shape(output)
    if by not in GROUPS:
        raise OptionError("is not a group.", field="--by", value=by, hint=f"--by {', '.join(GROUPS)}")
    wanted = whole_days(last, "--last", "7d, or --last 4w")
    from rota.cli import job_text
    from rota.cli.offline import connect_or_read

    found = connect_or_read(home).report(by, wanted)
    if shaped == "json":
        job_text.say(json.dumps(found.to_dict()))
    elif shaped == "csv":
        from dataclasses import fields

        from rota.cli.output import say
        from rota.wire.rows import UsageGroupRow

        gone = () if found.total.reclaims else _RECLAIM_FIELDS
        names = [each.name for each in fields(UsageGroupRow) if each.name not in gone]
        plain = [each.to_dict() for each in found.groups]
        rows = [{by if name == "name" else name: each[name] for name in names} for each in plain]
        say("csv", rows=rows, heads=[by, *names[1:]])
    else:
        job_text.say("\n".join(_table(found, wide=shaped == "wide")))


def _table(found: "UsageReportRow", *, wide: bool) -> list[str]:
    from rota.cli import job_text
    from rota.cli.screen import aligned

    total, reclaims = found.total, bool(found.total.reclaims)
    heads = (found.by.upper(), *_HEADS, *(_WIDE if wide else ()), *(_RECLAIMS if reclaims else ()))
    named = [(each.name or "-", each) for each in found.groups]
    lines = [heads, *(_cells(each, name, wide, reclaims) for name, each in (*named, ("total", total)))]
    note = "RECLAIM P99: time from arrival to start of jobs on GPUs that their tenant had lent, of which 1% took longer."
    return [
        *aligned(lines),
        *([note] if reclaims else ()),
        f"From {job_text.clock(found.since)} to {job_text.clock(found.until)}. Preemption destroyed "
        f"{job_text.length(total.preempted_seconds)} of work.",
    ]


def _cells(row: "UsageGroupRow", name: str, wide: bool, reclaims: bool) -> tuple[str, ...]:
    from rota.cli import job_text

    cells = (
        job_text.clean(name),
        f"{row.submitted:,}",
        f"{row.finished:,}",
        f"{row.failed:,}",
        f"{row.cancelled:,}",
        f"{row.gpu_seconds / HOUR_SECONDS:,.2f}",
        f"{row.work_seconds / HOUR_SECONDS:,.2f}",
        "-" if row.mean_wait_seconds is None else job_text.length(row.mean_wait_seconds),
        "-" if row.mean_jct_seconds is None else job_text.length(row.mean_jct_seconds),
        f"{row.preemptions:,}",
        job_text.length(row.preempted_seconds),
        f"{row.gpus_busy:.2f}",
    )
    more = (f"{row.attempts:,}", job_text.length(row.broken_seconds)) if wide else ()
    seconds = row.reclaim_seconds_p99
    back = (f"{row.reclaims or 0:,}", "-" if seconds is None else f"{seconds:.1f} s") if reclaims else ()
    return (*cells, *more, *back)
