"""`rota wait`: wait until jobs have ended."""

import math
from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.errors import OptionError

OUT_OF_TIME = 124
"""Exit code of a time-out, as in `timeout` of the shell."""


def wait(
    jobs: flag.JobKeys,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", parser=flag.number("--timeout"), metavar="SECONDS", help="Longest wait, in seconds. Default: no limit."
        ),
    ] = None,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Wait until jobs have ended. Exit codes: 0 all finished, 1 a job failed or was cancelled, 124 the time limit was reached.

    Example: rota wait 412 413 --timeout 3600
    """
    shaped = flag.shape(output)
    if timeout is not None and not (timeout >= 0 and math.isfinite(timeout)):
        raise OptionError("must be 0 or more.", field="--timeout", value=timeout, hint="--timeout 3600")
    from rota.cli import job_text
    from rota.cli.why import sentence
    from rota.wire.client import connect

    client = connect(home)
    rows = {row.id: row for row in map(client.job, jobs)}
    for row in client.ends(rows, timeout):
        rows[row.id] = row
        if shaped in ("table", "wide"):
            job_text.say(sentence(row))
    job_text.data(shaped, rows.values())
    left = [job_text.title(row) for row in rows.values() if not row.ended]
    if left:
        typer.echo(f"Out of time. Not ended: {', '.join(left)}.", err=True)
        raise typer.Exit(OUT_OF_TIME)
    if any(row.phase != "finished" for row in rows.values()):
        raise typer.Exit(1)
