"""Reports of a job, read into its status. Any of its processes can send anything, so what makes no sense is ignored."""

import json
from typing import Any

from rota.agent.attempt_files import AttemptStatus, metrics, plain_text
from rota.agent.outcome import worked_seconds


def read_message(datagram: bytes) -> dict[str, Any]:
    """Return the fields of a datagram; none if it is not one of ours."""
    try:
        message = json.loads(datagram)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def with_report(status: AttemptStatus, message: dict[str, Any]) -> AttemptStatus:
    """Return the status with the rest of a report: metrics, whether a session saves, and why a save failed."""
    told = metrics(message.get("metrics"))
    if told:
        status = status._replace(metrics=told)
    if isinstance(message.get("saves"), bool):
        status = status._replace(saves=message["saves"])
    if isinstance(message.get("saving_problem"), str):
        status = status._replace(saving_problem=plain_text(message["saving_problem"]) or None)
    return status


def with_steps(status: AttemptStatus, done: float | None, total: float | None, saved: float | None, at_s: float) -> AttemptStatus:
    """Return the status with the steps of a report at this instant; None for what the report does not contain."""
    stepped = done is not None and (done != status.steps_done or status.stepped_s is None)
    safe = saved is not None and saved > status.steps_saved
    return status._replace(
        steps_done=status.steps_done if done is None else done,
        steps_total=status.steps_total if total is None else total,
        steps_saved=status.steps_saved if saved is None else saved,
        stepped_s=at_s if stepped else status.stepped_s,
        safe_seconds=worked_seconds(status, at_s) if safe else status.safe_seconds,
        pace=status.pace if done is None or done == status.steps_done else status.pace.stepped(done, at_s),
    )
