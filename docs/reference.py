"""Writes what the reference takes from the code: `commands.md` from the help of every command, `python.md` from the docstrings of
the Python face, and the table of `spec.md` from the fields of a job spec.

python -m docs.reference      # `make docs-update`; a test compares the pages with what this would write
"""

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import typer

import rota
from rota.cli.main import make_app
from rota.cli.quick import name_values
from rota.compose.docstrings import field_docstrings
from rota.model.lazy import lazy
from rota.model.options import Options
from rota.model.view import Jobs
from rota.report.comparison import PairedRatio, PolicyLine
from rota.report.metrics import Summary
from rota.report.plots import Plot
from rota.solver.program import Solution
from rota.wire.client import Client, Job
from rota.wire.rows import GpuRow, JobRow, NodeRow, ReasonRow, StatusRow, TrialRow, WhyRow
from rota.wire.spec import Spec

DOCS = Path(__file__).resolve().parent
WIDTH = 98
"""No line of a code block is longer: the built pages show as much without a scroll bar."""

Face = Mapping[str, tuple[str, ...]]

FACE: Face = {
    "Simulate": ("simulate", "compare", "sweep", "Study", "Result", "Comparison"),
    "Write a policy": ("policy", "placer", "View", "Ranking", "Shares", "Assignment", "Needs"),
    "Write a tactic": ("Tactic", "tactic", "Draft", "Mover"),
    "State an objective": ("Program", "least", "greatest"),
    "Jobs and clusters": ("Trace", "traces", "JobSpec", "Cluster"),
    "Run jobs": ("connect",),
    "Errors": ("RotaError", "errors"),
    "Version": ("__version__",),
}
"""Heading -> names of `rota`. A public name that is missing here goes under its own last heading."""

MET: Mapping[str, tuple[type, ...]] = {
    "Result": (Summary,),
    "Comparison": (PolicyLine, PairedRatio, Plot),
    "View": (Jobs, Options),
    "Program": (Solution,),
    "connect": (Client, Job, JobRow, TrialRow, WhyRow, ReasonRow, StatusRow, NodeRow, GpuRow),
}
"""Name -> the classes that its users meet without importing them."""

NOT_FOR_USERS = {
    *("fault", "candidates", "holds_seconds", "hints", "reusable", "rows", "accounts"),
    *("grants", "colocate", "placement_view"),
    *("Ranking.shares", "Shares.shares", "Assignment.shares"),
}
"""Members of public classes that only the core calls."""

MADE_BY_ROTA = {"Result", "Comparison", "View", "Draft", "Mover"}
"""Classes that users are given and never call."""

_MADE = "<!-- Made from the code by `make docs-update`. Edit the help or the docstring, not this page. -->"


def commands_page() -> str:
    """Every command with its arguments and flags, as its own help says them."""
    app = typer.main.get_command(make_app([]))
    name_values(app)
    found = list(_walk(app, "rota"))
    lines = [
        _MADE,
        "",
        "# Commands",
        "",
        "Every command and every flag. `rota COMMAND --help` prints the same. For what to do with them, see",
        "[Simulate, compare, sweep](simulate.md) and [Run jobs](run-jobs.md).",
        "",
        "| command | does |",
        "|---|---|",
        *(f"| [`{name}`](#{_anchor(name)}) | {_cell(_first_line(each))} |" for name, each in found if not _group(each)),
        "",
        "Flags of `rota` itself:",
        "",
        *_flags(app),
    ]
    for name, each in found:
        if not _group(each):
            lines += ["", f"## {name}", "", *_command(name, each)]
    return "\n".join(lines).rstrip() + "\n"


def flags_of_commands() -> dict[str, set[str]]:
    """Command -> the flags that it takes."""
    app = typer.main.get_command(make_app([]))
    return {
        name: {"-h", "--help"} | {flag for p in each.params for flag in (*p.opts, *p.secondary_opts) if flag.startswith("-")}
        for name, each in _all(app, "rota")
    }


def _all(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, each in getattr(command, "commands", {}).items():
        yield from _all(each, f"{name} {word}")


def _walk(app: Any, name: str) -> Iterator[tuple[str, Any]]:
    return (pair for pair in _all(app, name) if pair[0] != name)


def _group(command: Any) -> bool:
    return bool(getattr(command, "commands", {}))


def _anchor(heading: str) -> str:
    return heading.replace(" ", "-")


def _first_line(command: Any) -> str:
    return str(command.help or "").split("\n\n")[0].replace("\n", " ")


def _command(name: str, command: Any) -> list[str]:
    usage = " ".join([name, "[OPTIONS]", *(piece for p in command.params for piece in _usage(p))])
    lines = ["```text", *fold(usage, "    "), "```", ""]
    for paragraph in str(command.help or "").split("\n\n"):
        plain = " ".join(paragraph.split())
        if plain.startswith("Example: "):
            lines += ["```sh", *fold(plain.removeprefix("Example: "), "    ", command=True), "```", ""]
        elif plain:
            lines += [_prose(plain), ""]
    return lines + _flags(command)


def _usage(parameter: Any) -> list[str]:
    return list(parameter.get_usage_pieces(None)) if parameter.param_type_name == "argument" else []


def _flags(command: Any) -> list[str]:
    rows = []
    for p in command.params:
        if getattr(p, "hidden", False):
            continue
        if p.param_type_name == "argument":
            shown = f"`{p.metavar}`"
        else:
            value = "" if p.is_flag or p.metavar is None else f" {p.metavar}"
            shown = ", ".join(f"`{flag}{value}`" for flag in (*p.opts, *p.secondary_opts))
        rows.append(f"| {shown.replace('|', chr(92) + '|')} | {_cell(p.help or '')} | {_default(p)} |")
    return ["| | | if left out |", "|---|---|---|", *rows] if rows else []


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    if value is None or value is False or value == () or callable(value) or value == "":
        return ""
    return f"`{'/'.join(map(str, value)) if isinstance(value, list | tuple) else value}`".replace("`True`", "yes")


def python_page() -> str:
    """Every public name of `rota`, with what its docstrings say."""
    lines = [
        _MADE,
        "",
        "# Python",
        "",
        "Every public name of `rota`, made from the docstrings. `help(rota.simulate)` prints the same.",
        "[The tutorial](tutorial.md) shows them at work.",
    ]
    listed = {name for names in FACE.values() for name in names}
    rest = tuple(name for name in rota.__all__ if name not in listed)
    for heading, names in [*FACE.items(), *([("More", rest)] if rest else [])]:
        lines += ["", f"## {heading}"]
        for name in names:
            lines += ["", f"### rota.{name}".replace("__", r"\_\_"), "", *_thing(f"rota.{name}", getattr(rota, name))]
            for kind in MET.get(name, ()):
                lines += ["", f"### {kind.__name__}", "", *_thing(kind.__name__, kind, constructor=False)]
    return "\n".join(lines).rstrip() + "\n"


def _thing(name: str, value: Any, *, constructor: bool = True) -> list[str]:
    if isinstance(value, str):
        return [f"The version of Rota, as text: `{value}`."]
    if isinstance(value, ModuleType):
        return _module(name, value)
    if not isinstance(value, type):
        return _function(name, value)
    lines = _docstring(value)
    if constructor and not issubclass(value, Exception) and value.__name__ not in MADE_BY_ROTA:
        made = [
            f"{name}.{each}(...)" for each, member in vars(value).items() if isinstance(member, classmethod) and _told(member)
        ]
        lines += ["", *_call(name, value)] + (["", "Or " + ", ".join(f"`{each}`" for each in made) + "."] if made else [])
    texts = field_docstrings(value)
    fields = [each for each in getattr(value, "__dataclass_fields__", {}).values() if not each.name.startswith("_")]
    if fields:
        lines += ["", "| field | what it is |", "|---|---|"]
        lines += [f"| `{each.name}`{_given(each)} | {_cell(texts.get(each.name, ''))} |" for each in fields]
    members = list(_members(value))
    if members:
        lines += ["", "| member | what it is or does |", "|---|---|"]
        lines += [f"| {shown} | {_cell(text)} |" for shown, text in members]
    return lines


def _given(field: Any) -> str:
    if field.default is dataclasses.MISSING:
        return ""
    return f" = `{field.default!r}`" if isinstance(field.default, str | int | float | bool | None) else ""


def _members(kind: type) -> Iterator[tuple[str, str]]:
    for name, member in vars(kind).items():
        text = _told(member)
        if name.startswith("_") or name in NOT_FOR_USERS or f"{kind.__name__}.{name}" in NOT_FOR_USERS:
            continue
        if isinstance(member, property | cached_property | lazy):
            yield f"`{name}`", text
        elif isinstance(member, classmethod | staticmethod) or inspect.isfunction(member):
            yield f"`{name}{_parameters(getattr(kind, name), method=inspect.isfunction(member))}`", text


def _told(member: Any) -> str:
    if isinstance(member, cached_property):
        member = member.func
    if not (callable(member) or isinstance(member, property | classmethod | staticmethod | lazy)):
        return ""
    return " ".join((inspect.getdoc(member) or "").split())


def _function(name: str, value: Callable[..., Any]) -> list[str]:
    return [*_call(name, value), "", *_docstring(value)]


def _call(name: str, value: Callable[..., Any]) -> list[str]:
    return ["```text", *fold(name + _parameters(value), "    "), "```"]


def _parameters(value: Callable[..., Any], *, method: bool = False) -> str:
    """The parameters without their types, which say little to people who do not read the source."""
    given = list(inspect.signature(value).parameters.values())[1 if method else 0 :]
    plain = [
        p.replace(annotation=inspect.Parameter.empty, default=p.default if _short(p.default) else inspect.Parameter.empty)
        for p in given
    ]
    shown, star = [], False
    for p in plain:
        if p.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            star = True
            shown.append("*")
        star = star or p.kind is inspect.Parameter.VAR_POSITIONAL
        default = "" if p.default is inspect.Parameter.empty else f"={p.default!r}"
        sign = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(p.kind, "")
        shown.append(f"{sign}{p.name}{default}")
    return f"({', '.join(shown)})"


def _short(default: Any) -> bool:
    return default is inspect.Parameter.empty or isinstance(default, str | int | float | bool | tuple | None)


def _docstring(value: Any) -> list[str]:
    """Paragraphs as prose; lines such as `    name: text` as a table; a drawing as it is."""
    lines: list[str] = []
    for paragraph in (inspect.getdoc(value) or "").split("\n\n"):
        rows = [re.match(r" {4}(\w+): (.*)", line) for line in paragraph.splitlines()]
        if rows and all(rows):
            lines += [
                "",
                "| keyword | what it says |",
                "|---|---|",
                *(f"| `{row[1]}` | {_cell(row[2])} |" for row in rows if row),
            ]
        elif "├" in paragraph:
            lines += ["", "```text", *(each for line in paragraph.splitlines() for each in fold(line, " " * 31)), "```"]
        else:
            lines += ["", _prose(" ".join(paragraph.split()))]
    return lines[1:]


def _module(name: str, value: ModuleType) -> list[str]:
    lines = _docstring(value)
    own = [
        (each, member)
        for each, member in vars(value).items()
        if inspect.isfunction(member) and member.__module__.startswith(value.__name__) and not each.startswith("_")
    ]
    for each, member in own:
        lines += ["", *_function(f"{name}.{each}", member)]
    return lines


def fold(line: str, indent: str, *, command: bool = False) -> list[str]:
    """A line as several that are no wider than a code block; those of a command end with a backslash."""
    room = WIDTH - 2 * command
    if len(line) <= room:
        return [line]
    parts = re.split(r" {3,}", line)
    if len(parts) > 1 and max(map(len, parts)) < room:
        # A line with wide gaps is folded there.
        folded = [
            each.replace("\0", " ") for each in _wrapped("   ".join(part.replace(" ", "\0") for part in parts), room, indent)
        ]
    else:
        folded = _wrapped(line, room, indent)
    return [f"{each} \\" for each in folded[:-1]] + folded[-1:] if command else folded


def _wrapped(line: str, room: int, indent: str) -> list[str]:
    return textwrap.wrap(line, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _prose(text: str) -> str:
    """Text of a help or docstring as Markdown: nothing in it is markup but code in backticks."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([$*<\[\]|])", r"\\\1", part) for part in parts)


def _cell(text: str) -> str:
    plain = _prose(" ".join(str(text).split()))
    return re.sub(r"`[^`]+`", lambda code: code[0].replace("|", r"\|"), plain)


def spec_page() -> str:
    """The page of job specs as it is, with the table of fields made anew."""
    text = (DOCS / "spec.md").read_text(encoding="utf-8")
    return re.sub(r"(?<=\| field \| what it is \|\n\|---\|---\|\n)(\|[^\n]*\n)+", "".join(_spec_rows(Spec)), text)


def _spec_rows(kind: Any, prefix: str = "") -> list[str]:
    """A row for each field, and behind them those of fields that have fields themselves."""
    rows = [f"| `{prefix}{name}` | {_cell(field.description or '')} |\n" for name, field in kind.model_fields.items()]
    for name, field in kind.model_fields.items():
        for inner in (field.annotation, *get_args(field.annotation)):
            if hasattr(inner, "model_fields"):
                rows += _spec_rows(inner, f"{name}.")
    return rows


PAGES: Mapping[str, Callable[[], str]] = {"commands.md": commands_page, "python.md": python_page, "spec.md": spec_page}


def write() -> None:
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    write()
