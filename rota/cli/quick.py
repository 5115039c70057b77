"""Commands that start at once.

The command-line library builds a validator for every flag of a command and loads a large library to do so, which takes longer
than most commands do. Text and switches need no validating, and our numbers have parsers of their own (`options.number`).
"""

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup


class Quick(TyperCommand):
    """A command whose flags are taken as they are typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _take_as_typed(self.get_params(ctx))
        return super().parse_args(ctx, args)


class QuickGroup(TyperGroup):
    """The same for the flags before a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _take_as_typed(self.get_params(ctx))
        return super().parse_args(ctx, args)


def _take_as_typed(flags: Iterable[Any]) -> None:
    """With a version of the library that works differently this changes nothing, but the start is slower."""
    for flag in flags:
        kind = getattr(flag, "type_descriptor", None)
        annotation, parser = getattr(kind, "annotation", None), getattr(getattr(kind, "parameter_info", None), "parser", None)
        switch = annotation is bool and getattr(flag, "is_flag", False)
        if switch or annotation in (str, list[str]) or (parser is not None and annotation in (int, float)):
            flag._runtime_param = _AsTyped(parser)


class _AsTyped:
    """Stands in for the library's validator of one flag."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        if several:
            return list(value)
        return value if self._parser is None else self._parser(value)
