"""`rota export`: write the jobs of the last days as CSV or JSON, or as a trace that a simulation can run."""

import time
from pathlib import Path
from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.errors import OptionError
from rota.model.counted import counted

DAY_SECONDS = 86_400


def export(
    last: Annotated[
        str, typer.Option("--last", metavar="DAYS", help="Jobs submitted in this many days in UTC, today included.")
    ] = "30d",
    trace: Annotated[
        str | None, typer.Option("--trace", metavar="FILE", help="Write a trace in Rota's own format to this file instead.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    home: flag.Home = None,
    output: Annotated[str, typer.Option("-o", "--output", help="Output format: csv or json.")] = "csv",
) -> None:
    """Write jobs with their users, tenants, times, GPU-hours and work; with --trace, as a trace for rota sim.

    Example: rota export --last 30d --trace march.csv
    """
    if output not in ("csv", "json"):
        raise OptionError("is not a format of an export.", field="-o", value=output, hint="-o csv, or -o json")
    from rota.cli import job_text
    from rota.cli.offline import connect_or_read
    from rota.wire.job_filter import whole_days

    days = whole_days(last, "--last", "30d, or --last 4w")
    if trace is not None and Path(trace).exists() and not force:
        raise OptionError("the file exists.", field="--trace", value=trace, hint="another name, or --force")
    today = int(time.time() // DAY_SECONDS)
    rows = connect_or_read(home).jobs(True, since_s=float((today - days + 1) * DAY_SECONDS), tasks=True)
    if trace is None:
        job_text.data(output, rows)
        return
    from rota.cli.output import say
    from rota.compose.trace_of_jobs import trace_of_jobs
    from rota.traces.write_trace import write_trace

    found = trace_of_jobs(rows, f"the jobs of the last {counted(days, 'day')}")
    write_trace(found, trace)
    written = {"path": trace, "jobs": len(found), "skipped": len(found.skipped)}
    say(output, value=written if output == "json" else None, rows=[written])
