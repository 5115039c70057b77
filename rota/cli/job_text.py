"""Texts about jobs that every command shares. These commands must start fast, so nothing here is slow to load."""

import functools
import json
import os
import re
import signal
import sys
from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from rota.errors import OptionError
from rota.model.counted import counted
from rota.wire.client import user_name
from rota.wire.rows import ENDED, HOLDING, JobRow

SUSPENDED = ("parked", "checkpointed")
PHASES = ("queued", "starting", "running", "suspending", "suspended", "stopping", "unreachable", *ENDED)

REASONS = {
    "HELD": "held back",
    "UNSATISFIABLE": "requests more than the cluster has",
    "NO_SUCH_ACCELERATOR": "no node has a type it accepts",
    "NODE_DOWN": "waits for a node that is down",
    "FRAGMENTED": "enough GPUs are free, but not together",
    "NO_FREE_GPUS": "waits for free GPUs",
    "OUTRANKED": "others come first",
    "SHARE_USED": "has had its share",
    "WAITING_FOR_SUSPEND": "its GPUs are being given up",
    "STARTING": "is starting",
    "AWAITING_DECISION": "waits for the next decision",
    "POLICY_NOTE": "the policy says why",
    "DEPENDENCY": "waits for other jobs to end",
    "BACKING_OFF": "pauses after a failed attempt",
    "OVER_QUOTA": "waits for its quota",
    "RECLAIMED": "its borrowed GPUs went back",
    "RESERVED": "GPUs are reserved",
}

_ISO = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def say(text: str = "", *, end: str = "\n") -> None:
    """Print a line. Characters that the terminal cannot show become question marks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write((text + end).encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def data(shaped: str, rows: Iterable[JobRow], *, single: bool = False) -> bool:
    """Print the rows as JSON or CSV and return True; return False if the output is for people."""
    plain: list[dict[str, Any]] = [row.to_dict() for row in rows]
    if shaped == "csv" or not single:
        for row in plain:
            del row["spec"], row["trials"]  # only when one job is requested
            if shaped == "csv":
                del row["array"]
    if shaped == "json":
        say(json.dumps(plain[0] if single else plain))
    elif shaped == "csv":
        from rota.cli.output import say as show

        flat = [{name: "/".join(value) if isinstance(value, list) else value for name, value in row.items()} for row in plain]
        show("csv", rows=flat, heads=[each.name for each in fields(JobRow) if each.name not in ("spec", "trials", "array")])
    return shaped in ("json", "csv")


def clean(text: str | None) -> str:
    """Replace control characters, which could steer the terminal, in text that other users wrote; empty if there is none."""
    if text is None:
        return ""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else "?" for sign in text)


def title(row: JobRow) -> str:
    return f"{row.id} {clean(row.name)}"


def phase(row: JobRow) -> str:
    return "suspended" if row.phase in SUSPENDED else row.phase


def user(row: JobRow) -> str:
    """Return `you`, or the user's name. Several people may work as root, so root is named."""
    return "you" if row.user == _me() != "root" else clean(row.user)


@functools.cache
def _me() -> str:
    return user_name()


def count(gpus: float) -> str:
    return counted(gpus, "GPU")


def wants(row: JobRow) -> str:
    """Return the requested GPUs, such as `4 GPUs, any of A100 V100`."""
    types = [clean(each) for each in row.accepted_accelerators]
    return count(row.gpus) + (f", {types[0]}" if len(types) == 1 else f", any of {' '.join(types)}" if types else "")


def holds(row: JobRow) -> str:
    """Return the placement, such as `4xA100 n1:0-3`; an empty text if the job has no GPUs."""
    return " ".join(filter(None, (f"{row.gpus:g}x{row.accelerator}", row.placement))) if row.accelerator else ""


def done(row: JobRow) -> float | None:
    """Return the fraction of the job's steps that are done, from 0 to 1; None if unknown."""
    if row.steps_done is None or not row.steps_total:
        return None
    return min(1.0, max(0.0, row.steps_done / row.steps_total))


def progress(row: JobRow) -> str:
    if row.array is not None:
        return f"{row.array.phases.get('finished', 0):,} of {counted(row.array.tasks, 'task')}"
    share = done(row)
    if share is not None:
        full = int(share * 8 + 0.5)
        return f"{'▇' * full}{'▁' * (8 - full)} {int(share * 100):3d}%"
    return counted(round(row.steps_done), "step") if row.steps_done else "-"


def time_of(row: JobRow) -> str:
    """Return how long the job has been in its phase; for a job that has ended, the time since its first start."""
    if row.ended:
        return between(row.started_at, row.finished_at) if row.started_at and row.finished_at else "-"
    return since(row.phase_since) if row.phase_since else "-"


def eta(row: JobRow) -> str:
    """Return the time left, such as `2h10m`, or `2h10m+` for a job that still waits for GPUs."""
    if row.ended or row.eta_seconds is None:
        return "-"
    return length(row.eta_seconds) + ("" if row.phase in HOLDING else "+")


def speed(row: JobRow) -> str:
    rate = row.steps_per_second
    if not rate:
        return ""
    return f"{rate / 1000:.1f}k steps/s" if rate >= 1000 else f"{rate:.3g} steps/s"


def tasks(row: JobRow) -> str:
    """Return how many tasks of an array are in each phase; empty if the row is that of a job."""
    return "" if row.array is None else ", ".join(f"{count:,} {phase}" for phase, count in row.array.phases.items())


def note(row: JobRow) -> str:
    """Return the most important fact about the job now."""
    if row.array is not None:
        return tasks(row)
    if row.retry_at:
        tried = counted(row.setbacks, "failed attempt")
        return f"{tried}; next in {until(row.retry_at)}: {clean(row.problem)}"
    if row.reason:
        return REASONS.get(row.reason, row.reason)
    if row.phase == "failed":
        return clean(row.problem) or ended_with(row)
    if row.problem and row.phase in HOLDING:
        return f"can't save: {clean(row.problem)}"
    return speed(row) if row.phase in HOLDING else ""


def lost(row: JobRow) -> str:
    """Return the work lost, such as `3m20s of work lost (96 steps)`. Jobs that report no steps have only the time."""
    if not row.lost_seconds and not row.lost_steps:
        return "no work lost"
    steps = counted(round(row.lost_steps), "step") if row.lost_steps else ""
    if not row.lost_seconds:  # homes of earlier versions did not count the seconds
        return f"{steps} lost"
    return f"{length(row.lost_seconds)} of work lost" + (f" ({steps})" if steps else "")


def ended_with(row: JobRow) -> str:
    if row.exit_code is None:
        return ""
    if row.exit_code >= 0:
        return f"exit code {row.exit_code}"
    try:
        return f"ended by {signal.Signals(-row.exit_code).name}"
    except ValueError:
        return f"ended by signal {-row.exit_code}"


def length(seconds: float) -> str:
    """Return a length of time in its two largest units: `3d4h`, `2h10m`, `5m12s`, `9s`."""
    left = int(max(0.0, seconds))
    parts = []
    for unit, size in _UNITS:
        amount, left = divmod(left, size)
        parts.append((amount, unit))
    first = next((i for i, (amount, _) in enumerate(parts) if amount), len(parts) - 1)
    return "".join(f"{amount}{unit}" for i, (amount, unit) in enumerate(parts[first : first + 2]) if amount or i == 0)


def since(moment: str) -> str:
    """Return the time since a moment."""
    return length((datetime.now(UTC) - _utc(moment)).total_seconds())


def until(moment: str) -> str:
    """Return the time until a moment."""
    return length((_utc(moment) - datetime.now(UTC)).total_seconds())


def between(start: str, end: str) -> str:
    return length((_utc(end) - _utc(start)).total_seconds())


def clock(moment: str) -> str:
    """Return a moment in the user's time zone, in the format for people."""
    return f"{_utc(moment).astimezone():%Y-%m-%d %H:%M:%S}"


def with_clocks(text: str) -> str:
    """Replace the ISO times of a scheduler's sentence by times in the user's time zone."""
    return _ISO.sub(lambda found: clock(found[0]), text)


def moment(text: str) -> float:
    """Return the Unix time of a date in the user's time zone, or of an age such as `90s`, `15m`, `2h` or `3d`."""
    number, unit = text[:-1], text[-1:]
    sizes = dict(_UNITS)
    if unit in sizes and number.isascii() and number.isdigit():
        return max(datetime.now(UTC).timestamp() - int(number) * sizes[unit], 0.0)
    try:
        return max(datetime.fromisoformat(text).timestamp(), 0.0)
    except (ValueError, OverflowError, OSError):
        hint = "--since 2h, --since 3d, or --since 2026-12-01T09:00"
        raise OptionError("is neither a length of time nor a date.", field="--since", value=text, hint=hint) from None


def _utc(moment: str) -> datetime:
    found = datetime.fromisoformat(moment)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def colourful() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
