"""`rota change`: change the values of a job that has not ended."""

from typing import Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.errors import OptionError

NONE = "none"
"""Value that removes a limit or a deadline."""


def change(
    job: flag.JobKey,
    name: Annotated[str | None, typer.Option("--name", help="Job name.")] = None,
    priority: Annotated[
        int | None,
        typer.Option("--priority", parser=flag.number("--priority", whole=True), metavar="N", help="Priority, -1000 to 1000."),
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option("--weight", parser=flag.number("--weight"), metavar="W", help="Weight under fair policies."),
    ] = None,
    max_run_time: Annotated[
        str | None, typer.Option("--max-run-time", metavar="TIME", help="Longest run time, such as 24h; none for no limit.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="DATE", help="Deadline, such as 2030-12-01T09:00; none for no deadline.")
    ] = None,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Change values of a queued, suspended or running job. The other values stay.

    Example: rota change 412 --priority 10
    """
    shaped = flag.shape(output)
    given: dict[str, Any] = {"name": name, "priority": priority, "weight": weight}
    values = {field: value for field, value in given.items() if value is not None}
    values |= {field: None if text == NONE else text for field, text in _texts(max_run_time, deadline)}
    if not values:
        raise OptionError("is missing: what changes?", field="rota change", hint=f"rota change {job} --priority 10")
    from rota.cli import job_text
    from rota.wire.client import connect

    row = connect(home).change(job, **values)
    if not job_text.data(shaped, [row], single=True):
        changed = ", ".join(f"{field} {NONE if value is None else value}" for field, value in values.items())
        job_text.say(f"Changed {job_text.title(row)}: {job_text.clean(changed)}.")


def _texts(max_run_time: str | None, deadline: str | None) -> list[tuple[str, str]]:
    given = (("max_run_time", max_run_time), ("deadline", deadline))
    return [(field, text) for field, text in given if text is not None]
