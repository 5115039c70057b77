"""Flags that set up a simulation or a live scheduler. Their names, types, defaults and help come from the fields of `Study`."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Annotated, Any

import typer

from rota.cli.completers import FIELDS
from rota.compose.live_fields import LIVE
from rota.compose.study import read_field, study_fields, study_help
from rota.errors import OptionError

EXAMPLES = {"NUMBER": "360", "N": "3"}


def option(name: str) -> Any:
    """Return the flag of a field."""
    field, kind = study_fields()[name], _kind(name)
    metavar = field.metadata.get("metavar") or {float: "NUMBER", int: "N"}.get(kind)

    def parse(text: Any) -> Any:
        return _parsed(name, metavar, text)

    return typer.Option(
        _flag(name),
        parser=parse if metavar else None,
        metavar=metavar,
        help=study_help()[name][0],
        autocompletion=FIELDS.get(name),
    )


def _kind(name: str) -> Any:
    """Return the type of a flag: a switch, a number, a list of texts, or a text. A factor may be a number or a text."""
    field = study_fields()[name]
    read = field.metadata.get("read")
    if name == "where":
        return list[str]
    if "metavar" in field.metadata:
        return Any
    for kind in (bool, int, float):
        if field.type in (kind, kind | None):
            return kind
    return float if read is not None and read.__annotations__["return"] is float else str


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _parsed(name: str, metavar: str | None, text: Any) -> Any:
    """Parse the value of a flag. Raise OptionError, which names the flag and the value, if the value is wrong."""
    try:
        return read_field(name, str(text))
    except ValueError as problem:
        example = study_fields()[name].metadata.get("example") or EXAMPLES.get(metavar or "", "")
        raise OptionError(str(problem), field=_flag(name), value=text, hint=f"{_flag(name)} {example}".strip()) from problem


def with_setup(
    *, without: tuple[str, ...] = (), defaults: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of all fields except `without`. The command gets the values as one mapping called `setup`, ready
    for `rota.simulate`. A field without a default is required, unless `defaults` has one."""
    names = [name for name, field in study_fields().items() if name not in without and field.metadata.get("flag", True)]
    usual = {name: None if name == "where" else field.default for name, field in study_fields().items()} | dict(defaults or {})
    return _with_flags([_parameter(name, usual[name]) for name in names], _tidy)


def with_live_setup(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of the fields that a live scheduler takes. Its `setup` has only the flags that were given."""
    added = [_parameter(name, False if study_fields()[name].type is bool else None) for name in study_fields() if name in LIVE]
    return _with_flags(added, _given)(command)


def _with_flags(
    added: list[inspect.Parameter], tidy: Callable[[dict[str, Any]], dict[str, Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def give(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "setup"]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            command(**{p.name: given[p.name] for p in own}, setup=tidy({p.name: given[p.name] for p in added}))

        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
        return run

    return give


def _parameter(name: str, default: Any) -> inspect.Parameter:
    kind = _kind(name)
    optional = kind | None if default is None and kind is not Any else kind
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[optional, option(name)],
    )


def filters(texts: list[str] | None) -> list[tuple[str, str]]:
    """Parse the values of --where into pairs of a column and a value."""
    return [pair for text in texts or [] for pair in _parsed("where", None, text)]


def _tidy(given: dict[str, Any]) -> dict[str, Any]:
    given["where"] = filters(given["where"])
    if given["window"] is not None:
        given["window"] = _parsed("window", None, given["window"])
    return given


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value is not False}


Format = Annotated[str, option("format")]
Where = Annotated[list[str] | None, option("where")]
Seed = Annotated[int, option("seed")]
