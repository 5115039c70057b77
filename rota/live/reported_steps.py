"""Limits on the steps that jobs report: a job may report anything, and its report decides how long other jobs wait."""

from collections.abc import Callable

from rota.agent.attempt_files import AttemptStatus
from rota.wire.spec import MAX_STEPS
from rota.wire.submission import Submission


def within_requested(status: AttemptStatus, submitted: Callable[[int], Submission]) -> AttemptStatus:
    """Return the status with no more steps than its job requested, or than any job may request; `steps_problem` says so."""
    try:
        requested = submitted(status.job).spec.steps
    except KeyError:  # a process that the scheduler knows nothing of
        requested = None
    most = float(min(requested, MAX_STEPS) if requested is not None else MAX_STEPS)
    total = status.steps_total if status.steps_total is None else min(status.steps_total, float(MAX_STEPS))
    if status.steps_done <= most and status.steps_saved <= most and total == status.steps_total:
        return status
    reported = max(status.steps_done, status.steps_saved)
    limit = f"{_count(most)} were requested" if requested is not None else f"a job has at most {_count(most)}"
    return status._replace(
        steps_done=min(status.steps_done, most),
        steps_saved=min(status.steps_saved, most),
        steps_total=total,
        steps_problem=f"it reported {_count(reported)} steps; {limit}, and no more count" if reported > most else None,
    )


def _count(steps: float) -> str:
    return f"{steps:,.0f}" if steps < 1e15 else f"{steps:.3g}"
