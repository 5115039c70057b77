"""Options, questions and output of the commands that change submitted jobs: cancel, hold, release, suspend, resume, requeue."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import completers
from rota.errors import OptionError
from rota.model.counted import counted

if TYPE_CHECKING:
    from rota.wire.client import Client
    from rota.wire.rows import JobRow, RequestRow

Jobs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[JOB...]", help="Job ids or names.", show_default=False, autocompletion=completers.jobs),
]
User = Annotated[str | None, typer.Option("--user", metavar="USER", help="All unfinished jobs of this user.")]
Name = Annotated[str | None, typer.Option("--name", metavar="PATTERN", help="All unfinished jobs with such a name: 'sweep-*'.")]
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="TENANT", help="All unfinished jobs of this tenant.")]
Phase = Annotated[str | None, typer.Option("--phase", metavar="PHASE", help="All unfinished jobs in this phase.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, with --user, --name, --tenant or --phase.")]
LoseWork = Annotated[bool, typer.Option("--lose-work", help="Also stop jobs that are not known to save, which lose their work.")]


def pattern_of(user: str | None, name: str | None, tenant: str | None, phase: str | None) -> dict[str, str]:
    """Return the pattern that the flags give; empty if they give none."""
    given = {"user": user, "name": name, "tenant": tenant, "phase": phase}
    for field, value in given.items():
        if value is not None and not value.strip():
            raise OptionError("is empty.", field=f"--{field}", hint=f"leave --{field} out")
    if phase is not None:
        from rota.cli.job_text import PHASES, SUSPENDED

        known = [each for each in PHASES if each not in ("finished", "failed", "cancelled")]
        if phase not in (*known, *SUSPENDED, "resizing"):
            raise OptionError(f"is not a phase of an unfinished job. All: {', '.join(known)}.", field="--phase", value=phase)
    return {field: value for field, value in given.items() if value is not None}


def check_selection(verb: str, jobs: list[str] | None, pattern: Mapping[str, str]) -> None:
    """Raise OptionError unless the jobs are given in exactly one way."""
    if bool(jobs) == bool(pattern):
        flags = "does not go with --user, --name, --tenant or --phase." if jobs else "is missing: which jobs?"
        raise OptionError(flags, field="JOB", hint=f"rota {verb} 412, or rota {verb} --name 'sweep-*'")


def carry_out(
    verb: str,
    jobs: list[str] | None,
    pattern: Mapping[str, str],
    *,
    yes: bool,
    shaped: str,
    home: str | None,
    sentence: Callable[["RequestRow"], str],
    details: Mapping[str, Any] | None = None,
) -> None:
    """Send the request, after a question if a pattern selects the jobs, and print what it changed."""
    from rota.cli import job_text
    from rota.wire.client import connect

    check_selection(verb, jobs, pattern)
    client = connect(home)
    if pattern and not yes and not agreed(client, verb, pattern):
        return
    found = client.request(verb, jobs or (), matching=pattern or None, **(details or {}))
    if not job_text.data(shaped, [each.job for each in found]):
        job_text.say("\n".join(sentence(each) for each in found) or "No such jobs.")


def agreed(client: "Client", verb: str, pattern: Mapping[str, str]) -> bool:
    """Show how many jobs a pattern selects, and ask. Without a terminal, refuse."""
    from rota.cli import job_text

    found = client.request(verb, matching=pattern, dry_run=True)
    if not found:
        return True
    shown = ", ".join(job_text.title(each.job) for each in found[:5]) + (", ..." if len(found) > 5 else "")
    if not sys.stdin.isatty():
        hint = "the same command with --yes"
        raise OptionError(f"selects {counted(len(found), 'job')}: {job_text.clean(shown)}.", field=f"rota {verb}", hint=hint)
    sys.stderr.write(f"{counted(len(found), 'job')}: {job_text.clean(shown)}\n")
    return typer.confirm(f"{verb.capitalize()} {'it' if len(found) == 1 else 'them'}?", default=False, err=True)


def before(each: "RequestRow") -> "JobRow":
    """Return the row with the phase before the request."""
    return replace(each.job, phase=each.was)


def where_it_was(each: "RequestRow") -> str:
    """Return the phase before the request and the time since the submission, for parentheses."""
    from rota.cli import job_text

    row = before(each)
    ran = "" if row.started_at else "; never ran"
    return f"{job_text.phase(row)}, submitted {job_text.since(row.submitted_at)} ago{ran}"
