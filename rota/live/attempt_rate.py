"""The steps per second of an attempt, for people: without its start, and slower while it stalls."""

from rota.agent.attempt_files import AttemptStatus

STALL_SECONDS = 10.0
"""Time without a step after which a job may count as stalled, in seconds."""


def step_rate(part: AttemptStatus, now_s: float | None = None) -> float | None:
    """Return the steps per second of an attempt, without the time before its first step and its time parked; None if unknown.
    `now_s`: the time, if it is running. A job that has been quiet for long counts as slow then."""
    since_s, since_steps = part.pace.since_s, part.pace.since_steps
    if since_s is None and part.start_sequence == part.launch_sequence:  # an earlier version writes only when it began
        since_s, since_steps = part.began_s, part.from_step
    if since_s is None or part.stepped_s is None:
        return None
    seconds, steps = part.stepped_s - since_s, part.steps_done - since_steps
    if now_s is not None and _stalls(part, seconds, now_s):
        seconds = now_s - since_s
    return steps / seconds if steps > 0 and seconds > 0 else None


def _stalls(part: AttemptStatus, seconds: float, now_s: float) -> bool:
    """Return whether it has been quiet for much longer than the window of its pace."""
    return part.stepped_s is not None and now_s - part.stepped_s > max(2 * seconds, STALL_SECONDS)


def quiet_seconds(part: AttemptStatus | None, now_s: float) -> float:
    """Return the seconds since its last reported step, during which it has worked on; 0 for a job that stalls."""
    if part is None or part.stepped_s is None or part.pace.since_s is None:
        return 0.0
    return 0.0 if _stalls(part, part.stepped_s - part.pace.since_s, now_s) else max(now_s - part.stepped_s, 0.0)
