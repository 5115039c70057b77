"""`rota requeue`: let running jobs wait for GPUs again, and submit ended jobs again."""

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli import job_requests as option

if TYPE_CHECKING:
    from rota.wire.rows import RequestRow


def requeue(
    jobs: flag.JobKeys,
    lose_work: option.LoseWork = False,
    max_run_time: Annotated[
        str | None, typer.Option("--max-run-time", metavar="TIME", help="Longest run time, such as 24h. Default: as before.")
    ] = None,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Save and stop running jobs, which then wait for GPUs again. Ended jobs are submitted again as new jobs.

    Example: rota requeue 412
    """
    shaped = flag.shape(output)
    details = {"lose_work": lose_work, "max_run_time": max_run_time}
    option.carry_out("requeue", jobs, {}, yes=True, shaped=shaped, home=home, sentence=_sentence, details=details)


def _sentence(each: "RequestRow") -> str:
    from rota.cli import job_text

    title, was = job_text.title(each.job), option.before(each)
    if was.ended:
        return f"Job {each.job.id}  {job_text.clean(each.job.name)}   job {each.requested} again, which was {was.phase}"
    if not each.changed:
        return f"{title} waits for GPUs already."
    return f"Requeueing {title} ({option.where_it_was(each)})."
