"""Tasks of a new array, as requests for the next turn."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from rota.errors import SpecError
from rota.live.dependencies import MAX_WAITS
from rota.live.queued_requests import NewArray, NewJob
from rota.wire.submission import Submission


def new_array(first: NewJob, tasks: Sequence[Submission]) -> NewArray:
    """Return the request for these tasks. `first`: the request for the first one, which has been checked; the others differ only
    in their names and variables. Raise SpecError if they wait for too many jobs."""
    waits = sum(each.jobs for each in first.after)
    if len(tasks) * waits > MAX_WAITS:
        problem = f"are {waits:,} jobs for each of {len(tasks):,} tasks; together at most {MAX_WAITS:,}."
        raise SpecError(problem, field="after", hint="a job that waits for the first array, and for which the second one waits")
    found = [
        replace(first, sent=each, wanted=replace(first.wanted, name=each.spec.name or ""), done=Future[int]()) for each in tasks
    ]
    return NewArray(found, Future())
