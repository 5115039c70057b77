"""`rota cancel`: cancel jobs."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli import completers
from rota.errors import OptionError

if TYPE_CHECKING:
    from rota.wire.rows import CancelRow


def cancel(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOB...]", help="Job ids or names.", show_default=False, autocompletion=completers.jobs),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Cancel every unfinished job of this scheduler.")] = False,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Cancel jobs. Waiting jobs end at once, running jobs are stopped. A name that several unfinished jobs share is refused.

    Example: rota cancel 412 vit-huge
    """
    shaped = flag.shape(output)
    if bool(jobs) == everything:
        problem = "does not go with the names of jobs." if everything else "is missing: which jobs?"
        raise OptionError(problem, field="--all" if everything else "JOB", hint="rota cancel 412, or rota cancel --all")
    from rota.cli import job_text
    from rota.wire.client import connect

    # Every name is looked up before any job is cancelled, so a mistyped name cancels nothing.
    client = connect(home)
    keys: list[int | str] = [row.id for row in client.jobs()] if everything else [*(jobs or ())]
    found = client.cancel_many(keys) if keys else []
    if not job_text.data(shaped, [each.job for each in found]):
        job_text.say("\n".join(_format_change(each) for each in found) or "No unfinished jobs.")


def _format_change(each: "CancelRow") -> str:
    from rota.cli import job_text

    before = replace(each.job, phase=each.was)
    if before.ended:
        return f"{job_text.title(before)} had already ended: {before.phase}."
    ran = "" if before.started_at else "; never ran"
    was = f"{job_text.phase(before)}, submitted {job_text.since(before.submitted_at)} ago{ran}"
    return f"{'Cancelled' if each.job.ended else 'Stopping'} {job_text.title(each.job)} ({was})."
