"""`rota why`: explain why a job is not running."""

import json
from typing import TYPE_CHECKING

from rota.cli import common_flags as flag
from rota.model.counted import counted

if TYPE_CHECKING:
    from rota.wire.rows import JobRow, WhyRow

MAX_NAME_CHARS = 32
"""Maximum length of the name of a job ahead, on a terminal."""
MAX_AHEAD = 6
"""Maximum number of jobs ahead that are named."""


def why(job: flag.JobKey, home: flag.Home = None, output: flag.Output = "table") -> None:
    """Explain why a job is not running: every reason that holds, and the jobs ahead of it.

    Example: rota why 412
    """
    shaped = flag.shape(output)
    from rota.cli import job_text
    from rota.wire.client import connect

    found = connect(home).why(job)
    if shaped == "json":
        job_text.say(json.dumps(found.to_dict()))
    elif shaped == "csv":
        from rota.cli.output import say

        say("csv", rows=[{"code": each.code, "sentence": each.sentence} for each in found.reasons], heads=("code", "sentence"))
    else:
        _print_why(found)


def _print_why(found: "WhyRow") -> None:
    from rota.cli import job_text
    from rota.cli.screen import screen_columns, shortened, wrapped

    columns = screen_columns()

    def say(head: str, text: str) -> None:
        job_text.say("\n".join(wrapped(head, text, columns)))

    say("", sentence(found.job))
    sentences = [job_text.clean(each.sentence) for each in found.reasons]
    width = max(map(len, sentences), default=0)
    codes = [f"  [{each.code}]" for each in found.reasons]
    if columns is not None and width + max(map(len, codes), default=0) + 4 > columns:
        width = 0  # the codes are then not aligned
    for number, (text, code) in enumerate(zip(sentences, codes, strict=True), 1):
        say(f" {number}  ", f"{text:<{width}}{code}")
    if found.ahead:
        longest = MAX_NAME_CHARS if columns is not None else max(len(each.name) for each in found.ahead)
        named = [f"{each.id} {shortened(job_text.clean(each.name), longest)} ({job_text.user(each)})" for each in found.ahead]
        more = jobs_ahead(found) - len(named[:MAX_AHEAD])
        say(" Ahead of it   ", " · ".join(named[:MAX_AHEAD]) + (f" · and {more:,} more" if more else ""))
    if found.reasons and found.policy:
        say(" Policy        ", job_text.clean(found.policy))
    if found.last_change:
        say(" Last change   ", job_text.clean(job_text.with_clocks(found.last_change)))


def jobs_ahead(found: "WhyRow") -> int:
    """Return how many jobs are ahead. The rows have only the first of them."""
    listed = (each.facts.get("ahead") for each in found.reasons)
    return max([len(found.ahead), *(len(each) for each in listed if isinstance(each, list))])


def sentence(row: "JobRow") -> str:
    """Return the job's phase as a sentence, such as `Job 415 gpt-small is suspended (2 suspensions).`"""
    from rota.cli import job_text

    head = f"Job {job_text.title(row)}"
    if row.phase == "finished":
        return f"{head} has finished."
    if row.phase == "failed":
        return f"{head} has failed" + (f" ({said})." if (said := job_text.ended_with(row)) else ".")
    if row.phase == "cancelled":
        return f"{head} was cancelled."
    if row.phase == "queued":
        return f"{head} is queued (for {job_text.since(row.submitted_at)})."
    if row.phase in job_text.SUSPENDED:
        return f"{head} is suspended ({counted(row.suspensions, 'suspension')})."
    place = job_text.clean(job_text.holds(row))
    return f"{head} is {row.phase}" + (f" on {place}." if place else ".")
