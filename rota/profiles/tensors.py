"""The distribution of a model's parameters over its tensors: taken from a module, and kept in a file.

| column | what it is |
|---|---|
| `profile` | the key that jobs name in their spec |
| `parameters` | number of trained parameters |
| `largest_name` | name of the largest tensor; may be empty |
| `largest` | number of parameters in the largest tensor |
| `skew` | `largest` / `parameters` |

    profile,parameters,largest_name,largest,skew
    vgg19,143667240,classifier.0.weight,102760448,0.71527
"""

import math
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.errors import OptionError, ProfileError
from rota.files.csv_table import CsvRow, read_table
from rota.files.text import as_csv
from rota.profiles.modules import built_module, explained

COLUMNS = ("profile", "parameters", "largest_name", "largest", "skew")

_EXAMPLE = "a header " + ",".join(COLUMNS)
_AGAIN = "take it from the module again: rota profile tensors WHERE --save FILE"
_ROUNDED = 1e-4
"""Relative tolerance of a skew that is written with few digits."""


@dataclass(frozen=True, slots=True)
class Tensors:
    """The trained tensors of a model. Frozen tensors are never sent, and tensors that layers share count once."""

    profile: str
    tensors: int
    parameters: int
    largest_name: str
    largest: int

    @property
    def skew(self) -> float:
        """The largest tensor's fraction of all parameters."""
        return self.largest / self.parameters


def module_tensors(where: str, arguments: Mapping[str, Any] | None = None, profile: str = "") -> Tensors:
    """Return the tensors of the model that `where` builds, `package.module:Net` or `path/to/net.py:Net`. This runs the named
    code.

    `profile` is the name of the profile; by default that of the class or function.
    """
    name = profile or where.rpartition(":")[2]
    if not profile and not name.strip():
        raise OptionError("does not name what to build.", field="WHERE", value=where, hint="net.py:Net, a class or a function")
    if not name.strip() or not name.isprintable():
        raise OptionError("is not a name for a profile.", field="--profile", value=name, hint="--profile vgg19")
    sizes = _sizes(where, built_module(where, arguments or {}))
    largest = max(sizes, key=lambda each: sizes[each])
    # A name must not have line breaks, since the file has one line for each.
    return Tensors(name.strip(), len(sizes), sum(sizes.values()), " ".join(largest.split()), sizes[largest])


def _sizes(where: str, module: Any) -> dict[str, int]:
    """Return name -> number of parameters of every trained tensor."""
    with explained(where, "named_parameters() must give pairs of a name and a tensor"):
        parameters: dict[str, Any] = dict(module.named_parameters())
    trained = {name: each for name, each in parameters.items() if getattr(each, "requires_grad", True)}
    sizes = {name: _size(where, name, each) for name, each in trained.items()}
    if sum(sizes.values()):
        return sizes
    if len(trained) < len(parameters):
        problem, hint = "trains nothing: its parameters are frozen.", "name the model as you train it"
    else:
        problem, hint = "has no parameters.", "name the module that holds the layers"
    raise OptionError(problem, field="WHERE", value=where, hint=hint)


def _size(where: str, name: str, parameter: Any) -> int:
    try:
        return math.prod(int(width) for width in parameter.shape)
    except Exception:  # A lazy layer of PyTorch has no shape before its first input.
        problem = f"the size of {name} is not known before its first input."
        raise OptionError(problem, field="WHERE", value=where, hint="give the layer its widths") from None


def read_tensors(path: Path | str) -> dict[str, float]:
    """Return profile -> skew."""
    found = {profile: float(line["skew"]) for profile, line in _read(path).items()}
    if not found:
        raise ProfileError("a header, but no profiles below it.", where=str(path), hint=_AGAIN)
    return found


def save_tensors(path: Path | str, found: Iterable[Tensors]) -> None:
    """Write tensors to a file. Profiles that the file already has are replaced, others stay. Readers never see a half-written
    file."""
    place = Path(path).resolve()
    lines = _read(path) if _holds_something(place) else {}
    for each in found:
        cells = (each.profile, each.parameters, each.largest_name, each.largest, float(f"{each.skew:.6g}"))
        lines[each.profile] = dict(zip(COLUMNS, cells, strict=True))
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8", newline="") as file:
            file.write(as_csv(list(lines.values())))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise ProfileError(
            f"cannot be written: {why}.", where=str(path), hint="a file in a folder that you may write to"
        ) from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _holds_something(place: Path) -> bool:
    try:
        return place.is_dir() or place.stat().st_size > 0
    except OSError:  # it does not exist yet, or writing raises the error
        return False


def _read(path: Path | str) -> dict[str, dict[str, Any]]:
    """Return profile -> its checked line."""
    table = read_table(path, ProfileError)
    table.check_header("tensors", COLUMNS, [name for name in COLUMNS if name != "largest_name"], _EXAMPLE)
    found: dict[str, dict[str, Any]] = {}
    seen: dict[str, int] = {}
    for row in table.rows():
        profile = row.text("profile")
        if not profile:
            raise row.wrong("profile", "is empty.", hint="name the profile as your jobs do")
        if profile in found:
            raise row.wrong("profile", f"is already given on line {seen[profile]}.", hint="keep one of the two lines")
        parameters, largest, skew = _count(row, "parameters"), _count(row, "largest"), row.number("skew")
        if largest > parameters:
            raise row.wrong("largest", f"is more than all parameters, {parameters}.", hint=_AGAIN)
        if not math.isclose(skew, largest / parameters, rel_tol=_ROUNDED):
            raise row.wrong("skew", f"is not largest / parameters, {largest / parameters:.6g}.", hint=_AGAIN)
        cells = (profile, parameters, row.text("largest_name"), largest, skew)
        found[profile], seen[profile] = dict(zip(COLUMNS, cells, strict=True)), row.line
    return found


def _count(row: CsvRow, column: str) -> int:
    value = row.number(column)
    if not value.is_integer() or value < 1:
        raise row.wrong(column, "is not a whole number from 1.", hint=_AGAIN)
    return int(value)
