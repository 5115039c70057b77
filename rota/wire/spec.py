"""The job spec: what a user requests. Only `run` is required.

The reference page and the JSON schema are generated from the fields here.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from rota.errors import SpecError
from rota.files.csv_table import closest, shown
from rota.files.tree import DEEPEST, TreeEntry, duration_seconds, read_tree
from rota.model.cluster import ACCELERATOR, canonical
from rota.model.dependency import When
from rota.model.job import MAX_PRIORITY
from rota.model.units import MILLI, milligpus_of
from rota.wire.job_filter import MAX_TOGETHER
from rota.wire.notify import Notify
from rota.wire.set_by_rota import SET_BY_ROTA
from rota.wire.spec_examples import EXAMPLES
from rota.wire.task_array import TaskArray, Value, tasks_in, values_of

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TENANT = re.compile(r"[\w.-]+(/[\w.-]+)*")

PROGRESS_BY_SESSION = "session"
"""Value of `progress` for a script that reports its steps itself, through `rota.train`."""

MAX_STEPS = 10**15
MAX_BATCH_SIZE = 10**9
MAX_SECONDS = 1e8
"""Maximum length of time in a spec, in seconds: three years."""
MIN_WEIGHT, MAX_WEIGHT = 1e-6, 1e6
MAX_TEXT = 4096
MAX_TYPES = 64
MAX_AFTER = 1000
MAX_CLASSES, MAX_WIDE_CLASSES = 64, 8
"""Maximum number of character classes in a pattern, and of classes with characters beyond Latin-1. To compile such a class takes
up to 10 ms, so a pattern of hundreds would keep the scheduler from serving other users."""
_WIDE = re.compile(r"[^\x00-\xff]|\\[uUN]")
_DEADLINES_S = 0.0, 253370764800.0
"""Range of deadlines as Unix times: the years 1970 to 9998."""


def _duration(value: Any) -> Any:
    if isinstance(value, str):
        seconds = duration_seconds(value)
        if seconds is None:
            raise ValueError("is not a length of time. Write it like 90s, 15m, 2h or 30d")
        return seconds
    return value


def _not_a_truth(value: Any) -> Any:
    """Refuse `yes` and `true` where a number or a text is needed."""
    if isinstance(value, bool):
        raise ValueError("must not be true or false")
    return value


def _date(value: Any) -> Any:
    if isinstance(value, int | float):
        raise ValueError("is a number. Write a date and a time, like 2026-12-01T09:00")
    return value


def _one_or_many(value: Any) -> Any:
    """Turn one value into a list of one."""
    return value if isinstance(value, list | tuple) else [value]


def _variables(value: Any) -> Any:
    """Turn `[NAME=VALUE, NAME]` into `{NAME: VALUE, NAME: null}`."""
    if not isinstance(value, list):
        return value
    pairs = [each.partition("=") if isinstance(each, str) else (str(each), "", "") for each in value]
    return {name: text if equals else None for name, equals, text in pairs}


def _memory(value: Any) -> Any:
    """Convert `12 GiB`, `512 MiB` or a number of GiB to GiB."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"\s*([0-9.]+)\s*(GiB|G|MiB|M)?\s*", value)
    if found is None:
        raise ValueError("is not a memory size. Write it like 12 GiB")
    return float(found[1]) / (1024 if (found[2] or "G").startswith("M") else 1)


Gib = Annotated[
    float, BeforeValidator(_memory), Field(gt=0, le=1e4, allow_inf_nan=False, json_schema_extra={"example": "12 GiB"})
]
Seconds = Annotated[
    float,
    BeforeValidator(_duration),
    Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False, json_schema_extra={"example": "60s"}),
]
BatchSize = Annotated[int, Field(ge=1, le=MAX_BATCH_SIZE)]


def _no_null(value: str | None) -> str | None:
    """Refuse null characters, which the operating system does not allow in paths and names."""
    if value is not None and "\0" in value:
        raise ValueError("contains a null character")
    return value


Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT), AfterValidator(_no_null)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Range(_Strict):
    """A job that may be resized."""

    min: int = Field(ge=1, le=1_000_000, description="Minimum number of GPUs.")
    max: int = Field(ge=1, le=1_000_000, description="Maximum number of GPUs.")

    @model_validator(mode="after")
    def _ordered(self) -> "Range":
        if self.min > self.max:
            raise ValueError("min is more than max")
        return self

    @property
    def counts(self) -> tuple[int, ...]:
        """GPU counts from `min` to `max`: each count up to 8, then four in each doubling, and `max`."""
        found, count = [], self.min
        while count < self.max:
            found.append(count)
            count += max((1 << (count.bit_length() - 1)) // 4, 1)
        return (*found, self.max)


class Checkpoint(_Strict):
    """How the job saves its state."""

    dir: Text | None = Field(
        None,
        description="Folder for checkpoints below the working directory, or a URL such as s3://BUCKET/FOLDER.",
    )
    grace: Seconds = Field(60.0, description="Time from SIGTERM to SIGKILL, in seconds or like 5m.")
    saves: bool | None = Field(
        None,
        description="Whether the job saves its state on SIGTERM and resumes from it. A job that does not is parked where "
        "possible, and otherwise keeps its GPUs until it ends. If left out, `dir` or `grace` mean true; without them "
        "Rota finds out while the job runs.",
    )

    @model_validator(mode="before")
    @classmethod
    def _implied(cls, value: Any) -> Any:
        """Set `saves` if `dir` or `grace` state that the job saves."""
        if isinstance(value, dict) and value.get("saves") is None and value.keys() & {"dir", "grace"}:
            return {**value, "saves": True}
        return value

    @field_validator("dir")
    @classmethod
    def _below(cls, value: str | None) -> str | None:
        if value is not None and (value.startswith("/") or ".." in value.split("/")):
            raise ValueError("is not below the working directory")
        return value


class After(_Strict):
    """Another job that must end before this one starts."""

    job: Annotated[int, Field(ge=0)] | Text | None = Field(None, description="Id or name of the job.")
    index: int | None = Field(None, ge=0, description="Instead: index of an earlier job of the same request, from 0.")
    when: When = Field(When.OK, description="How the job must end: ok (finished), ended (in any way) or failed.")

    @field_validator("job", "index", mode="before")
    @classmethod
    def _sayable(cls, value: Any) -> Any:
        return _not_a_truth(value)

    @model_validator(mode="after")
    def _one(self) -> "After":
        if (self.job is None) == (self.index is None):
            raise ValueError("needs either job or index")
        return self


class Batch(_Strict):
    """An elastic batch size."""

    size: BatchSize = Field(description="Examples per step.")
    min: BatchSize | None = Field(None, description="Minimum batch size.")
    max: BatchSize | None = Field(None, description="Maximum batch size.")

    @model_validator(mode="after")
    def _ordered(self) -> "Batch":
        if not (self.min or self.size) <= self.size <= (self.max or self.size):
            raise ValueError("size is not between min and max")
        return self

    @property
    def sizes(self) -> tuple[int, ...]:
        """Batch sizes from `min` to `max`: `size` doubled and halved as often as possible."""
        found, least, most = [self.size], self.min or self.size, self.max or self.size
        while found[0] % 2 == 0 and found[0] // 2 >= least:
            found.insert(0, found[0] // 2)
        while found[-1] * 2 <= most:
            found.append(found[-1] * 2)
        return tuple(found)


_Command = Annotated[str, WithJsonSchema({"type": "string", "pattern": r"\S"})]
_Vector = Annotated[list[str], WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 1})]


class Spec(_Strict):
    """A training job."""

    run: _Command | _Vector = Field(description="Command: a text runs through `bash -c`, a list is an argument vector.")
    name: str | None = Field(None, min_length=1, max_length=200, description="Job name, shown in tables.")
    gpus: int | float | Range = Field(
        1, description="Number of GPUs, or a fraction of one such as 0.5. {min, max} makes the job elastic."
    )
    accelerators: Annotated[list[str], BeforeValidator(_one_or_many)] = Field(
        default_factory=list,
        max_length=MAX_TYPES,
        description="Accepted accelerator types. Default: any. The policy knows how fast each is.",
    )
    steps: int | None = Field(
        None, ge=1, le=MAX_STEPS, description="Optimiser steps of the whole job. With them, Rota shows progress."
    )
    progress: str | None = Field(
        None,
        max_length=MAX_TEXT,
        description="Regular expression that finds the step in the output, with an optional second group for the total; or "
        "`session` if the script reports its steps through `rota.train`.",
    )
    checkpoint: Checkpoint = Field(
        default_factory=lambda: Checkpoint.model_validate({}), description="How the job saves its state."
    )
    park: bool = Field(
        True, description="Whether the job may be parked in host memory, where possible, when another job gets its GPUs."
    )
    preemptible: bool | None = Field(
        None,
        description="true: another job may get the GPUs even if this job is not known to save its state, and then loses its "
        "work. false: the job keeps its GPUs until it ends.",
    )
    gpu_memory: Gib | None = Field(
        None,
        description="Maximum memory on each GPU, such as 12 GiB. Jobs share a GPU only if all fit; MPS enforces the limit.",
    )
    cpus: float | None = Field(
        None,
        gt=0,
        le=100_000,
        allow_inf_nan=False,
        description="Maximum number of CPUs on each of its nodes. Default: no limit; CPUs are shared in proportion to GPUs.",
    )
    memory: Gib | None = Field(
        None, description="Maximum host memory on each of its nodes, such as 64 GiB. A job that takes more is killed."
    )
    profile: Text | None = Field(
        None, description="Profile with the job's rates. If left out, Rota learns them while the job runs."
    )
    weight: float = Field(
        1.0, ge=MIN_WEIGHT, le=MAX_WEIGHT, allow_inf_nan=False, description="Weight under fair policies, within the tenant."
    )
    priority: int = Field(
        0,
        ge=-MAX_PRIORITY,
        le=MAX_PRIORITY,
        description="Priority from -1000 to 1000. Jobs of a higher priority come first under every policy, and take GPUs "
        "from jobs of a lower one.",
    )
    tenant: str | None = Field(None, max_length=MAX_TEXT, description="Tenant of the job, as a path such as vision/pretraining.")
    deadline: Annotated[datetime | None, BeforeValidator(_date)] = Field(
        None, description="Date and time by which the job should finish, for policies that use deadlines."
    )
    after: Annotated[list[Annotated[int, Field(ge=0)] | Text | After], BeforeValidator(_one_or_many)] = Field(
        default_factory=list,
        max_length=MAX_AFTER,
        description="Jobs that must end before this one starts, by id or name. `{job: 412, when: failed}` waits for another end "
        "than a successful one: ok, ended or failed. If the job can never start, it is cancelled.",
    )
    max_run_time: Seconds | None = Field(
        None,
        description="Longest run time, such as 12h. Then the job is asked to save and ends as failed. Time parked or suspended "
        "does not count.",
        json_schema_extra={"example": "12h"},
    )
    batch: Batch | None = Field(None, description="Elastic batch size.")
    retries: int = Field(0, ge=0, le=1000, description="Number of restarts after failures; suspensions do not count.")
    workdir: Text | None = Field(None, description="Working directory. Default: the folder from which the job was submitted.")
    env: Annotated[Mapping[str, str | int | float | None], BeforeValidator(_variables)] = Field(
        default_factory=dict,
        description="Environment variables. A variable without a value is passed on from the submitting process.",
    )
    sweep: dict[str, Any] = Field(
        default_factory=dict,
        max_length=20,
        description="Parameters with lists of values, or ranges such as 0..4. Each combination is a job, which gets its values "
        "as environment variables.",
    )
    array: TaskArray | None = Field(
        None,
        description="Job array: one job for each index, such as 0-99; or 0-99%8, of which 8 run at once. With `sweep`, only "
        "`at_once`, or %8.",
    )
    notify: Notify | None = Field(
        None, description="Notification of what happens to the job: a URL that gets a POST, or a command of an operator."
    )
    compat: Literal["slurm"] | None = Field(
        None, description="`slurm`: the job gets Slurm's variables too, such as SLURM_JOB_ID. Default: only Rota's."
    )

    @property
    def most_gpus(self) -> float:
        """Number of requested GPUs; the maximum for an elastic job."""
        return self.gpus.max if isinstance(self.gpus, Range) else self.gpus

    @property
    def may_park(self) -> bool:
        """Whether the job may be parked. Its GPU memory would count for a limit of host memory."""
        return self.park and self.memory is None

    @property
    def gpu_counts(self) -> tuple[int, ...]:
        """GPU counts that an elastic job accepts; empty if the job is not elastic."""
        return self.gpus.counts if isinstance(self.gpus, Range) else ()

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Batch sizes that the job accepts; empty if its spec has no batch size."""
        return self.batch.sizes if self.batch is not None else ()

    @property
    def awaited(self) -> list[After]:
        """Jobs that must end before this one starts."""
        return [each if isinstance(each, After) else After(job=each, index=None, when=When.OK) for each in self.after]

    @field_validator("after", mode="before")
    @classmethod
    def _no_truths(cls, value: Any) -> Any:
        for each in value if isinstance(value, list) else [value]:
            _not_a_truth(each)
        return value

    @field_validator("gpus", "cpus", "steps", "weight", "priority", "retries", "name", "profile", mode="before")
    @classmethod
    def _sayable(cls, value: Any) -> Any:
        return _not_a_truth(value)

    @field_validator("env", mode="before")
    @classmethod
    def _all_sayable(cls, value: Any) -> Any:
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]:
            _not_a_truth(each)
        return value

    @field_validator("run")
    @classmethod
    def _runs(cls, value: str | list[str]) -> str | list[str]:
        if not value or (isinstance(value, str) and not value.strip()) or (isinstance(value, list) and not value[0]):
            raise ValueError("is empty. Write the command that trains")
        if any("\0" in part for part in ([value] if isinstance(value, str) else value)):
            raise ValueError("contains a null character")
        return value

    @field_validator("name")
    @classmethod
    def _printable(cls, value: str | None) -> str | None:
        if value is not None and not value.isprintable():
            raise ValueError("contains a control character")
        if value is not None and value.isdecimal():
            raise ValueError("is a number, which Rota would read as a job's id")
        return value

    @field_validator("gpus")
    @classmethod
    def _some(cls, value: int | float | Range) -> int | float | Range:
        if isinstance(value, Range):
            return value
        if 0 < value < 1 and abs(value * MILLI - milligpus_of(value)) < 1e-6:
            return value
        if not 1 <= value <= 1_000_000 or value != int(value):
            raise ValueError("must be a whole number from 1 to 1,000,000, or a fraction of one GPU such as 0.5")
        return int(value)

    @field_validator("accelerators")
    @classmethod
    def _types(cls, value: list[str]) -> list[str]:
        for each in value:
            if not ACCELERATOR.fullmatch(each):
                raise ValueError(f"{each!r} is not an accelerator type")
        return [canonical(each) for each in value]

    @field_validator("deadline")
    @classmethod
    def _in_range(cls, value: datetime | None) -> datetime | None:
        if value is None:
            return value
        try:
            at_s = value.timestamp()
        except (OverflowError, ValueError, OSError):  # in this time zone the year is below 1 or above 9999
            at_s = -1.0
        if not _DEADLINES_S[0] <= at_s <= _DEADLINES_S[1]:
            raise ValueError("is not between the years 1970 and 9998")
        return value

    @field_validator("progress")
    @classmethod
    def _pattern(cls, value: str | None) -> str | None:
        if value is None or value == PROGRESS_BY_SESSION:
            return value
        classes = value.count("[")
        if classes > MAX_CLASSES or min(classes, len(_WIDE.findall(value))) > MAX_WIDE_CLASSES:
            raise ValueError("has too many character classes, like [a-z]. Match the text around the step only")
        try:
            groups = re.compile(value).groups
        except (re.error, RecursionError, OverflowError) as problem:
            raise ValueError(f"is not a regular expression: {problem}") from None
        if groups not in (1, 2):
            raise ValueError(f"has {groups} groups; one finds the step, a second one the total")
        return value

    @field_validator("tenant")
    @classmethod
    def _path(cls, value: str | None) -> str | None:
        if value is not None and not _TENANT.fullmatch(value):
            raise ValueError("is not a tenant path. Write it like vision/pretraining")
        return value

    @field_validator("env")
    @classmethod
    def _names(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        for name, text in value.items():
            if not _ENV_NAME.fullmatch(name) or "\0" in str(text):
                raise ValueError(f"{name!r} cannot be an environment variable")
            if name in SET_BY_ROTA:
                raise ValueError(f"{name} is set by Rota; leave it out")
        return value

    @field_validator("sweep")
    @classmethod
    def _parameters(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, list[Value]]:
        found: dict[str, list[Value]] = {}
        for name, given in value.items():
            if not _ENV_NAME.fullmatch(name):
                raise ValueError(f"{name!r} cannot be an environment variable")
            if name in SET_BY_ROTA or name in info.data.get("env", ()):
                raise ValueError(f"{name} is set by {'Rota' if name in SET_BY_ROTA else 'env'} too")
            try:
                found[name] = values_of(given)
            except ValueError as problem:
                raise ValueError(f"{name} {problem}") from None
        if tasks_in(found) > MAX_TOGETHER:
            raise ValueError(f"has more than {MAX_TOGETHER:,} tasks")
        return found

    @field_validator("array")
    @classmethod
    def _counted(cls, value: TaskArray | None, info: ValidationInfo) -> TaskArray | None:
        if value is not None and (value.indices is None) == (not info.data.get("sweep")):
            raise ValueError("needs indices" if value.indices is None else "has indices, and sweep gives its tasks already")
        return value


def read_spec(path: Path | str) -> Spec:
    """Read a spec from a YAML file. Raise SpecError, which names line, field and value, if it is wrong."""
    return spec_from(read_tree(path, SpecError))


def spec_from(root: TreeEntry) -> Spec:
    root.mapping()
    try:
        return Spec.model_validate(root.plain())
    except ValidationError as problem:
        raise located(root, problem.errors(include_url=False)) from None


def spec_tree(value: Any, name: str = "", depth: int = 0) -> TreeEntry:
    """Convert a spec that came as JSON to the tree of a YAML file, so that its errors are the same, except for line numbers."""
    if depth > DEEPEST:
        raise SpecError("is nested too deeply.", field=shown(name), hint="is it a spec?")
    inner = value
    if isinstance(value, dict):
        inner = {key: spec_tree(each, f"{name}.{key}" if name else key, depth + 1) for key, each in value.items()}
    elif isinstance(value, list):
        inner = [spec_tree(each, f"{name}[{i}]", depth + 1) for i, each in enumerate(value, 1)]
    return TreeEntry("", 0, name, inner, SpecError)


def encode_spec(spec: Spec) -> dict[str, Any]:
    """Return the fields that a spec states, as homes store them. A deadline does not depend on the time zone."""
    plain = spec.model_dump(mode="json", exclude_unset=True)
    return plain if spec.deadline is None else {**plain, "deadline": spec.deadline.astimezone(UTC).isoformat()}


def decode_spec(plain: Mapping[str, Any]) -> Spec:
    """Return a spec that a home has stored. It is not checked again, since the version that stored it may have accepted more."""
    found = {"run": plain["run"], **{name: plain[name] for name in Spec.model_fields if name in plain}}
    for name, part in (("gpus", Range), ("checkpoint", Checkpoint), ("batch", Batch)):
        if isinstance(found.get(name), dict):
            found[name] = part.model_construct(**found[name])
    if found.get("after"):
        found["after"] = [After.model_validate(each) if isinstance(each, dict) else each for each in found["after"]]
    if isinstance(found.get("notify"), dict):
        found["notify"] = Notify.model_validate(found["notify"])
    if found.get("deadline") is not None:
        found["deadline"] = datetime.fromisoformat(found["deadline"])
    return Spec.model_construct(**found)


def latest_deadline(at_s: float) -> datetime:
    """Return a deadline in Unix time as a date, or the last date that a spec may have."""
    return datetime.fromtimestamp(min(at_s, _DEADLINES_S[1]), UTC)


def schema() -> dict[str, Any]:
    """Return the JSON schema of a spec."""
    return Spec.model_json_schema()


def located(root: TreeEntry, faults: Iterable[Any]) -> SpecError:
    """Return the first fault of a validation, with its place in the file."""
    # A misspelt name comes first, since it often explains the rest. Of several readings of a value, we show the one that got
    # furthest.
    fault = min(
        faults,
        key=lambda each: (
            each["type"] != "extra_forbidden",
            root.find(each["loc"])[0].line,
            each["type"].endswith(("_type", "_parsing")),
            -len(each["loc"]),
        ),
    )
    entry, found = root.find(fault["loc"])
    name = ".".join(str(part) for part in found)
    if fault["type"] == "extra_forbidden":
        known = _fields(found[:-1])
        return SpecError(
            f"unknown field {found[-1]!r}.{closest(str(found[-1]), known)} All: {', '.join(known)}.",
            where=root.where,
            line=entry.line,
            field=name,
            hint="rename it, or take it out",
        )
    if fault["type"] == "missing":
        wanted = str(fault["loc"][-1])
        return SpecError(f"needs {wanted!r}.", where=root.where, line=entry.line, field=name, hint=f"add a line {wanted}: ...")
    said = re.sub(r"^(Value error, )?(Input )?", "", fault["msg"])
    value = entry.value if not isinstance(entry.value, list | dict) else None
    return SpecError(
        f"{said}.",
        where=root.where,
        line=entry.line,
        field=name,
        value=shown(str(value)) if value is not None else None,
        hint=EXAMPLES[str(found[0])] if found else "one `name: value` per line",
    )


def _fields(way: tuple[Any, ...]) -> list[str]:
    """Return the field names that are allowed at this place."""
    inner: dict[str, type[BaseModel]] = {
        "checkpoint": Checkpoint,
        "batch": Batch,
        "gpus": Range,
        "after": After,
        "array": TaskArray,
        "notify": Notify,
    }
    return list((inner.get(str(way[0]), Spec) if way else Spec).model_fields)
