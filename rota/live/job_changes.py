"""Changes of a job after its submission: as an event, as what the journal keeps, and as a spec."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rota.model.events import JobChanged
from rota.model.units import FOREVER
from rota.wire.spec import Spec

CHANGEABLE = ("name", "priority", "weight", "max_run_time", "deadline")
"""Fields of a spec that may be changed."""


def change_event(job: int, spec: Spec, changed: frozenset[str], at_s: float) -> JobChanged:
    """Return the event that gives a job these fields of a spec."""
    limit = (FOREVER if spec.max_run_time is None else spec.max_run_time) if "max_run_time" in changed else None
    deadline_s = (FOREVER if spec.deadline is None else spec.deadline.timestamp()) if "deadline" in changed else None
    plain = {name: getattr(spec, name) for name in ("name", "priority", "weight") if name in changed}
    return JobChanged(job, at_s, **plain, max_run_seconds=limit, deadline_s=deadline_s)


def changes_of(event: JobChanged) -> dict[str, Any]:
    """Return the changed fields of a spec as plain data."""
    found = {name: value for name in ("name", "priority", "weight") if (value := getattr(event, name)) is not None}
    if event.max_run_seconds is not None:
        found["max_run_time"] = None if event.max_run_seconds == FOREVER else event.max_run_seconds
    if event.deadline_s is not None:
        found["deadline"] = None if event.deadline_s == FOREVER else datetime.fromtimestamp(event.deadline_s, UTC).isoformat()
    return found


def changed_spec(spec: Spec, changes: Mapping[str, Any]) -> Spec:
    """Return a spec with changed fields."""
    update = dict(changes)
    if update.get("deadline") is not None:
        update["deadline"] = datetime.fromisoformat(update["deadline"])
    return spec.model_copy(update=update)
