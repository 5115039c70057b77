"""Commands that start fast, and whose help names no Python types.

The command-line library builds a validator for every flag and loads a large library for this, which takes longer than most
commands do. Text and switches need no validation, and our numbers have parsers of their own (`common_flags.number`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

WITHOUT_DEFAULTS = ("help", "config")
"""Commands that run even if a configuration file cannot be used: they help to correct it."""


class Quick(TyperCommand):
    """A command whose flags are not validated by the library."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _take_as_typed(self.get_params(ctx))
        return super().parse_args(ctx, args)


class QuickGroup(TyperGroup):
    """A group whose flags are not validated by the library. The help of its commands names no Python types."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            name_values(command)
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _take_as_typed(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, and give its flags the defaults of the configuration files."""
        name, command, rest = super().resolve_command(ctx, args)
        known = command is not None and name is not None and name not in WITHOUT_DEFAULTS
        if known and not ctx.resilient_parsing and not _asks_for_help(rest):
            from rota.cli.config_defaults import default_map

            ctx.default_map = {name: default_map(command, str(name))}
        return name, command, rest


def _asks_for_help(words: Sequence[str]) -> bool:
    ours = words[: words.index("--")] if "--" in words else words
    return "-h" in ours or "--help" in ours


def name_values(command: Any) -> None:
    """Name values in the help of a command and its subcommands after their flags (`--trace TRACE`), not after Python types
    (`<list[str]>`)."""
    for each in getattr(command, "commands", {}).values():
        name_values(each)
    for flag in command.params:
        switch = getattr(flag, "is_flag", False) or getattr(flag, "count", False)
        if flag.metavar is None and not switch:
            flag.metavar = (max(flag.opts, key=len).strip("-") or flag.name).replace("-", "_").upper()
        if getattr(flag, "param_type_name", "") == "argument":
            several = "..." if flag.nargs != 1 and not flag.metavar.endswith("...") else ""
            shown = f"{flag.metavar}{several}" if flag.required else f"[{flag.metavar}{several}]"
            flag.get_usage_pieces = lambda ctx, shown=shown: [shown]
            flag.display_type_rich = lambda ctx: None


def _take_as_typed(flags: Iterable[Any]) -> None:
    """Skip the library's validators. With an incompatible version of the library this changes nothing but a slower start."""
    for flag in flags:
        kind = getattr(flag, "type_descriptor", None)
        annotation, parser = getattr(kind, "annotation", None), getattr(getattr(kind, "parameter_info", None), "parser", None)
        switch = annotation is bool and getattr(flag, "is_flag", False)
        if switch or annotation in (str, list[str]) or (parser is not None and annotation in (int, float)):
            flag._runtime_param = _AsTyped(parser)


class _AsTyped:
    """Replacement for the library's validator of one flag."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        if several:
            return list(value)
        return value if self._parser is None else self._parser(value)
