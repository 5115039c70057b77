"""`rota cancel`: stop jobs for good."""

from dataclasses import replace
from typing import TYPE_CHECKING

from rota.cli import options as flag

if TYPE_CHECKING:
    from rota.wire.rows import CancelRow


def cancel(jobs: flag.JobKeys, home: flag.Home = None, output: flag.Output = "table") -> None:
    """Cancel jobs: a waiting one is gone at once, a running one is stopped. A name that several unfinished jobs have is refused.

    Example: rota cancel 412 vit-huge
    """
    shaped = flag.shape(output)
    from rota.cli import words
    from rota.wire.client import connect

    # Every name is looked up before any job is cancelled: with one of them mistyped, nothing happens.
    found = connect(home).cancel_many(jobs)
    if not words.data(shaped, [each.job for each in found]):
        words.say("\n".join(_told(each) for each in found))


def _told(each: "CancelRow") -> str:
    from rota.cli import words

    before = replace(each.job, phase=each.was)
    if before.ended:
        return f"{words.title(before)} had already ended: {before.phase}."
    ran = "" if before.started_at else "; never ran"
    was = f"{words.phase(before)}, submitted {words.since(before.submitted_at)} ago{ran}"
    return f"{'Cancelled' if each.job.ended else 'Stopping'} {words.title(each.job)} ({was})."
