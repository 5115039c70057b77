"""Limits on the steps that jobs report: a job may report anything, and its report decides how long other jobs wait."""

from collections.abc import Callable
from dataclasses import replace

from rota.agent.orders import AttemptStatus
from rota.wire.spec import MAX_STEPS
from rota.wire.submitted import SubmittedJob


def within_requested(status: AttemptStatus, submitted: Callable[[int], SubmittedJob]) -> AttemptStatus:
    """Return the status with at most the steps that its job requested, and that any job may request. `steps_problem` explains a
    limit."""
    try:
        requested = submitted(status.job).steps
    except KeyError:  # a process of which the scheduler knows nothing
        requested = None
    most = float(min(requested, MAX_STEPS) if requested is not None else MAX_STEPS)
    total = status.steps_total if status.steps_total is None else min(status.steps_total, float(MAX_STEPS))
    if status.steps_done <= most and status.steps_saved <= most and total == status.steps_total:
        return status
    reported = max(status.steps_done, status.steps_saved)
    limit = f"{_count(most)} were requested" if requested is not None else f"a job has at most {_count(most)}"
    return replace(
        status,
        steps_done=min(status.steps_done, most),
        steps_saved=min(status.steps_saved, most),
        steps_total=total,
        steps_problem=f"it reported {_count(reported)} steps; {limit}, and no more count" if reported > most else "",
    )


def _count(steps: float) -> str:
    return f"{steps:,.0f}" if steps < 1e15 else f"{steps:.3g}"
