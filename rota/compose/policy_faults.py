"""Makes what a policy raised easier to mend: which columns there are, and on which line of the user's file it happened."""

import re
import traceback
from dataclasses import fields, is_dataclass
from pathlib import Path

from rota.errors import PolicyError, RotaError
from rota.files.csv_table import closest
from rota.model.options import Options
from rota.model.view import Jobs, View
from rota.solver.program import Program

OBJECTS = {
    "Jobs": ("view.jobs", Jobs),
    "Options": ("view.options", Options),
    "View": ("view", View),
    "Program": ("a Program", Program),
}
"""What a policy reads, by the name of its class."""

_MISSING = re.compile(r"'(Jobs|Options|View|Program)' object has no attribute '(\w+)'")
_PACKAGE = Path(__file__).parents[1]


def explain_fault(problem: RotaError) -> None:
    """Add to the message of an error that a policy caused."""
    told = with_columns(problem.message)
    if not isinstance(problem, PolicyError):
        told = f"{told.removesuffix('.')}{_place(problem)}."
    problem.message, problem.args = told, (told,)


def with_columns(message: str) -> str:
    """A message about a name that a view lacks, with the names it has."""
    missing = _MISSING.search(message)
    if missing is None:
        return message
    where, kind = OBJECTS[missing[1]]
    names = columns(kind)
    return f"{message}{closest(missing[2], names)} {where} has {', '.join(names)}."


def columns(kind: type) -> list[str]:
    """The names of what an object holds."""
    held = {each.name for each in fields(kind)} if is_dataclass(kind) else set()
    return sorted(name for name in held | set(dir(kind)) if not name.startswith("_"))


def fault_traceback(problem: BaseException) -> str:
    """The way from the scheduler's question to what a policy raised; nothing for an error that no policy caused."""
    if problem.__cause__ is not None:
        return "".join(traceback.format_exception(problem.__cause__))
    frames = _since_asked(problem)
    return "Traceback (most recent call last):\n" + "".join(traceback.format_list(frames)) if frames else ""


def _place(problem: RotaError) -> str:
    """` (mine.py:12)`: the line of the user's policy that led to it; nothing if none did."""
    files = [(Path(frame.filename), frame.lineno) for frame in _since_asked(problem)]
    user = [each for each in files if _PACKAGE not in each[0].parents and "site-packages" not in each[0].parts]
    return f" ({user[-1][0].name}:{user[-1][1]})" if user else ""


def _since_asked(problem: BaseException) -> list[traceback.FrameSummary]:
    """The frames of an error from the scheduler's question to the policy on; none if it was not asked."""
    frames = list(traceback.extract_tb(problem.__traceback__))
    asked = [i for i, frame in enumerate(frames) if frame.name == "_solve" and _PACKAGE in Path(frame.filename).parents]
    return frames[asked[-1] :] if asked else []
