"""The OpenAPI description of the API: bodies, responses, errors and the token."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from rota.server.auth import API
from rota.server.bodies import BODIES, Body
from rota.wire.problems import ProblemRow

_TOKEN = "token"
_SCHEMAS = "#/components/schemas/{model}"
_TOO_LARGE = HTTPStatus(413)  # Python has renamed this constant
_ALWAYS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_TIMEOUT, _TOO_LARGE, HTTPStatus.MISDIRECTED_REQUEST)
"""Error statuses of every request."""


def problems(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """Return the errors of a request: these statuses, and those of every request."""
    return {int(each): {"model": ProblemRow, "description": each.phrase} for each in sorted({*_ALWAYS, *statuses})}


def body_of(model: type[Body]) -> dict[str, Any]:
    """Return the description of a route with this body."""
    schema = {"$ref": _SCHEMAS.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def describe(app: FastAPI) -> None:
    """Add request bodies and the token to `app.openapi()`."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(get_openapi(title=app.title, version=app.version, routes=app.routes))
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _complete(found: dict[str, Any]) -> dict[str, Any]:
    components = found.setdefault("components", {})
    _, bodies = models_json_schema([(model, "validation") for model in BODIES], ref_template=_SCHEMAS)
    components["schemas"] = {**components.get("schemas", {}), **bodies["$defs"]}
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
