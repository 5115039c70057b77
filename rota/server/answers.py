"""HTTP responses: JSON, never a traceback."""

import json
import math
from collections.abc import Mapping
from typing import Any

from fastapi.responses import JSONResponse

from rota import __version__
from rota.errors import (
    ConflictError,
    ForbiddenError,
    IllegalTransition,
    InputError,
    PolicyError,
    RotaError,
    SolverError,
    UnknownNameError,
)
from rota.wire.problems import encode_error

VERSION_HEADER = "Rota-Version"
HEADERS = {VERSION_HEADER: __version__, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class JsonAnswer(JSONResponse):
    """A response with rows, or values made of rows, as JSON."""

    def __init__(self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(content, status_code, headers={**HEADERS, **(headers or {})})

    def render(self, content: Any) -> bytes:
        # Non-ASCII characters are escaped: a job's output may contain surrogates, which UTF-8 cannot carry.
        try:
            text = json.dumps(content, allow_nan=False, separators=(",", ":"), default=_fields)
        except ValueError:  # infinity or NaN, such as the time left of a very slow job
            text = json.dumps(_sayable(content), allow_nan=False, separators=(",", ":"))
        return text.encode("ascii")


class HttpError(Exception):
    """An error with an HTTP status of its own."""

    def __init__(self, error: RotaError, status: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error.message)
        self.error, self.status, self.headers = error, status, headers

    def answer(self) -> JsonAnswer:
        return JsonAnswer(encode_error(self.error), self.status, self.headers)


def status_of(error: RotaError) -> int:
    """Return the HTTP status of an error. Only a defect is 500. What the scheduler cannot do now, such as accept a job while its
    disk is full, is 503."""
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status
    return 503


_STATUS: tuple[tuple[type[RotaError], int], ...] = (
    (UnknownNameError, 404),
    (ConflictError, 409),
    (InputError, 400),
    (ForbiddenError, 403),
    (PolicyError, 409),
    (SolverError, 409),
    (IllegalTransition, 500),
)


def _sayable(content: Any) -> Any:
    """Convert to plain data, with None in place of infinity and NaN, which JSON cannot carry."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {str(name): _sayable(each) for name, each in content.items()}
    if isinstance(content, list | tuple):
        return [_sayable(each) for each in content]
    return _sayable(_fields(content)) if hasattr(content, "__dataclass_fields__") else content


def _fields(row: Any) -> dict[str, Any]:
    """Return the fields of a row without copies. `to_dict` would copy every list, which takes seconds for ten thousand rows."""
    return {name: getattr(row, name) for name in row.__dataclass_fields__}
