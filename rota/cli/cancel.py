"""`rota cancel`: stop jobs for good."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import options as flag
from rota.errors import OptionError

if TYPE_CHECKING:
    from rota.wire.client import Client
    from rota.wire.rows import JobRow

AT_ONCE = 8
"""Jobs that are cancelled at the same time: the scheduler writes down in one go what has come in by then."""


def cancel(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB...]", help="Ids or names.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every unfinished job of this scheduler.")] = False,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Cancel jobs: a waiting one is gone at once, a running one is stopped. A name that several unfinished jobs have is refused.

    Example: rota cancel 412 vit-huge
    """
    shaped = flag.shape(output)
    if bool(jobs) == everything:
        problem = "does not go with the names of jobs." if everything else "is missing: which jobs?"
        raise OptionError(problem, field="--all" if everything else "JOB", hint="rota cancel 412, or rota cancel --all")
    from rota.cli import words
    from rota.wire.client import connect

    client = connect(home)
    # Every name is looked up before any job is cancelled: with one of them mistyped, nothing happens.
    named = client.jobs() if everything else [client.job(job, alone=True) for job in jobs or ()]
    before = list({row.id: row for row in named}.values())
    after = []
    for row, now in zip(before, _cancelled(client, before), strict=True):
        after.append(now)
        if shaped in ("table", "wide"):
            words.say(_told(row, now))
    if not before and shaped in ("table", "wide"):
        words.say("No unfinished jobs.")
    words.data(shaped, after)


def _cancelled(client: "Client", rows: "Sequence[JobRow]") -> "Iterator[JobRow]":
    """Each as it is after it was told to end, in order."""
    if len(rows) == 1:  # nothing to wait for together
        yield rows[0] if rows[0].ended else client.cancel(rows[0].id)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(lambda row: row if row.ended else client.cancel(row.id), rows)


def _told(before: "JobRow", after: "JobRow") -> str:
    from rota.cli import words

    if before.ended:
        return f"{words.title(before)} had already ended: {before.phase}."
    ran = "" if before.started_at else "; never ran"
    was = f"{words.phase(before)}, submitted {words.since(before.submitted_at)} ago{ran}"
    return f"{'Cancelled' if after.ended else 'Stopping'} {words.title(after)} ({was})."
