"""Errors on their way from a scheduler to its clients: plain data on the wire, the same class again on the other side."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota import errors
from rota.errors import InputError, RotaError

LARGEST_BODY_BYTES = 1_000_000
"""What a request may carry. A spec is a few hundred bytes; this much is a mistake or an attack."""

LARGEST_SEVERAL_BYTES = 16_000_000
"""What a request may carry that submits several jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemRow:
    """An error as clients get it."""

    error: str
    hint: str
    """What to try next; may be empty."""
    kind: str
    """The name of its class in `rota.errors`."""
    field: str | None = None
    """Of the request or the spec, the field at fault."""
    line: int | None = None


def encode_error(error: RotaError) -> dict[str, Any]:
    return {
        "error": error.message,
        "hint": error.hint,
        "kind": type(error).__name__,
        "field": getattr(error, "field", "") or None,
        "line": getattr(error, "line", None) or None,
    }


def heard(plain: Mapping[str, Any]) -> RotaError:
    """The error that was told. A class that this version does not know becomes its nearest relative, RotaError."""
    found = getattr(errors, str(plain.get("kind")), RotaError)
    kind: type[RotaError] = found if isinstance(found, type) and issubclass(found, RotaError) else RotaError
    # The message is complete, so it must not be composed a second time; and NameUnknown composes its own from other arguments.
    error = kind.__new__(kind)
    message, hint = str(plain.get("error", "")), str(plain.get("hint") or "")
    if isinstance(error, InputError):
        InputError.__init__(error, message, hint=hint)
        error.field, error.line = str(plain.get("field") or ""), plain.get("line")
    else:
        RotaError.__init__(error, message, hint=hint)
    return error
