"""`rota cancel`: cancel jobs."""

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli import job_requests as option
from rota.errors import OptionError

if TYPE_CHECKING:
    from rota.wire.rows import RequestRow


def cancel(
    jobs: option.Jobs = None,
    everything: Annotated[bool, typer.Option("--all", help="Cancel every unfinished job of this scheduler.")] = False,
    user: option.User = None,
    name: option.Name = None,
    tenant: option.Tenant = None,
    phase: option.Phase = None,
    yes: option.Yes = False,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Cancel jobs. Waiting jobs end at once, running jobs are stopped. A name that several unfinished jobs share is refused.

    Example: rota cancel 412 vit-huge
    """
    shaped, pattern = flag.shape(output), option.pattern_of(user, name, tenant, phase)
    if pattern and not everything:
        option.carry_out("cancel", jobs, pattern, yes=yes, shaped=shaped, home=home, sentence=_sentence)
        return
    if bool(jobs) == everything or pattern:
        problem = "does not go with other jobs." if everything else "is missing: which jobs?"
        raise OptionError(problem, field="--all" if everything else "JOB", hint="rota cancel 412, or rota cancel --all")
    from rota.cli import job_text
    from rota.wire.client import connect

    # Every name is looked up before any job is cancelled, so a mistyped name cancels nothing.
    client = connect(home)
    keys: list[int | str] = [row.id for row in client.jobs()] if everything else [*(jobs or ())]
    found = client.cancel_many(keys) if keys else []
    if not job_text.data(shaped, [each.job for each in found]):
        job_text.say("\n".join(_sentence(each) for each in found) or "No unfinished jobs.")


def _sentence(each: "RequestRow") -> str:
    from rota.cli import job_text

    was = option.before(each)
    if was.ended:
        return f"{job_text.title(was)} had already ended: {was.phase}."
    return f"{'Cancelled' if each.job.ended else 'Stopping'} {job_text.title(each.job)} ({option.where_it_was(each)})."
