"""Values that a sweep can vary besides its axes: fields of a study, and options of policies, placers and generated traces."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.compose.option_syntax import ParsedName, options_of
from rota.compose.registry import Registry
from rota.compose.study import read_field, study_fields
from rota.errors import OptionError, RotaError, UnknownNameError
from rota.traces.synthetic import BUILT_IN, GENERATED

PARTS = ("policy.", "placer.", "trace.")
"""Prefixes of options of policies and placers, and of settings of generated traces."""

AXES = {
    "policy": "rota sweep fifo tiresias",
    "trace": "--trace demo --trace philly-like",
    "cluster": '--cluster 8xV100 --cluster "4xV100 + 4xK80"',
    "placer": "--placer packed --placer spread",
    "seed": "--seeds 5",
}
"""Fields that are axes of every grid, with the flags that give them several values."""


def check_varied(name: str) -> None:
    """Raise if a sweep cannot vary this."""
    if name in AXES:
        raise OptionError("is an axis and has its own flag.", field="--vary", value=name, hint=AXES[name])
    part = next((part for part in PARTS if name.startswith(part)), "")
    if not (name.removeprefix(part) if part else name in study_fields()):
        known = [*(each for each in study_fields() if each not in AXES), "trace.load", "policy.thresholds", "placer.sticky"]
        raise UnknownNameError("setting", name, known, hint=f"--vary policy.{name}=A/B, if it is an option of a policy")


def read_varied(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Parse `NAME=A/B/C`, or `NAME=A|B|C` if values contain slashes. Numbers become numbers."""
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not values:
            raise OptionError("not NAME=A/B/C.", field="--vary", value=text, hint="--vary round_seconds=60/360")
        if name in found:
            raise OptionError("given twice.", field="--vary", value=name, hint="put all values behind one --vary")
        check_varied(name)
        parts = [part.strip() for part in values.split("|" if "|" in values else "/")]
        try:
            found[name] = tuple(dict.fromkeys(_value(name, part) for part in parts))
        except ValueError as problem:
            hint = f"values with slashes or bars between: --vary {name}=A/B, or '{name}=A|B'"
            raise OptionError(str(problem), field="--vary", value=text, hint=hint) from None
    return found


def _value(name: str, text: str) -> Any:
    """Return a number, or the text itself if the field is not a number."""
    if not text:
        raise ValueError("a value is missing.")
    if name in study_fields():
        value = read_field(name, text)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return text
    else:
        try:
            value = float(text)
        except ValueError:
            return text
    if not math.isfinite(value):
        raise ValueError(f"{text} is not finite.")
    return int(value) if value == int(value) else value


def takes(text: str, registry: Registry, option: str) -> bool:
    """Whether a policy or a placer has an option of this name; true if it is unknown, which is reported elsewhere."""
    try:
        kind = registry.find(ParsedName.parse(text, registry.what).name)
    except RotaError:
        return True
    return option in options_of(kind)


def with_options(text: str, what: str, options: Mapping[str, Any]) -> str:
    """Return the name of a policy or a placer with other options."""
    if not options:
        return text
    spelled = ParsedName.parse(text, what)
    name = f"{spelled.name}:" if spelled.name.endswith(".py") else spelled.name
    return f"{name}:{_format_options({**spelled.options, **options})}"


def with_settings(trace: str, settings: Mapping[str, Any]) -> str:
    """Return the name of a generated trace with other settings."""
    if not settings:
        return trace
    name, _, options = BUILT_IN.get(trace, trace).partition(":")
    if name not in GENERATED or Path(trace).exists():
        raise OptionError(
            "is not a generated trace, so it has no settings to vary.",
            field="trace",
            value=trace,
            hint="--trace synthetic:jobs=500",
        )
    given = dict(option.split("=", 1) for option in options.split(",") if "=" in option)
    return f"{name}:{_format_options({**given, **settings})}"


def _format_options(options: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={_option(value)}" for key, value in options.items())


def _option(value: Any) -> str:
    """Return a value as it is typed. A list has slashes between its values."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "/".join(_option(each) for each in value)
    return value if isinstance(value, str) else repr(value)
