"""The OpenAPI description of the API: bodies, responses, errors and the token."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from rota.server.auth import API
from rota.server.reading import MAX_IDEMPOTENCY_KEY_CHARS, MAX_KEY_CHARS, MAX_PATH_CHARS, MAX_USER_CHARS
from rota.wire.job_filter import MAX_TOGETHER
from rota.wire.problems import ProblemRow
from rota.wire.spec import Spec

_TOKEN = "token"
_SCHEMAS = "#/components/schemas/{model}"
_TOO_LARGE = HTTPStatus(413)  # Python has renamed this constant
_ALWAYS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_TIMEOUT, _TOO_LARGE, HTTPStatus.MISDIRECTED_REQUEST)
"""Error statuses of every request."""


def problems(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """Return the errors of a request: these statuses, and those of every request."""
    return {int(each): {"model": ProblemRow, "description": each.phrase} for each in sorted({*_ALWAYS, *statuses})}


def _body(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": dict(schema)}}}}


SUBMISSION: dict[str, Any] = {
    "type": "object",
    "required": ["spec", "user", "workdir"],
    "additionalProperties": False,
    "properties": {
        "spec": {"$ref": _SCHEMAS.format(model="Spec")},
        "user": {"type": "string", "minLength": 1, "maxLength": MAX_USER_CHARS},
        "workdir": {"type": "string", "pattern": "^/", "maxLength": MAX_PATH_CHARS, "description": "Absolute path."},
        "env": {
            "type": "object",
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "additionalProperties": {"type": "string"},
            "description": "Variables of the submitting process for the job.",
        },
        "idempotency_key": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_IDEMPOTENCY_KEY_CHARS,
            "description": "Submission key. The same submission with the same key is one job. A different submission of this "
            "user with the key is refused (409).",
        },
    },
}
SUBMISSION_BODY = _body(SUBMISSION)
_OF_ALL = {name: each for name, each in SUBMISSION["properties"].items() if name in ("user", "workdir", "env")}
SUBMISSIONS_BODY = _body(
    {
        "type": "object",
        "required": ["jobs"],
        "additionalProperties": False,
        "properties": {
            "jobs": {"type": "array", "maxItems": MAX_TOGETHER, "items": {**SUBMISSION, "required": ["spec"]}},
            **_OF_ALL,
        },
    }
)
CANCELLATIONS_BODY = _body(
    {
        "type": "object",
        "required": ["jobs"],
        "additionalProperties": False,
        "properties": {
            "jobs": {
                "type": "array",
                "maxItems": MAX_TOGETHER,
                "items": {
                    "anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS}],
                    "description": "Job id or name.",
                },
            }
        },
    }
)
POLICY_BODY = _body(
    {
        "type": "object",
        "required": ["policy"],
        "additionalProperties": False,
        "properties": {
            "policy": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_PATH_CHARS,
                "description": "NAME[:key=value,...][+placer]",
            }
        },
    }
)


def describe(app: FastAPI) -> None:
    """Add the job spec and the token to `app.openapi()`."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(get_openapi(title=app.title, version=app.version, routes=app.routes))
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _complete(found: dict[str, Any]) -> dict[str, Any]:
    components = found.setdefault("components", {})
    spec = Spec.model_json_schema(ref_template=_SCHEMAS)
    components["schemas"] = {**components.get("schemas", {}), **spec.pop("$defs", {}), "Spec": spec}
    components["securitySchemes"] = {
        _TOKEN: {"type": "http", "scheme": "bearer", "description": "Contents of the file `token` in the home."}
    }
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    for path, operations in found["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)  # a malformed request is 400 here
            operation["security"] = [{_TOKEN: []}] if path.startswith(API) else []
    return found
