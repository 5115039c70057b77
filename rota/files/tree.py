"""YAML, entry by entry. Every problem becomes one error that names file, line, field and value; callers choose its class.

Only plain YAML is read: no tags, no anchors, no aliases, so a file is never more than what an editor shows.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import yaml

from rota.errors import InputError
from rota.files.csv_table import MAX_NUMBER, closest, shown
from rota.files.text import read_text

DEEPEST = 20
MAX_BYTES = 10_000_000

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(MiB|GiB|TiB|MB|GB|TB)", re.ASCII)
_GIB = {"MiB": 2**-10, "GiB": 1.0, "TiB": 2.0**10, "MB": 1e6 / 2**30, "GB": 1e9 / 2**30, "TB": 1e12 / 2**30}


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One value of a file, and its place there."""

    where: str
    line: int
    name: str
    """Path to the value from the top: `nodes[2].gpus`."""
    value: Any
    """A scalar, None, a list of entries, or a mapping of names to entries."""
    error: type[InputError]

    def wrong(self, problem: str, *, hint: str) -> InputError:
        value = self.value if not isinstance(self.value, list | dict) else None
        return self.error(
            problem,
            where=self.where,
            line=self.line,
            field=self.name,
            value=shown(str(value)) if value is not None else None,
            hint=hint,
        )

    def fields(self, known: Iterable[str], required: Iterable[str] = ()) -> dict[str, "TreeEntry"]:
        """Return a mapping. Raise an error for a name that is not known, or for a missing name that is required."""
        names = tuple(known)
        found = self.mapping()
        for name, entry in found.items():
            if name not in names:
                raise self.error(
                    f"unknown field {name!r}.{closest(name, names)} All: {', '.join(names)}.",
                    where=self.where,
                    line=entry.line,
                    field=entry.name,
                    hint="rename it, or take it out",
                )
        for name in required:
            if name not in found or found[name].value is None:
                raise self.wrong(f"needs {name!r}.", hint=f"add a line {name}: ...")
        return {name: entry for name, entry in found.items() if entry.value is not None}

    def mapping(self) -> dict[str, "TreeEntry"]:
        if isinstance(self.value, dict):
            return dict(self.value)
        raise self.wrong("is not a mapping.", hint="write one `name: value` per line below it")

    def items(self) -> list["TreeEntry"]:
        """Return a list. A single value is a list of one."""
        if isinstance(self.value, list):
            return self.value
        if isinstance(self.value, dict):
            raise self.wrong("is not a list.", hint="start each item with a dash")
        return [self]

    def text(self) -> str:
        if isinstance(self.value, str) and self.value.strip():
            return self.value.strip()
        if isinstance(self.value, int | float) and not isinstance(self.value, bool):
            return str(self.value)
        raise self.wrong("is not text.", hint="write a word, in quotes if it looks like something else")

    def number(self, *, least: float = 0.0, above: bool = False) -> float:
        """Return a finite number of at least `least`, or above it."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise self.wrong("is not a number.", hint="write a plain number such as 4 or 0.5")
        if abs(value) > MAX_NUMBER:
            raise self.wrong(f"is more than {MAX_NUMBER:.0e}.", hint="give a smaller number")
        if value < least or (above and value == least):
            raise self.wrong(f"must be {'more than' if above else 'at least'} {least:g}.", hint="give a larger number")
        return float(value)

    def whole(self, *, least: int, most: int) -> int:
        value = self.number(least=least)
        if value != int(value):
            raise self.wrong("is not a whole number.", hint="write a whole number such as 4")
        if value > most:
            raise self.wrong(f"is more than {most:,}.", hint="give a smaller number")
        return int(value)

    def seconds(self) -> float:
        """Return a length of time in seconds: `90` seconds, or `30s`, `15m`, `2h`, `30d`, `1w`."""
        if not isinstance(self.value, str):
            return self.number(above=True)
        found = duration_seconds(self.value)
        if found is None:
            raise self.wrong("is not a length of time.", hint="write it like 90s, 15m, 2h or 30d")
        return found

    def gib(self) -> float:
        """Return a memory size in GiB: `512 GiB`; a plain number is GiB."""
        if not isinstance(self.value, str):
            return self.number()
        found = _with_unit(self.value, _SIZE, _GIB)
        if found is None:
            raise self.wrong("is not a memory size.", hint="write it like 512 GiB")
        return found

    def plain(self) -> Any:
        """Return the values without lines and names."""
        if isinstance(self.value, dict):
            return {name: entry.plain() for name, entry in self.value.items()}
        return [entry.plain() for entry in self.value] if isinstance(self.value, list) else self.value

    def find(self, way: tuple[Any, ...]) -> tuple["TreeEntry", tuple[Any, ...]]:
        """Return the last existing entry along a path of names and positions, and the part of the path that led there."""
        entry, gone = self, tuple[Any, ...]()
        for step in way:
            inner = entry.value
            if (isinstance(inner, dict) and step in inner) or (
                isinstance(inner, list) and isinstance(step, int) and 0 <= step < len(inner)
            ):
                entry = inner[step]
            else:
                continue
            gone = (*gone, step)
        return entry, gone


def duration_seconds(text: str) -> float | None:
    """Return the seconds in `90s`, `15m`, `2h`, `30d` or `1w`; None if the text is not a length of time."""
    return _with_unit(text, _DURATION, _SECONDS)


def _with_unit(text: str, pattern: re.Pattern[str], units: dict[str, float]) -> float | None:
    match = pattern.fullmatch(text.strip())
    return float(match[1]) * units[match[2]] if match is not None and float(match[1]) > 0 else None


def read_tree(path: Path | str, error: type[InputError], *, instead: str = "") -> TreeEntry:
    """Read the only document of a YAML file."""
    return parse_tree(read_text(path, error, instead), str(path), error)


def parse_tree(text: str, where: str, error: type[InputError]) -> TreeEntry:
    """Parse the only document of a YAML text. `where` names its source."""
    if len(text) > MAX_BYTES:
        raise error(f"is more than {MAX_BYTES:,} characters.", where=where, hint="is it the right file?")
    try:
        root = _plain(text, where, error)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        why = " ".join(str(getattr(problem, "problem", None) or problem).split())
        raise error(
            f"is not YAML: {shown(why)}.",
            where=where,
            line=mark.line + 1 if mark is not None else None,
            hint="check indentation, colons and quotes on that line",
        ) from None
    except RecursionError:
        raise error("is nested too deeply.", where=where, hint="is it the right file?") from None
    if root is None:
        raise error("the file is empty.", where=where, hint="write one `name: value` per line")
    return _entry(root, where, "", error, 0)


def _plain(text: str, where: str, error: type[InputError]) -> yaml.Node | None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise error("is nested too deeply.", where=where, line=line, hint="is it the right file?")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise error("anchors and aliases are not read.", where=where, line=line, hint="write the value out")
        if getattr(event, "tag", None):
            raise error("tags are not read.", where=where, line=line, value=shown(str(event.tag)), hint="take the tag out")
    node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    return node


def _entry(node: yaml.Node, where: str, name: str, error: type[InputError], depth: int) -> TreeEntry:
    line = node.start_mark.line + 1
    if depth > DEEPEST:
        raise error("is nested too deeply.", where=where, line=line, field=name, hint="is it the right file?")
    value: Any
    if isinstance(node, yaml.MappingNode):
        value = dict(_pairs(node, where, name, error, depth))
    elif isinstance(node, yaml.SequenceNode):
        value = [_entry(item, where, f"{name}[{i}]", error, depth + 1) for i, item in enumerate(node.value, 1)]
    else:
        value = _scalar(node, where, name, error)
    return TreeEntry(where, line, name, value, error)


def _pairs(node: yaml.MappingNode, where: str, name: str, error: type[InputError], depth: int) -> Iterator[tuple[str, TreeEntry]]:
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise error("a name must be one word.", where=where, line=line, field=name, hint="write `name: value`")
        key = str(key_node.value)
        if key in seen:
            raise error(
                f"is already given on line {seen[key]}.", where=where, line=line, field=shown(key), hint="keep one of the two"
            )
        seen[key] = line
        # A value may begin on the next line. Errors give the line of its name.
        yield key, replace(_entry(value_node, where, f"{name}.{key}" if name else key, error, depth + 1), line=line)


def _scalar(node: yaml.Node, where: str, name: str, error: type[InputError]) -> Any:
    try:
        return yaml.SafeLoader("").construct_object(node)
    except (ValueError, yaml.YAMLError) as problem:
        _refuse(node, where, name, error, problem)


def _refuse(node: yaml.Node, where: str, name: str, error: type[InputError], problem: Exception) -> NoReturn:
    raise error(
        f"cannot be read ({shown(str(problem))}).",
        where=where,
        line=node.start_mark.line + 1,
        field=name,
        value=shown(str(node.value)),
        hint="put it in quotes if it is meant as text",
    ) from None
