"""Drains, maintenance windows and reservations as text."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rota.cli import job_text

if TYPE_CHECKING:
    from rota.wire.rows import DrainRow

_HEADS = ("ID", "WHAT", "FOR", "FROM", "UNTIL", "BY", "REASON", "JOBS")


def print_drains(shaped: str, rows: "Sequence[DrainRow]") -> None:
    if shaped in ("json", "csv"):
        print_data(shaped, rows)
        return
    from rota.cli.screen import aligned

    if not rows:
        job_text.say("Nothing is drained or reserved.")
        return
    cells = [_HEADS]
    for row in rows:
        jobs = ", ".join(map(str, (*row.leaving, *row.staying))) or "-"
        start = "now" if row.begun else job_text.clock(row.from_at)
        end = "-" if row.until_at is None else job_text.clock(row.until_at)
        by, why = job_text.clean(row.by) or "-", job_text.clean(row.reason) or "-"
        cells.append((str(row.id), what(row), owners(row) or "-", start, end, by, why, jobs))
    for line in aligned(cells):
        job_text.say(line)


def print_data(shaped: str, rows: "Sequence[DrainRow]", *, single: bool = False) -> None:
    plain = [row.to_dict() for row in rows]
    if shaped == "json":
        job_text.say(json.dumps(plain[0] if single else plain))
        return
    from rota.cli.output import say

    several = ("places", "leaving", "staying", "tenants", "users")
    flat = [{**row, **{name: "; ".join(map(str, row[name])) for name in several}} for row in plain]
    heads = ("id", "places", "reason", "by", "from_at", "until_at", "begun", *several[1:])
    say(shaped, rows=flat, heads=heads)


def what(row: "DrainRow") -> str:
    return ", ".join(map(job_text.clean, row.places))


def owners(row: "DrainRow") -> str:
    """Return for whom GPUs are reserved, such as `tenant vision and user ana`; empty if they are drained."""
    named = [f"tenant {job_text.clean(each)}" for each in row.tenants] + [f"user {job_text.clean(each)}" for each in row.users]
    return " and ".join(named)


def because(row: "DrainRow") -> str:
    """Return by whom, why and until when, such as `by ana until 2026-11-20 18:00:00: new disks`; it may be empty."""
    who = f" by {job_text.clean(row.by)}" if row.by else ""
    end = f" until {job_text.clock(row.until_at)}" if row.until_at else ""
    why = f": {job_text.clean(row.reason)}" if row.reason else ""
    return f"{who}{end}{why}"


def remaining(row: "DrainRow") -> str:
    """Return which jobs are still there, and what becomes of them."""
    if row.empty:
        return "No job is there."
    move = f"{_jobs(row.leaving)} {'move' if len(row.leaving) > 1 else 'moves'} away." if row.leaving else ""
    if not row.staying:
        return move
    several = len(row.staying) > 1
    reason = "are not known to save their state, and run until they end" if several else _ONE_STAYS
    return f"{move} {_jobs(row.staying)} {reason}.".strip()


_ONE_STAYS = "is not known to save its state, and runs until it ends"


def _jobs(jobs: Sequence[int]) -> str:
    return f"Job{'s' * (len(jobs) > 1)} {', '.join(map(str, jobs))}"
