"""Details for the errors of policies: the existing columns, and the line in the user's file."""

import re
import traceback
from dataclasses import fields, is_dataclass
from pathlib import Path

from rota.errors import PolicyError, RotaError
from rota.files.csv_table import closest
from rota.model.options import Options
from rota.model.view import Jobs, View

OBJECTS = {"Jobs": "view.jobs", "Options": "view.options", "View": "view", "Program": "a Program"}
"""Class that a policy reads -> its name in messages."""

_MISSING = re.compile(r"'(Jobs|Options|View|Program)' object has no attribute '(\w+)'")
_PACKAGE = Path(__file__).parents[1]


def explain_fault(problem: RotaError) -> None:
    """Add existing columns and the line of the policy to the message of its error."""
    message = with_columns(problem.message)
    if not isinstance(problem, PolicyError):
        message = f"{message.removesuffix('.')}{_place(problem)}."
    problem.message, problem.args = message, (message,)


def with_columns(message: str) -> str:
    """Add the existing names to a message about a name that a view does not have."""
    missing = _MISSING.search(message)
    if missing is None:
        return message
    names = columns(_class_named(missing[1]))
    return f"{message}{closest(missing[2], names)} {OBJECTS[missing[1]]} has {', '.join(names)}."


def _class_named(name: str) -> type:
    """Return a class that a policy reads. The solver is imported only if its class is asked for."""
    if name == "Program":
        from rota.solver.program import Program

        return Program
    return {"Jobs": Jobs, "Options": Options, "View": View}[name]


def columns(kind: type) -> list[str]:
    """Return the names of the attributes of a class."""
    held = {each.name for each in fields(kind)} if is_dataclass(kind) else set()
    return sorted(name for name in held | set(dir(kind)) if not name.startswith("_"))


def fault_traceback(problem: BaseException) -> str:
    """Return the traceback from the scheduler's call to the policy's error; an empty text if no policy caused the error."""
    if problem.__cause__ is not None:
        return "".join(traceback.format_exception(problem.__cause__))
    frames = _since_call(problem)
    return "Traceback (most recent call last):\n" + "".join(traceback.format_list(frames)) if frames else ""


def _place(problem: RotaError) -> str:
    """Return the line of the user's policy that caused the error, such as ` (mine.py:12)`; an empty text if none did."""
    files = [(Path(frame.filename), frame.lineno) for frame in _since_call(problem)]
    user = [each for each in files if _PACKAGE not in each[0].parents and "site-packages" not in each[0].parts]
    return f" ({user[-1][0].name}:{user[-1][1]})" if user else ""


def _since_call(problem: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of an error from the scheduler's call of the policy on; empty if the policy was not called."""
    frames = list(traceback.extract_tb(problem.__traceback__))
    calls = [i for i, frame in enumerate(frames) if frame.name == "_call_policy" and _PACKAGE in Path(frame.filename).parents]
    return frames[calls[-1] :] if calls else []
