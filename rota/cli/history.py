"""`rota history`: show what happened to a job."""

import json
from typing import TYPE_CHECKING, Any

from rota.cli import common_flags as flag

if TYPE_CHECKING:
    from rota.wire.rows import EventRow

_WIDE = ("ATTEMPT", "BY", "GPU-HOURS", "WORK", "LOST")
HOUR_SECONDS = 3600.0


def history(job: flag.JobKey, home: flag.Home = None, output: flag.Output = "table") -> None:
    """Show the events of a job: what happened, when, who asked for it, and why.

    Example: rota history 412
    """
    shaped = flag.shape(output)
    from rota.cli import job_text
    from rota.cli.offline import connect_or_read

    rows = connect_or_read(home).events(job)
    if shaped == "json":
        job_text.say(json.dumps([row.to_dict() for row in rows]))
    elif shaped == "csv":
        from dataclasses import fields

        from rota.cli.output import say
        from rota.wire.rows import EventRow

        say("csv", rows=[_flat(row) for row in rows], heads=[each.name for each in fields(EventRow)])
    elif shaped == "wide":
        from rota.cli.screen import aligned

        cells = [("TIME", *_WIDE, "EVENT"), *(_wide(row) for row in rows)]
        job_text.say("\n".join(aligned(cells)))
    else:
        for line in event_lines(rows):
            job_text.say(line)


def event_lines(rows: "list[EventRow]") -> list[str]:
    """Return a line for each event, wrapped to the terminal."""
    from rota.cli import job_text
    from rota.cli.screen import screen_columns, wrapped

    columns = screen_columns()
    return [line for row in rows for line in wrapped(f"{job_text.clock(row.at)}  ", job_text.clean(row.text), columns)]


def _flat(row: "EventRow") -> dict[str, Any]:
    return {name: "/".join(map(str, value)) if isinstance(value, list) else value for name, value in row.to_dict().items()}


def _wide(row: "EventRow") -> tuple[str, ...]:
    from rota.cli import job_text

    return (
        job_text.clock(row.at),
        "-" if row.attempt is None else str(row.attempt),
        job_text.clean(row.by) or "-",
        f"{row.gpu_seconds / HOUR_SECONDS:.3g}" if row.gpu_seconds else "-",
        f"{row.work_seconds / HOUR_SECONDS:.3g}" if row.work_seconds else "-",
        job_text.length(row.lost_seconds) if row.lost_seconds else "-",
        job_text.clean(row.text),
    )
