"""Request bodies: their shape, which the description of the API shows, and how they are parsed."""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError, WithJsonSchema

from rota.errors import InputError, SpecError
from rota.files.csv_table import shown
from rota.server.identities import JobOwner
from rota.wire.job_filter import MAX_TOGETHER
from rota.wire.spec import Spec, located, spec_tree
from rota.wire.submission import Submission, naming

MAX_USER_CHARS = 100
MAX_PATH_CHARS = 4096
MAX_IDEMPOTENCY_KEY_CHARS = 200
MAX_KEY_CHARS = 200
"""Maximum length of a job's key, which is that of a name."""
_ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"


def _must(holds: Callable[[str], bool]) -> AfterValidator:
    def check(text: str) -> str:
        if not holds(text):
            raise ValueError
        return text

    return AfterValidator(check)


_PRINTABLE = _must(lambda text: bool(text.strip()) and text.isprintable())
# A relative path would start at the daemon's folder, which users do not know, so it is refused.
_ABSOLUTE = _must(lambda text: "\0" not in text and PurePosixPath(text).is_absolute())
User = Annotated[str, Field(min_length=1, max_length=MAX_USER_CHARS), _PRINTABLE]
Workdir = Annotated[
    str, Field(max_length=MAX_PATH_CHARS, description="Absolute path.", json_schema_extra={"pattern": "^/"}), _ABSOLUTE
]
Env = Annotated[
    dict[Annotated[str, Field(pattern=_ENV_NAME)], Annotated[str, _must(lambda text: "\0" not in text)]],
    WithJsonSchema({"type": "object", "propertyNames": {"pattern": _ENV_NAME}, "additionalProperties": {"type": "string"}}),
    Field(description="Variables of the submitting process for the job."),
]
IdempotencyKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_IDEMPOTENCY_KEY_CHARS,
        description="Submission key. The same submission with the same key is one job. A different submission of this user with "
        "the key is refused (409).",
    ),
    _PRINTABLE,
]


class Body(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    example: ClassVar[str]


class JobBody(Body):
    """One of several jobs. What it leaves out is as for all jobs of the request."""

    example = '{"jobs": [{"spec": {"run": ...}}, ...], "user": ..., "workdir": ..., "env": {...}}'
    spec: Spec
    user: User | None = None
    workdir: Workdir | None = None
    env: Env = Field(default_factory=dict)
    idempotency_key: IdempotencyKey | None = None


class SubmissionBody(JobBody):
    """A job."""

    example = '{"spec": {"run": ...}, "user": ..., "workdir": ..., "env": {...}}'
    workdir: Workdir


class SubmissionsBody(Body):
    """Several jobs, and what all of them have unless a job has its own."""

    example = JobBody.example
    jobs: list[JobBody] = Field(max_length=MAX_TOGETHER)
    user: User | None = None
    workdir: Workdir | None = None
    env: Env = Field(default_factory=dict)


class CancellationsBody(Body):
    """Jobs to cancel."""

    example = '{"jobs": [412, "vit-huge"]}'
    jobs: list[
        Annotated[
            StrictInt | Annotated[StrictStr, Field(min_length=1, max_length=MAX_KEY_CHARS)], Field(description="Job id or name.")
        ]
    ] = Field(max_length=MAX_TOGETHER)


class PolicyBody(Body):
    """A policy."""

    example = '{"policy": "fifo"}'
    policy: Annotated[
        str, Field(min_length=1, max_length=MAX_PATH_CHARS, description="NAME[:key=value,...][+placer]"), _PRINTABLE
    ]


BODIES = (SubmissionBody, SubmissionsBody, CancellationsBody, PolicyBody)
_PROBLEMS: Mapping[str, tuple[str, str | None]] = {
    "user": ("is not the name of a user.", None),
    "workdir": ("is not an absolute path.", '"workdir": "/home/ana/run"'),
    "env": ("cannot be an environment variable.", '"env": {"PATH": "/usr/bin"}'),
    "idempotency_key": (f"is not a text of 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters.", '"idempotency_key": "4f1c0d7e"'),
    "policy": ("is not the name of a policy.", None),
}
"""Field -> what a wrong value is not, and a correct one; None for the example of the body."""
B = TypeVar("B", bound=Body)


OwnerOf = Callable[[str | None], JobOwner]
"""Finds to whom a job belongs, from the user that its submission names, if it names one."""


def read_submission(raw: bytes, owner_of: OwnerOf) -> Submission:
    body = _read(SubmissionBody, raw)
    owner = owner_of(body.user)
    return Submission(body.spec, owner.name, body.workdir, body.env, body.idempotency_key, owner.uid)


def read_submissions(raw: bytes, owner_of: OwnerOf) -> list[Submission]:
    """Parse several jobs."""
    body, found, keys = _read(SubmissionsBody, raw), list[Submission](), set[tuple[str, str]]()
    for index, job in enumerate(body.jobs):
        with naming(index):
            (user, uid), workdir = owner_of(job.user or body.user), job.workdir or body.workdir
            if workdir is None:
                raise InputError(_PROBLEMS["workdir"][0], field="workdir", value="None", hint=JobBody.example)
            key = job.idempotency_key
            if key is not None and (user, key) in keys:
                raise InputError("is used twice in this request.", field="idempotency_key", value=key, hint="another key")
            if key is not None:
                keys.add((user, key))
            found.append(Submission(job.spec, user, workdir, {**body.env, **job.env}, key, uid))
    return found


def read_cancellations(raw: bytes) -> list[str]:
    """Parse the ids or names of jobs."""
    return [str(key) for key in _read(CancellationsBody, raw).jobs]


def read_policy(raw: bytes) -> str:
    return _read(PolicyBody, raw).policy.strip()


def _read(model: type[B], raw: bytes) -> B:
    try:
        plain = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise InputError("the request is nested too deeply.", hint=model.example) from None
    except ValueError as problem:
        raise InputError(f"the request is not JSON: {shown(str(problem))}.", hint=model.example) from None
    if not isinstance(plain, dict) or ("jobs" in model.model_fields and not isinstance(plain.get("jobs"), list)):
        listed = " with a list of jobs" if "jobs" in model.model_fields else ""
        raise InputError(f"the request is not a JSON object{listed}.", hint=model.example)
    try:
        json.dumps(plain, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # such text can be neither written to a file nor given to a process
        raise InputError("the request is not valid text: it contains half a character.", hint="write it as UTF-8") from None
    try:
        return model.model_validate(plain)
    except ValidationError as problem:
        _refuse(model, plain, problem.errors(include_url=False))


def _refuse(model: type[Body], plain: Mapping[str, Any], faults: Sequence[Any]) -> NoReturn:
    """Raise the first fault: of the first wrong job if there are several, and with its place in the spec if it has one."""
    first = faults[0]["loc"]
    if first[0] == "jobs" and len(first) > 1 and model is SubmissionsBody:
        mine = [{**each, "loc": each["loc"][2:]} for each in faults if each["loc"][:2] == first[:2]]
        with naming(first[1]):
            if not isinstance(plain["jobs"][first[1]], dict):
                raise InputError("the job is not a JSON object.", hint=model.example)
            _refuse(JobBody, plain["jobs"][first[1]], mine)
    if first[0] == "spec" and "spec" in model.model_fields:
        if "spec" not in plain:
            raise SpecError("needs 'run'.", field="run", hint="add a line run: ...")
        spec = spec_tree(plain["spec"])
        spec.mapping()
        raise located(spec, [{**each, "loc": each["loc"][1:]} for each in faults if each["loc"][0] == "spec"])
    name, value = ".".join(shown(str(part)) for part in first), faults[0]["input"]
    if faults[0]["type"] == "extra_forbidden":
        outside, known = first[0] == "spec", model.model_fields
        problem = "is outside the list of jobs; each job has its own." if outside else f"unknown field. All: {', '.join(known)}."
        raise InputError(problem, field=name, hint=model.example)
    if faults[0]["type"] == "too_long" and first == ("jobs",):
        problem = f"are {len(value):,}; a request has at most {MAX_TOGETHER:,}."
        raise InputError(problem, field="jobs", hint="several requests")
    problem, hint = _PROBLEMS.get(str(first[0]), ("is not the id or name of a job.", None))
    missing = faults[0]["type"] == "missing"
    for_all = model is SubmissionsBody and first[0] in ("user", "workdir") and plain["jobs"]
    with naming(0) if for_all else contextlib.nullcontext():
        raise InputError(problem, field=name, value=shown(str(None if missing else value)), hint=hint or model.example)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")
