"""Request bodies: their shape, which the description of the API shows, and how they are parsed."""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, NoReturn, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    WithJsonSchema,
)

from rota.errors import InputError, SpecError
from rota.files.csv_table import shown
from rota.server.identities import JobOwner
from rota.wire.job_filter import MAX_TOGETHER
from rota.wire.job_request import JobPattern, JobRequest, Verb
from rota.wire.spec import Seconds, Spec, located, spec_from, spec_tree
from rota.wire.submission import Submission, naming

MAX_USER_CHARS = 100
MAX_PATH_CHARS = 4096
MAX_WORD_CHARS = 20
MAX_IDEMPOTENCY_KEY_CHARS = 200
MAX_KEY_CHARS = 200
"""Maximum length of a job's key, which is that of a name."""
MAX_GPUS = 1_000_000
MAX_REASON_CHARS = 200
_ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"


def _must(holds: Callable[[str], bool]) -> AfterValidator:
    def check(text: str) -> str:
        if not holds(text):
            raise ValueError
        return text

    return AfterValidator(check)


def _is_line(text: str) -> bool:
    return text.isprintable()


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


Key = Annotated[
    StrictInt | Annotated[StrictStr, Field(min_length=1, max_length=MAX_KEY_CHARS)], Field(description="Job id or name.")
]
LoseWork = Annotated[
    StrictBool, Field(description="Whether jobs that neither save nor can be parked are stopped too, and lose their work.")
]


class CancellationsBody(Body):
    """Jobs to cancel."""

    example = '{"jobs": [412, "vit-huge"]}'
    jobs: list[Key] = Field(max_length=MAX_TOGETHER)


class PatternBody(Body):
    """Which jobs a request is about. A job fits if it fits every field that is not empty."""

    example = '{"matching": {"user": "ana", "name": "sweep-*"}}'
    user: StrictStr = Field("", max_length=MAX_USER_CHARS, description="User of the jobs.")
    name: StrictStr = Field("", max_length=MAX_KEY_CHARS, description="Name, or a pattern with * and ?.")
    tenant: StrictStr = Field("", max_length=MAX_PATH_CHARS, description="Tenant, with the tenants below it.")
    phase: StrictStr = Field("", max_length=MAX_WORD_CHARS, description="Phase; `suspended` for parked or checkpointed jobs.")


class VerbBody(Body):
    """Details of a request about one job."""

    example = '{"lose_work": true}'
    lose_work: LoseWork = False
    max_run_time: Seconds | None = Field(
        None, description="With `requeue`: longest run time of the jobs, in seconds or like 24h, instead of that of their specs."
    )


class RequestBody(VerbBody):
    """A request about several jobs, for all of them or for none."""

    example = '{"verb": "hold", "jobs": [412, "vit-huge"]}'
    verb: Verb
    jobs: list[Key] = Field(default_factory=list, max_length=MAX_TOGETHER)
    matching: PatternBody | None = Field(None, description="Pattern of the jobs, instead of `jobs`.")
    dry_run: StrictBool = Field(False, description="Whether the jobs are only listed, and nothing happens.")


class ChangeBody(Body):
    """Fields of a job's spec that are to change. Null for no limit or no deadline."""

    example = '{"priority": 10}'
    name: StrictStr | None = Field(None, description="Job name.")
    priority: int | None = Field(None, description="Priority from -1000 to 1000.")
    weight: float | None = Field(None, description="Weight under fair policies.")
    max_run_time: float | str | None = Field(None, description="Longest run time, in seconds or like 12h.")
    deadline: str | None = Field(None, description="Date and time by which the job should finish.")


class PolicyBody(Body):
    """A policy."""

    example = '{"policy": "fifo"}'
    policy: Annotated[
        str, Field(min_length=1, max_length=MAX_PATH_CHARS, description="NAME[:key=value,...][+placer]"), _PRINTABLE
    ]


Gpu = Annotated[StrictInt | None, Field(ge=0, le=MAX_GPUS, description="Number of one GPU of the node; none for the node.")]
Why = Annotated[str, Field(max_length=MAX_REASON_CHARS, description="Reason, which users see."), _must(_is_line)]
UntilS = Annotated[float | None, Field(ge=0, allow_inf_nan=False, description="End as a Unix time, in s.")]
Length = Annotated[float | None, Field(gt=0, allow_inf_nan=False, description="Length, in s; instead of the end.")]


class DrainBody(Body):
    """A drain of a node or one of its GPUs. Without an end, an operator has to end it."""

    example = '{"gpu": 3, "reason": "fan", "seconds": 7200}'
    gpu: Gpu = None
    reason: Why = ""
    until_s: UntilS = None
    seconds: Length = None


class UndrainBody(Body):
    """The end of a drain."""

    example = '{"gpu": 3}'
    gpu: Gpu = None


class RemovalBody(Body):
    """The removal of a node."""

    example = '{"force": false}'
    force: Annotated[StrictBool, Field(description="Whether to remove a lost node on which jobs may still run.")] = False


Owner = Annotated[StrictStr, Field(min_length=1, max_length=MAX_KEY_CHARS), _must(_is_line)]


class ReservationBody(Body):
    """A maintenance window, or with tenants or users a reservation for their jobs."""

    example = '{"places": ["n1", "n2:3"], "from_s": 1795000000, "seconds": 7200, "reason": "new disks"}'
    places: Annotated[
        list[Annotated[StrictStr, Field(min_length=1, max_length=MAX_KEY_CHARS)]],
        Field(min_length=1, max_length=MAX_TOGETHER, description="Nodes `n1`, GPUs `n1:3`, or a number of GPUs `8xA100`."),
    ]
    from_s: Annotated[float, Field(ge=0, allow_inf_nan=False, description="Beginning as a Unix time, in s.")]
    reason: Why = ""
    until_s: UntilS = None
    seconds: Length = None
    tenants: list[Owner] = Field(
        default_factory=list, max_length=MAX_TOGETHER, description="Tenants whose jobs may use the GPUs."
    )
    users: list[Owner] = Field(default_factory=list, max_length=MAX_TOGETHER, description="Users whose jobs may use the GPUs.")


BODIES = (
    SubmissionBody,
    SubmissionsBody,
    CancellationsBody,
    VerbBody,
    RequestBody,
    PatternBody,
    ChangeBody,
    PolicyBody,
    DrainBody,
    UndrainBody,
    RemovalBody,
    ReservationBody,
)
_PROBLEMS: Mapping[str, tuple[str, str | None]] = {
    "user": ("is not the name of a user.", None),
    "workdir": ("is not an absolute path.", '"workdir": "/home/ana/run"'),
    "env": ("cannot be an environment variable.", '"env": {"PATH": "/usr/bin"}'),
    "idempotency_key": (f"is not a text of 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters.", '"idempotency_key": "4f1c0d7e"'),
    "policy": ("is not the name of a policy.", None),
    "verb": (f"is not a request. All: {', '.join(Verb)}.", '"verb": "hold"'),
    "max_run_time": ("is not a length of time.", '"max_run_time": "24h"'),
    "lose_work": ("is not true or false.", '"lose_work": true'),
    "dry_run": ("is not true or false.", '"dry_run": true'),
    "matching": ("is not a pattern of jobs.", PatternBody.example),
    "gpu": ("is not the number of a GPU.", None),
    "reason": (f"is not a line of at most {MAX_REASON_CHARS} characters.", None),
    "from_s": ("is not a Unix time in seconds.", None),
    "until_s": ("is not a Unix time in seconds.", None),
    "seconds": ("is not a length of time in seconds.", None),
    "force": ("is neither true nor false.", None),
    "places": ("is not a list of nodes and GPUs.", None),
    "tenants": ("is not a list of tenants.", '"tenants": ["vision"]'),
    "users": ("is not a list of users.", '"users": ["ana"]'),
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


def read_cancellations(raw: bytes) -> JobRequest:
    """Parse a request to cancel jobs."""
    return JobRequest(verb=Verb.CANCEL, jobs=tuple(str(key) for key in _read(CancellationsBody, raw).jobs))


def read_request(raw: bytes) -> JobRequest:
    """Parse a request about several jobs."""
    body = _read(RequestBody, raw)
    matching = None if body.matching is None else JobPattern(**body.matching.model_dump())
    if (matching is None) == ("jobs" not in body.model_fields_set):
        raise InputError("needs either jobs or matching.", field="request", hint=RequestBody.example)
    if body.verb is Verb.REQUEUE and matching is not None:
        raise InputError("requeue needs the ids or names of jobs.", field="matching", hint='"jobs": [412]')
    jobs = tuple(str(key) for key in body.jobs)
    _check_limit(body.verb, body)
    return JobRequest(
        verb=body.verb,
        jobs=jobs,
        matching=matching,
        lose_work=body.lose_work,
        max_run_time=body.max_run_time,
        dry_run=body.dry_run,
    )


def read_verb(verb: Verb, raw: bytes) -> JobRequest:
    """Parse a request about one job, which its path names. The body may be empty, or null."""
    raw = b"{}" if raw.strip() in (b"", b"null") else raw
    body = _read(VerbBody, raw)
    _check_limit(verb, body)
    return JobRequest(verb=verb, lose_work=body.lose_work, max_run_time=body.max_run_time)


def read_change(raw: bytes) -> tuple[Spec, frozenset[str]]:
    """Parse a change of a job. Return a spec with the new values, and the names of the changed fields."""
    changed = _read(ChangeBody, raw).model_fields_set
    if not changed:
        raise InputError(f"nothing changes. All fields: {', '.join(ChangeBody.model_fields)}.", hint=ChangeBody.example)
    plain = {name: value for name, value in json.loads(raw).items() if value is not None or name in ("max_run_time", "deadline")}
    if missing := changed - plain.keys():
        raise InputError("must have a value.", field=min(missing), value="None", hint=ChangeBody.example)
    return spec_from(spec_tree({"run": "true", **plain})), frozenset(changed)


def _check_limit(verb: Verb, body: VerbBody) -> None:
    if body.max_run_time is not None and verb is not Verb.REQUEUE:
        raise InputError(
            f"does not go with {verb}.", field="max_run_time", value=f"{body.max_run_time:g}", hint="rota change JOB"
        )


def read_policy(raw: bytes) -> str:
    return _read(PolicyBody, raw).policy.strip()


def read_drain(raw: bytes) -> DrainBody:
    return _timed(_read(DrainBody, raw or b"{}"))


def read_undrain(raw: bytes) -> UndrainBody:
    return _read(UndrainBody, raw or b"{}")


def read_removal(raw: bytes) -> RemovalBody:
    return _read(RemovalBody, raw or b"{}")


def read_reservation(raw: bytes) -> ReservationBody:
    return _timed(_read(ReservationBody, raw))


T = TypeVar("T", DrainBody, ReservationBody)


def _timed(body: T) -> T:
    """Return a body that has an end or a length, not both."""
    if body.until_s is not None and body.seconds is not None:
        raise InputError(
            "is given beside until_s; one of them is enough.", field="seconds", value=f"{body.seconds:g}", hint=body.example
        )
    return body


def _read(model: type[B], raw: bytes) -> B:
    try:
        plain = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise InputError("the request is nested too deeply.", hint=model.example) from None
    except ValueError as problem:
        raise InputError(f"the request is not JSON: {shown(str(problem))}.", hint=model.example) from None
    if not isinstance(plain, dict) or (_has_jobs(model) and not isinstance(plain.get("jobs"), list)):
        listed = " with a list of jobs" if _has_jobs(model) else ""
        raise InputError(f"the request is not a JSON object{listed}.", hint=model.example)
    try:
        json.dumps(plain, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # such text can be neither written to a file nor given to a process
        raise InputError("the request is not valid text: it contains half a character.", hint="write it as UTF-8") from None
    try:
        return model.model_validate(plain)
    except ValidationError as problem:
        _refuse(model, plain, problem.errors(include_url=False))


def _has_jobs(model: type[Body]) -> bool:
    """Return whether a body needs a list of jobs."""
    return "jobs" in model.model_fields and model.model_fields["jobs"].is_required()


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
