"""What a check found."""

from dataclasses import dataclass
from typing import Any

OK, WARN, FAIL = "ok", "warn", "fail"
"""Nothing to do; something works less well than it could, or is not there yet; something does not work."""


@dataclass(frozen=True)
class Diagnosis:
    """One line of the doctor's."""

    check: str
    """What was looked at, in a word or two."""
    state: str
    found: str
    next: str = ""
    """What to do about it; empty: nothing."""

    def to_dict(self) -> dict[str, Any]:
        return {"check": self.check, "state": self.state, "found": self.found, "next": self.next}


def ok(check: str, found: str) -> Diagnosis:
    return Diagnosis(check, OK, found)


def warn(check: str, found: str, next: str) -> Diagnosis:
    return Diagnosis(check, WARN, found, next)


def fail(check: str, found: str, next: str) -> Diagnosis:
    return Diagnosis(check, FAIL, found, next)
