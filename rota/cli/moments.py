"""Moments and lengths of time on the command line."""

from datetime import datetime, timedelta
from typing import Annotated

import typer

from rota.errors import OptionError

Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="End: 18:00, 2026-11-20, or 2026-11-20T18:00, in local time.")
]
For = Annotated[str | None, typer.Option("--for", metavar="LENGTH", help="Length instead of an end: 30m, 2h, 3d.")]
_FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S")


def unix_of(text: str | None, field: str, now: datetime | None = None) -> float | None:
    """Return a moment as a Unix time. A time of day is the next one."""
    if text is None:
        return None
    now, words = now or datetime.now(), text.strip()
    if words == "now":
        return now.timestamp()
    try:
        clock = datetime.strptime(words, "%H:%M").time()
    except ValueError:
        return _of_a_date(words, field, text)
    moment = datetime.combine(now.date(), clock)
    return (moment if moment > now else moment + timedelta(days=1)).timestamp()


def _of_a_date(words: str, field: str, text: str) -> float:
    for each in _FORMATS:
        try:
            return datetime.strptime(words, each).timestamp()
        except (ValueError, OverflowError):
            continue
    try:  # with an offset from UTC
        moment = datetime.fromisoformat(words)
        if moment.tzinfo is not None:
            return moment.timestamp()
    except (ValueError, OverflowError):
        pass
    raise OptionError("is not a time.", field=field, value=text, hint=f"{field} 18:00, or {field} 2026-11-20T18:00")


def seconds_of(text: str | None, field: str) -> float | None:
    """Return a length of time in seconds."""
    from rota.files.tree import duration_seconds

    if text is None:
        return None
    found = duration_seconds(text)
    if found is None:
        raise OptionError("is not a length of time.", field=field, value=text, hint=f"{field} 2h")
    return found


def end_of(until: str | None, length: str | None) -> tuple[float | None, float | None]:
    """Return the end as a Unix time, and the length in seconds. At most one of them is given."""
    if until is not None and length is not None:
        raise OptionError("does not go with --until.", field="--for", value=length, hint="one of them")
    return unix_of(until, "--until"), seconds_of(length, "--for")
