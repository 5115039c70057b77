"""The record of one job: its submission, and what only the history keeps of it."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from rota.live.gpu_stay import GpuStay
from rota.live.job_changes import changed_spec
from rota.park.park_method import STAY, can_sleep
from rota.wire.rows import ENDED
from rota.wire.spec import Spec
from rota.wire.submission import Submission, decode_submission

UNSAVED = "it exited without saving when it was asked to stop, so it is parked if possible, and otherwise keeps running"
_UNSAVED_BEFORE = "left without saving"
"""Part of this sentence in homes of version 0.1."""

Parking = tuple[str | None, str | None]
"""Park method and its reason; None if unknown."""


@dataclass
class JobRecord:
    """One job: its submission, and what only the history keeps."""

    id: int
    submitted: Submission
    submitted_s: float
    started_s: float | None = None
    ended_s: float | None = None
    phase: str = "queued"
    suspensions: int = 0
    lost_steps: float = 0.0
    lost_seconds: float = 0.0
    """Work that was done and lost in all its attempts, in seconds."""
    steps_done: float | None = None
    steps_total: float | None = None
    exit_code: int | None = None
    """Exit code of its last attempt; None while it has another."""
    last_change: str | None = None
    """Sentence about the last thing that happened to it; None before the first."""
    steps_per_second: float | None = None
    """Rate of its last attempt, or of an earlier one that reported steps."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Latest numbers that it reported, such as its loss."""
    park_method: str | None = None
    """Park method, from the submission or from the node that last started the job; None if unknown. `rota/park/` has them all."""
    park_reason: str | None = None
    """Why it has this park method; None if unknown."""
    parking_problem: str | None = None
    """Why the last attempt to park it failed; None if it succeeded."""
    steps_problem: str | None = None
    """Why some reported steps do not count; None if all count."""
    after: list[dict[str, Any]] = field(default_factory=list)
    """Jobs for which it waited when it was submitted: `job`, a number, and `when`."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Fields of its spec that were changed after the submission, as plain data."""
    problem: str | None = None
    """What its last attempt failed to do, if that was a setback; None otherwise."""
    stay: GpuStay | None = None
    """The current attempt and its GPUs; None while there is none."""
    gpu_seconds: float = 0.0
    """GPU-seconds of all attempts so far, without the time since `stay.since_s`."""
    work_seconds: float = 0.0
    """Normalised work of all attempts so far, in seconds of a GPU of its best type."""
    events: int = 0
    """Number of events in the journal."""
    last_kind: str | None = None
    """Kind of the last event, other than `held` and `released`; None before the first."""
    moving_from: str | None = None
    """Placement that the job left to run elsewhere; None if the job was not moved."""
    reclaims: bool = False
    """Whether its first start, which is still to come, is on GPUs that its tenant had lent."""
    held_by: str | None = None
    """User who holds the job; empty if unknown, None if the job is not held."""
    cancelled_by: str | None = None
    """User who asked to cancel the job; None if unknown, or if no user did."""

    @property
    def spec(self) -> Spec:
        """Spec with the changes after the submission."""
        return changed_spec(self.submitted.spec, self.changes) if self.changes else self.submitted.spec

    @property
    def current(self) -> Submission:
        """Submission with the changes after it."""
        return replace(self.submitted, spec=self.spec) if self.changes else self.submitted

    @property
    def name(self) -> str:
        return self.changes.get("name") or self.submitted.spec.name or f"job-{self.id}"

    @property
    def user(self) -> str:
        return self.submitted.user

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def array(self) -> int | None:
        """Number of the array of which it is a task; None if it is none."""
        return None if self.submitted.task is None else self.submitted.task.array

    @property
    def has_notify(self) -> bool:
        """Whether its spec states who is notified."""
        return self.submitted.spec.notify is not None

    @property
    def has_uid(self) -> bool:
        """Whether it runs as a Unix user of its own."""
        return self.submitted.uid is not None

    def to_plain(self) -> dict[str, Any]:
        """Return the row for the journal: every field that does not have its default."""
        return {name: value for name, default in _KEPT.items() if (value := getattr(self, name)) != default}

    @classmethod
    def of(cls, job: int, submitted: Mapping[str, Any], plain: Mapping[str, Any]) -> "JobRecord":
        """Return a record from the journal, where earlier versions wrote an empty text for none."""
        kept: dict[str, Any] = {
            name: plain[name] for name in _KEPT if name in plain and (plain[name] != "" or name in _MAY_BE_EMPTY)
        }
        if plain.get("parking"):  # method and reason as one text, in earlier versions
            way, _, why = plain["parking"].partition(": ")
            kept["park_method"], kept["park_reason"] = unsaved(way) if _UNSAVED_BEFORE in why else (way, why or None)
        if kept.get("stay") is not None:
            kept["stay"] = GpuStay(*kept["stay"])
        return cls(job, decode_submission(submitted), **kept)


_KEPT: dict[str, Any] = {
    each.name: each.default if each.default_factory is MISSING else each.default_factory()
    for each in fields(JobRecord)
    if each.name not in ("id", "submitted")
}
"""Fields that the journal keeps as the row of a job, with their defaults."""
_MAY_BE_EMPTY = ("held_by",)


def unsaved(way: str | None) -> Parking:
    """Return the park method and the reason of a job that exited without saving."""
    return way if can_sleep(way or "") else STAY, UNSAVED
