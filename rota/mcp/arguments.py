"""Arguments of the tools: their JSON schemas, which clients read, and how they are checked."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from rota.errors import OptionError
from rota.files.csv_table import closest, shown
from rota.mcp.budget import KEY_PREFIX
from rota.wire.spec import schema

MAX_KEY_CHARS = 200
MAX_ROWS = 200
MAX_JOBS_PER_CALL = 50
MAX_WAIT_SECONDS = 300.0
MAX_LINES = 1_000

JobKey = StrictInt | Annotated[StrictStr, Field(min_length=1, max_length=MAX_KEY_CHARS)]


class Arguments(BaseModel):
    """Arguments of a tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoArguments(Arguments):
    pass


class OneJob(Arguments):
    job: JobKey = Field(description="Id, name, or unambiguous beginning of the name of a job.")


class SeveralJobs(Arguments):
    jobs: list[JobKey] = Field(min_length=1, max_length=MAX_JOBS_PER_CALL, description="Ids or names of jobs.")


class WaitedJobs(SeveralJobs):
    timeout_seconds: float = Field(30.0, ge=0, le=MAX_WAIT_SECONDS, description="Longest wait, in seconds.")


class PageOfRows(Arguments):
    limit: StrictInt = Field(20, ge=1, le=MAX_ROWS, description="Maximum number of rows.")
    skip: StrictInt = Field(0, ge=0, le=10**9, description="Number of rows before this page.")


class ListedJobs(PageOfRows):
    all: StrictBool = Field(False, description="Whether ended jobs are included.")
    user: str = Field("", max_length=100, description="User whose jobs are listed. Default: all users.")
    phase: str = Field(
        "",
        max_length=20,
        description="Phase of the listed jobs, such as queued, running, suspended, finished, failed or cancelled. Default: any.",
    )


class OutputOfJob(OneJob):
    lines: StrictInt = Field(100, ge=1, le=MAX_LINES, description="Number of last lines.")


class SubmissionKey(Arguments):
    key: Annotated[StrictStr, Field(min_length=1, max_length=MAX_KEY_CHARS - len(KEY_PREFIX))] | None = Field(
        None, description="Submission key. Submitting the same job again with the same key adds no second job."
    )


A = TypeVar("A", bound=Arguments)


def read_arguments(model: type[A], plain: Mapping[str, Any]) -> A:
    """Return the arguments. Raise OptionError, which names the argument, if one is wrong."""
    try:
        return model.model_validate(plain)
    except ValidationError as problem:
        fault = problem.errors(include_url=False)[0]
    name, known = ".".join(shown(str(part)) for part in fault["loc"]), list(model.model_fields)
    hint = f"the arguments are {', '.join(known)}" if known else "this tool takes no arguments"
    if fault["type"] == "extra_forbidden":
        raise OptionError(f"unknown argument.{closest(name, known)}", field=name, hint=hint)
    if fault["type"] == "missing":
        raise OptionError("is missing.", field=name, hint=hint)
    said = fault["msg"].removeprefix("Input ")
    raise OptionError(f"{said}.", field=name, value=shown(str(fault["input"])), hint=hint)


def check_text(plain: Mapping[str, Any]) -> None:
    """Raise OptionError if an argument contains half a character, which can be neither sent nor written to a file."""
    try:
        json.dumps(plain, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise OptionError("contain half a character.", field="arguments", hint="write text as UTF-8") from None


def schema_of(model: type[Arguments]) -> dict[str, Any]:
    """Return the JSON schema of the arguments of a tool."""
    found: dict[str, Any] = _without_titles(model.model_json_schema())
    found.pop("description", None)
    return found


def spec_schema(*more: type[Arguments]) -> dict[str, Any]:
    """Return the JSON schema of the fields of a job spec and of further arguments."""
    found: dict[str, Any] = _without_titles(schema())
    found.pop("description", None)
    for model in more:
        found["properties"] |= schema_of(model)["properties"]
    return found


def _without_titles(value: Any) -> Any:
    """Leave out the titles that are only names of classes and fields."""
    if isinstance(value, dict):
        return {name: _without_titles(each) for name, each in value.items() if name != "title" or not isinstance(each, str)}
    return [_without_titles(each) for each in value] if isinstance(value, list) else value
