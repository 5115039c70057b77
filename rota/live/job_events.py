"""Events of jobs: what happened to a job, when, who asked for it, and why. The journal keeps them, in the same transactions as
the entries that caused them.

That a job was submitted is not written a second time: its record says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple

from rota.agent.outcome import length_text, signal_name
from rota.live.instants import iso
from rota.live.job_record import JobRecord
from rota.model.counted import counted
from rota.wire.rows import EventRow


class EventKind(StrEnum):
    """What happened to a job."""

    SUBMITTED = "submitted"
    STARTED = "started"
    RESUMED = "resumed"
    MOVED = "moved"
    """The job runs on other GPUs, after it was suspended for that."""
    RESIZED = "resized"
    PARKED = "parked"
    SUSPENDED = "suspended"
    HELD = "held"
    RELEASED = "released"
    REQUEUED = "requeued"
    CHANGED = "changed"
    """A user changed fields of the job's spec."""
    LOST = "lost"
    """An attempt ended by no fault of its own: its node was lost, or its processes were."""
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Cause(StrEnum):
    """Why a job gave up its GPUs."""

    DISPLACED = "displaced"
    """Other jobs got its GPUs."""
    POLICY = "policy"
    """The policy's answer lets it wait, and no other job has its GPUs yet."""
    MOVED = "moved"
    """The job gets other GPUs."""
    HELD = "held"
    """A user holds it."""
    DRAINED = "drained"
    """A node of the job is drained."""
    YIELDED = "yielded"
    """The job exited by itself, and is to be started again."""


class OtherJob(NamedTuple):
    """A job that got GPUs of another."""

    id: int
    name: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One event of a job."""

    kind: EventKind
    at_s: float
    attempt: int | None = None
    by: str | None = None
    """User who asked; None if unknown, or if no user did."""
    accelerator: str | None = None
    gpus: float | None = None
    """Number of GPUs, where a shared GPU counts with its fraction."""
    placement: str | None = None
    from_placement: str | None = None
    """Placement before a move or a resize."""
    from_step: float | None = None
    """Step from which the attempt continues."""
    what: str | None = None
    """Fields that were changed, with their values."""
    cause: Cause | None = None
    given_to: tuple[OtherJob, ...] = ()
    """Jobs that got its GPUs."""
    policy: str | None = None
    """Policy whose answer was in force."""
    nodes: tuple[str, ...] = ()
    """Nodes that were lost, or on which the attempt was lost."""
    exit_code: int | None = None
    problem: str | None = None
    """What went wrong; None if nothing did."""
    lost_seconds: float = 0.0
    """Work that was lost, in seconds of running time."""
    lost_steps: float = 0.0
    gpu_seconds: float = 0.0
    """GPU-seconds of the attempt, at its end."""
    work_seconds: float = 0.0
    """Normalised work of the attempt, at its end, in seconds of a GPU of the job's best type."""
    reclaim_seconds: float | None = None
    """Time from the arrival of the job to its first start, on GPUs that its tenant had lent, in seconds; None for other
    events."""
    tenant: str | None = None
    """Tenant that got these GPUs back, as the job names it; None if it names none, and for other events."""
    ends_attempt: bool = False
    """Whether the attempt ended."""
    ends_job: bool = False
    """Whether the job ended."""

    def to_plain(self) -> dict[str, Any]:
        """Return the event as the journal keeps it: every field that does not have its default."""
        return {name: value for name, default in _DEFAULTS.items() if (value := getattr(self, name)) != default}

    @classmethod
    def of(cls, at_s: float, plain: Mapping[str, Any]) -> "JobEvent":
        """Return an event from the journal. A field of a later version is ignored."""
        known = {name: value for name, value in plain.items() if name in _DEFAULTS}
        known["kind"] = EventKind(known["kind"])
        if "cause" in known:
            known["cause"] = Cause(known["cause"])
        known["given_to"] = tuple(OtherJob(*each) for each in known.get("given_to", ()))
        known["nodes"] = tuple(known.get("nodes", ()))
        return cls(at_s=at_s, **known)


_DEFAULTS = {each.name: each.default for each in fields(JobEvent) if each.name != "at_s"}

STARTS = (EventKind.STARTED, EventKind.RESUMED, EventKind.MOVED)
"""Kinds of events after which an attempt runs that did not run before."""


def submitted(record: JobRecord) -> JobEvent:
    """Return the first event of a job."""
    return JobEvent(kind=EventKind.SUBMITTED, at_s=record.submitted_s, by=record.submitted.user)


def event_row(job: int, event: JobEvent, names_of: str | None = None) -> EventRow:
    """Return an event as clients see it. `names_of`: the user whose jobs are named; None for all users."""
    if names_of is not None:
        others = (each if each.user == names_of else each._replace(name="") for each in event.given_to)
        event = replace(event, given_to=tuple(others))
    return EventRow(
        job=job,
        at=iso(event.at_s) or "",
        kind=event.kind.value,
        text=sentence(event),
        by=event.by,
        attempt=event.attempt,
        accelerator=event.accelerator,
        gpus=event.gpus,
        placement=event.placement,
        from_placement=event.from_placement,
        from_step=event.from_step,
        cause=event.cause.value if event.cause is not None else None,
        given_to=[each.id for each in event.given_to],
        policy=event.policy,
        nodes=list(event.nodes),
        exit_code=event.exit_code,
        problem=event.problem,
        lost_seconds=event.lost_seconds,
        lost_steps=event.lost_steps,
        gpu_seconds=event.gpu_seconds,
        work_seconds=event.work_seconds,
        reclaim_seconds=event.reclaim_seconds,
    )


def sentence(event: JobEvent) -> str:
    """Return the event in words, without its time."""
    by = f" by {event.by}" if event.by else ""
    if event.kind in (*STARTS, EventKind.RESIZED):
        return _running(event)
    if event.kind in (EventKind.PARKED, EventKind.SUSPENDED):
        return f"{event.kind}{_reason(event)}; {_lost(event)}"
    if event.kind is EventKind.LOST:
        where = f" with {_listed(event.nodes)}" if event.nodes and not event.problem else ""
        return f"lost{where}{f': {event.problem}' if event.problem else ''}; {_lost(event)}"
    if event.kind is EventKind.FAILED:
        again = "" if event.ends_job else "; it has another try"
        return f"failed{_exit(event)}{f': {event.problem}' if event.problem else ''}; {_lost(event)}{again}"
    why = event.what or event.problem
    return f"{event.kind}{by}{f': {why}' if why else ''}"


def _running(event: JobEvent) -> str:
    where = f"{event.gpus:g}x{event.accelerator} {event.placement}" if event.gpus is not None else event.placement or ""
    if event.kind is EventKind.RESIZED:
        return f"resized from {event.from_placement} to {where}"
    tries = f", attempt {event.attempt}" if event.attempt is not None and event.attempt > 1 else ""
    step = f", from step {event.from_step:,.0f}" if event.from_step else ""
    source = f" from {event.from_placement} to" if event.kind is EventKind.MOVED else " on"
    lent = (
        f", which its tenant had lent, {length_text(event.reclaim_seconds)} after it arrived"
        if event.reclaim_seconds is not None
        else ""
    )
    return f"{event.kind}{source} {where}{tries}{step}{lent}"


def _reason(event: JobEvent) -> str:
    """Return why a job gave up its GPUs, with a comma or a colon before it."""
    policy = f" [policy {event.policy}]" if event.policy else ""
    others = _listed([" ".join(filter(None, (str(each.id), each.name, f"({each.user})"))) for each in event.given_to])
    match event.cause:
        case Cause.DISPLACED:
            return f": its GPUs go to {others}{policy}"
        case Cause.MOVED:
            return f": it gets other GPUs{f', and its own go to {others}' if others else ''}{policy}"
        case Cause.HELD:
            return f": it is held{f' by {event.by}' if event.by else ''}"
        case Cause.DRAINED:
            return f": {_listed(event.nodes)} is drained"
        case Cause.YIELDED:
            return f": it left by itself{_exit(event)}"
        case _:
            return f": it has to wait{policy}"


def _exit(event: JobEvent) -> str:
    if event.exit_code is None:
        return ""
    return f" with exit code {event.exit_code}" if event.exit_code >= 0 else f", ended by {signal_name(-event.exit_code)}"


def _lost(event: JobEvent) -> str:
    steps = f" ({counted(round(event.lost_steps), 'step')})" if event.lost_steps else ""
    if not event.lost_seconds:
        return f"{counted(round(event.lost_steps), 'step')} lost" if event.lost_steps else "no work lost"
    return f"{length_text(event.lost_seconds)} of work lost{steps}"


def _listed(words: "tuple[str, ...] | list[str]") -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
