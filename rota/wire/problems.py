"""Encode a scheduler's errors as plain data, and decode them to the same classes in a client."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota import errors
from rota.errors import InputError, RotaError

MAX_BODY_BYTES = 1_000_000
"""Maximum size of a request, in bytes. A spec has a few hundred bytes; a larger request is a mistake or an attack."""

MAX_SEVERAL_BYTES = 16_000_000
"""Maximum size of a request that submits several jobs, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemRow:
    """An error as clients receive it."""

    error: str
    hint: str
    """Proposed next step; may be empty."""
    kind: str
    """Name of the error's class in `rota.errors`."""
    field: str | None = None
    """Field of the request or the spec that is wrong; None if the error is not about a field."""
    line: int | None = None


def encode_error(error: RotaError) -> dict[str, Any]:
    return {
        "error": error.message,
        "hint": error.hint,
        "kind": type(error).__name__,
        "field": getattr(error, "field", "") or None,
        "line": getattr(error, "line", None) or None,
    }


def decode_error(plain: Mapping[str, Any]) -> RotaError:
    """Return the error of a response. A class that this version does not know becomes RotaError."""
    found = getattr(errors, str(plain.get("kind")), RotaError)
    kind: type[RotaError] = found if isinstance(found, type) and issubclass(found, RotaError) else RotaError
    # The message is complete and must not be composed again. UnknownNameError would compose its own from other arguments.
    error = kind.__new__(kind)
    message, hint = str(plain.get("error", "")), str(plain.get("hint") or "")
    if isinstance(error, InputError):
        InputError.__init__(error, message, hint=hint)
        error.field, error.line = str(plain.get("field") or ""), plain.get("line")
    else:
        RotaError.__init__(error, message, hint=hint)
    return error
