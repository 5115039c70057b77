"""Parse `NAME:key=value,...`, and convert the values to the types of the named class's fields."""

import dataclasses
import inspect
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union

from rota.compose.tenants_yaml import read_tenants
from rota.errors import OptionError, UnknownNameError
from rota.files.csv_table import read_table
from rota.model.old_names import OLD_OPTION_NAMES, OLD_OPTION_VALUES
from rota.model.tenants import Tenants


@dataclasses.dataclass(frozen=True)
class ParsedName:
    """A name and its options, as text."""

    name: str
    options: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, what: str) -> "ParsedName":
        """Parse a text such as `tiresias:thresholds=3250/7200,promote=8`, or a file such as `./mine.py:Mine:alpha=2`."""
        head, options = text.strip(), ""
        name, _, rest = text.strip().partition(":")
        if name.endswith(".py"):
            attribute, _, options = rest.partition(":")
            head = f"{name}:{attribute}" if attribute else name
        else:
            head, options = name, rest
        if not head:
            raise OptionError(f"a {what} needs a name.", field=what, value=text, hint="rota policy list")
        found: dict[str, str] = {}
        for item in filter(None, (part.strip() for part in options.split(","))):
            key, equals, value = item.partition("=")
            if not equals or not key.strip():
                hint = f"{head}:key=value,key=value; a list is written with slashes: key=1/2/3"
                raise OptionError("not key=value.", field=f"{what} {head}", value=item, hint=hint)
            if key.strip() in found:
                raise OptionError("given twice.", field=f"{what} {head}", value=key.strip(), hint="give each option once")
            found[key.strip()] = value.strip()
        return cls(head, found)


def options_of(kind: type) -> list[str]:
    """Return the names of a constructor's options."""
    given = inspect.signature(kind).parameters.values()
    return [each.name for each in given if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]


def fit(kind: type, options: Mapping[str, str], where: str, hint: str = "") -> Any:
    """Construct `kind` with options given as text, each converted to the type of its field. `hint` is the next step in errors;
    by default it is the command that shows the policy."""
    hint = hint or f"rota policy show {where}"
    fields = options_of(kind)
    hints = typing.get_type_hints(kind if dataclasses.is_dataclass(kind) else vars(kind).get("__init__", kind))
    values = {}
    for key, text in options.items():
        if key not in fields:  # a home or a sweep of an earlier version may have an old name
            key = next((name for name in OLD_OPTION_NAMES.get(key, ()) if name in fields), key)
        if key not in fields:
            raise UnknownNameError(f"option of {where}", key, fields, hint=hint)
        values[key] = _value(hints.get(key, str), text, where, key, inspect.signature(kind).parameters[key].default)
    try:
        return kind(**values)
    except OptionError:
        raise
    except (TypeError, ValueError) as problem:
        raise OptionError(f"{problem}.", field=where, value=dict(options), hint=hint) from problem


def _value(hint: Any, text: str, where: str, key: str, usual: Any = None) -> Any:
    field = f"{where} {key}"
    origin = typing.get_origin(hint)
    if origin is Literal:
        known = typing.get_args(hint)
        if text not in known:
            text = OLD_OPTION_VALUES.get(text, text)
        if text not in known:
            raise OptionError(f"not one of {', '.join(known)}.", field=field, value=text, hint=f"{where}:{key}={known[0]}")
        return text
    if origin in (Union, types.UnionType):
        inner = [part for part in typing.get_args(hint) if part is not type(None)]
        return None if text.lower() == "none" else _value(inner[0], text, where, key, usual)
    if origin is tuple:
        return _numbers(text, field, where, key)
    if hint is Tenants:
        return read_tenants(Path(text))
    if hint is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if text.lower() not in words:
            raise OptionError("not true or false.", field=field, value=text, hint=f"{where}:{key}=true")
        return words[text.lower()]
    if hint is int:
        return int(_number(text, field, f"{where}:{key}=4", whole=True))
    if hint is float:
        return _number(text, field, f"{where}:{key}={usual if isinstance(usual, float) and math.isfinite(usual) else 1.5:g}")
    return text


def _number(text: str, field: str, example: str, whole: bool = False) -> float:
    try:
        number = float(int(text)) if whole else float(text)
    except ValueError as problem:
        kind = "a whole number" if whole else "a number"
        raise OptionError(f"not {kind}.", field=field, value=text, hint=example) from problem
    if not math.isfinite(number) or number < 0:
        raise OptionError("must be finite and not negative.", field=field, value=text, hint=example)
    return number


def _numbers(text: str, field: str, where: str, key: str) -> tuple[float, ...]:
    """Parse a list written with slashes, or read it from the column `duration` of a CSV file."""
    try:
        return tuple(float(part) for part in text.split("/"))
    except ValueError:
        if text.lower().endswith(".csv"):
            return _column(Path(text), field)
    raise OptionError("not numbers separated by slashes.", field=field, value=text, hint=f"{where}:{key}=3250/7200")


def _column(path: Path, field: str) -> tuple[float, ...]:
    hint = "a CSV file with a column headed duration"
    table = read_table(path, OptionError)
    if "duration" not in table.columns:
        raise OptionError("has no column duration.", where=str(path), line=table.header_line, field=field, hint=hint)
    values = tuple(row.number("duration") for row in table.rows())
    if not values:
        raise OptionError("has no rows.", where=str(path), field=field, hint=hint)
    return values
