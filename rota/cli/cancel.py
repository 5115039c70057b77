"""`rota cancel`: stop jobs for good."""

from typing import TYPE_CHECKING

from rota.cli import options as flag

if TYPE_CHECKING:
    from rota.wire.rows import JobRow


def cancel(jobs: flag.JobKeys, home: flag.Home = None, output: flag.Output = "table") -> None:
    """Cancel jobs: a waiting one is gone at once, a running one is stopped. A name that several unfinished jobs have is refused.

    Example: rota cancel 412 vit-huge
    """
    shaped = flag.shape(output)
    from rota.cli import words
    from rota.wire.client import connect

    client = connect(home)
    # Every name is looked up before any job is cancelled: with one of them mistyped, nothing happens.
    before = list({row.id: row for row in (client.job(job, alone=True) for job in jobs)}.values())
    after = []
    for row in before:
        after.append(row if row.ended else client.cancel(row.id))
        if shaped in ("table", "wide"):
            words.say(_told(row, after[-1]))
    words.data(shaped, after)


def _told(before: "JobRow", after: "JobRow") -> str:
    from rota.cli import words

    if before.ended:
        return f"{words.title(before)} had already ended: {before.phase}."
    ran = "" if before.started_at else "; never ran"
    was = f"{words.phase(before)}, submitted {words.since(before.submitted_at)} ago{ran}"
    return f"{'Cancelled' if after.ended else 'Stopping'} {words.title(after)} ({was})."
