"""Settings of generated traces, as they follow the name: `synthetic:jobs=500,seed=1`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rota.errors import TraceError
from rota.files.csv_table import closest, shown


class Setting(Protocol):
    """The values that a setting accepts. `str()` of it completes the message `must be ...`."""

    def read(self, text: str) -> Any:
        """Return the value in a text, or None if the setting does not accept the text."""
        ...

    def takes(self, value: Any) -> bool: ...


@dataclass(frozen=True, slots=True)
class NumberSetting:
    """A number in a range."""

    least: float
    most: float
    whole: bool = True

    def read(self, text: str) -> float | None:
        """Read a number. Whole numbers stay exact."""
        if re.fullmatch(r"\d{1,18}", text, re.ASCII):
            return int(text)
        if not self.whole and re.fullmatch(r"\d*\.?\d*(e[+-]?\d{1,3})?", text, re.ASCII | re.IGNORECASE):
            try:
                return float(text)
            except ValueError:
                return None
        return None

    def takes(self, value: Any) -> bool:
        return bool(self.least <= value <= self.most)

    def __str__(self) -> str:
        return f"a {'whole ' if self.whole else ''}number from {self.least:,} to {self.most:,}"


@dataclass(frozen=True, slots=True)
class SwitchSetting:
    """On or off."""

    def read(self, text: str) -> bool | None:
        return {"true": True, "false": False}.get(text.lower())

    def takes(self, value: Any) -> bool:
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True)
class TextSetting:
    """A text without commas, such as the path of a file."""

    what: str

    def read(self, text: str) -> str | None:
        return text or None

    def takes(self, value: Any) -> bool:
        return isinstance(value, str)

    def __str__(self) -> str:
        return self.what


def read_settings(text: str, known: Mapping[str, Setting], example: str) -> dict[str, Any]:
    """Return the settings after the colon of a name; empty if there is no colon."""
    name, colon, options = text.partition(":")
    given: dict[str, Any] = {}
    for option in options.split(",") if colon else ():
        key, equals, value = (part.strip() for part in option.partition("="))
        if not equals or not key:
            raise TraceError("is not KEY=VALUE.", where=name, field="option", value=shown(option), hint=f"like {example}")
        if key not in known:
            raise TraceError(
                f"{name} has no such setting.{closest(key, known)} All: {', '.join(known)}.",
                where=name,
                field="option",
                value=shown(key),
                hint=f"like {example}",
            )
        found = known[key].read(value)
        if found is None:
            raise TraceError(f"must be {known[key]}.", where=name, field=key, value=shown(value), hint=f"like {example}")
        if key in given:
            raise TraceError("is set twice.", where=name, field=key, value=shown(option), hint="keep one of the two")
        given[key] = found
    return given


def check_settings(name: str, given: Mapping[str, Any], known: Mapping[str, Setting], example: str) -> None:
    for key, value in given.items():
        if not known[key].takes(value):
            raise TraceError(f"must be {known[key]}.", where=name, field=key, value=value, hint=f"like {example}")


def format_settings(given: Mapping[str, Any]) -> str:
    """Format settings as a user would type them."""
    return ",".join(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in given.items())
