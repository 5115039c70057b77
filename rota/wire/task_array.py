"""Job arrays and sweeps: one spec that stands for several jobs, its tasks.

A task gets its index, or its values of a sweep, as environment variables. They are never put into the text of a command.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rota.wire.job_filter import MAX_TOGETHER

if TYPE_CHECKING:
    from rota.wire.spec import Spec
    from rota.wire.submission import Submission

MAX_INDEX = 10**9
_PART = re.compile(r"(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?", re.ASCII)
_SPAN = re.compile(r"(-?\d{1,10})\.\.(-?\d{1,10})", re.ASCII)
UNNAMED = "array"
"""Name of an array whose spec has none."""

Value = str | int | float


class TaskArray(BaseModel):
    """Tasks of an array."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    indices: str | None = Field(
        None, max_length=4096, description="Indices of the tasks, such as 0-99, 0,3,7-9 or 0-30:10. Left out for a sweep."
    )
    at_once: int | None = Field(None, ge=1, le=MAX_TOGETHER, description="How many tasks may run at once. Default: no limit.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """Turn `0-99%8`, or `%8` for a sweep, into the two fields."""
        if isinstance(value, bool) or not isinstance(value, str | int):
            return value
        indices, percent, most = str(value).partition("%")
        if percent and not (most.isascii() and most.isdecimal() and int(most) >= 1):
            raise ValueError(f"has no number of tasks after %: {most!r}")
        return {"indices": indices or None, **({"at_once": int(most)} if percent else {})}

    @field_validator("indices", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("indices")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        if value is not None:
            indices_of(value)
        return value


def indices_of(text: str) -> tuple[int, ...]:
    """Return the indices that a text such as `0,3,7-9` or `0-30:10` means. Raise ValueError if it is wrong."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part.strip()!r} is not an index or a range of indices. Write it like 0-99, 0,3,7-9 or 0-30:10")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step < 1 or last > MAX_INDEX:
            raise ValueError(f"{part.strip()!r} is not a range upwards, with indices from 0 to {MAX_INDEX:,}")
        some = range(first, last + 1, step)
        if len(found) + len(some) > MAX_TOGETHER:
            raise ValueError(f"has more than {MAX_TOGETHER:,} tasks")
        if any(index in found for index in some):
            raise ValueError(f"has an index twice, in {part.strip()!r}")
        found |= dict.fromkeys(some)
    return tuple(found)


def values_of(given: Any) -> list[Value]:
    """Return the values of a parameter: a list, or a range such as `0..4`, whose end is included. Raise ValueError if they are
    wrong."""
    if isinstance(given, str):
        match = _SPAN.fullmatch(given.strip())
        if match is None or int(match[2]) < int(match[1]):
            raise ValueError(f"{given!r} is neither a list of values nor a range such as 0..4")
        if int(match[2]) - int(match[1]) >= MAX_TOGETHER:
            raise ValueError(f"has more than {MAX_TOGETHER:,} tasks")
        return list(range(int(match[1]), int(match[2]) + 1))
    values = given if isinstance(given, list) else [given]
    if not values or any(isinstance(each, bool) or not isinstance(each, str | int | float) for each in values):
        raise ValueError("is not a list of numbers or texts")
    if len({str(each) for each in values}) < len(values):
        raise ValueError("has a value twice")
    if any(not str(each).isprintable() for each in values):
        raise ValueError("has a value with a control character")
    return values


def tasks_in(sweep: Mapping[str, list[Value]]) -> int:
    """Return the number of tasks of a sweep."""
    return prod(len(values) for values in sweep.values())


@dataclass(frozen=True, kw_only=True)
class ArrayTask:
    """Which task of which array a job is."""

    name: str
    """Name of the array."""
    text: str
    """Indices or parameters of all its tasks."""
    index: int
    first: int
    last: int
    """Smallest and largest index of the array are `first` and `last`."""
    count: int
    """Number of tasks of the array."""
    at_once: int | None = None
    """How many tasks may run at once; None if there is no limit."""
    array: int | None = None
    """Number of the array; None until the scheduler has accepted it."""

    @property
    def title(self) -> str:
        """Name of the array as tables show it."""
        return f"{self.name}[{self.text}]"

    @property
    def variables(self) -> dict[str, str]:
        """Variables of the task."""
        return {"ROTA_ARRAY_ID": str(self.array), "ROTA_ARRAY_INDEX": str(self.index), "ROTA_ARRAY_COUNT": str(self.count)}

    @property
    def slurm_variables(self) -> dict[str, str]:
        """Variables of the task under Slurm's names."""
        return {
            "SLURM_ARRAY_JOB_ID": str(self.array),
            "SLURM_ARRAY_TASK_ID": str(self.index),
            "SLURM_ARRAY_TASK_COUNT": str(self.count),
            "SLURM_ARRAY_TASK_MIN": str(self.first),
            "SLURM_ARRAY_TASK_MAX": str(self.last),
        }


def is_array(sent: "Submission") -> bool:
    """Return whether a submission stands for several jobs."""
    return sent.spec.array is not None or bool(sent.spec.sweep)


def task_count(spec: "Spec") -> int:
    """Return the number of jobs that a spec stands for."""
    if spec.sweep:
        return tasks_in(spec.sweep)
    return 1 if spec.array is None or spec.array.indices is None else len(indices_of(spec.array.indices))


def tasks_of(sent: "Submission") -> "list[Submission]":
    """Return the submissions of an array's tasks. The first has the key, since all are accepted together or none."""
    name = sent.spec.name or UNNAMED
    parts = list(_parts(sent))
    indices = [index for index, _, _ in parts]
    task = ArrayTask(
        name=name,
        text=_text_of(sent),
        index=indices[0],
        first=min(indices),
        last=max(indices),
        count=len(parts),
        at_once=None if sent.spec.array is None else sent.spec.array.at_once,
    )
    found: list[Submission] = []
    for index, label, values in parts:
        changes = {"name": f"{name}[{label}]", "array": None, "sweep": {}, "env": {**sent.spec.env, **values}}
        key = sent.idempotency_key if not found else None
        spec = sent.spec.model_copy(update=changes)
        found.append(replace(sent, spec=spec, idempotency_key=key, task=replace(task, index=index)))
    return found


def _parts(sent: "Submission") -> Iterator[tuple[int, str, dict[str, Value]]]:
    """Yield the index, the label and the variables of each task."""
    spec = sent.spec
    if spec.sweep:
        for index, values in enumerate(product(*spec.sweep.values())):
            chosen = dict(zip(spec.sweep, values, strict=True))
            yield index, ",".join(f"{name}={value}" for name, value in chosen.items()), chosen
    elif spec.array is not None and spec.array.indices is not None:
        for index in indices_of(spec.array.indices):
            yield index, str(index), {}


def _text_of(sent: "Submission") -> str:
    spec = sent.spec
    if spec.sweep:
        return ",".join(f"{name}={'|'.join(map(str, values))}" for name, values in spec.sweep.items())
    assert spec.array is not None
    return (spec.array.indices or "").replace(" ", "")
