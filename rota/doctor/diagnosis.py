"""The finding of a check."""

from dataclasses import dataclass
from typing import Any

OK, WARN, FAIL = "ok", "warn", "fail"
"""States of a finding: nothing to do; something is missing or works less well than it could; something does not work."""


@dataclass(frozen=True)
class Diagnosis:
    """One finding, which the doctor prints as one line."""

    check: str
    """Name of the check, in one or two words."""
    state: str
    found: str
    next: str = ""
    """Proposed next step; empty if there is nothing to do."""

    def to_dict(self) -> dict[str, Any]:
        return {"check": self.check, "state": self.state, "found": self.found, "next": self.next}


def ok(check: str, found: str) -> Diagnosis:
    return Diagnosis(check, OK, found)


def warn(check: str, found: str, next: str) -> Diagnosis:
    return Diagnosis(check, WARN, found, next)


def fail(check: str, found: str, next: str) -> Diagnosis:
    return Diagnosis(check, FAIL, found, next)
