"""Defaults of commands from the configuration files. A flag on the command line takes precedence over them.

A section has the name of a command, and in it the long names of the command's flags. The values are checked against these flags,
so a misspelt name or a wrong type is an error with its file and line.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.errors import InputError, OptionError

if TYPE_CHECKING:
    from rota.files.tree import TreeEntry

ONE_CALL: Mapping[str, tuple[str, ...]] = {
    "up": ("detach", "systemd", "system", "adopt", "new-identity", "unset"),
    "submit": ("key",),
}
"""Command -> flags that are for one call, so that a default would be a mistake."""
OUTPUT = "output"


class FlagDefault(NamedTuple):
    """A default of one flag."""

    command: str
    """Words of the command, such as `policy list`."""
    flag: str
    """Long name without dashes."""
    parameter: str
    """Name of the parameter of the command's function."""
    value: Any
    """Value as the command line has it: text, a list of texts, or true or false for a switch."""
    entry: "TreeEntry"


def default_map(command: Any, name: str) -> dict[str, Any]:
    """Return the defaults of a command by parameter, and those of the commands below it by name. Raise InputError if a
    configuration file cannot be used."""
    found: dict[str, Any] = {}
    for each in defaults_of(command, name):
        inner = found
        for word in each.command.split()[1:]:
            inner = inner.setdefault(word, {})
        inner[each.parameter] = each.value
    return found


def from_files(context: Any) -> set[str]:
    """Return the parameters of a running command whose values come from a configuration file."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if getattr(source, "name", "") == "DEFAULT_MAP"}


def defaults_of(command: Any, name: str) -> list[FlagDefault]:
    """Return the defaults of a command and of the commands below it. Each flag has the value of the file with the highest
    precedence."""
    from rota.wire.config_file import read_config

    files = [file.root for file in read_config() if file.root is not None]
    found: dict[tuple[str, str], FlagDefault] = {}
    for root in files:
        sections = root.mapping()
        check_names(sections)
        if name in sections:
            for each in _section(command, name, sections[name]):
                found.setdefault((each.command, each.parameter), each)
    return list(found.values())


def check_names(sections: Mapping[str, "TreeEntry"]) -> None:
    """Raise OptionError for a name that is neither a setting of clients nor a command."""
    from rota.cli.main import COMMANDS, GROUPS
    from rota.wire.config_file import CLIENT_SETTINGS

    for name, entry in sections.items():
        if name in CLIENT_SETTINGS:
            CLIENT_SETTINGS[name](entry)
        elif name not in COMMANDS and name not in GROUPS:
            raise _unknown(entry, name, (*CLIENT_SETTINGS, *COMMANDS, *GROUPS), "setting or command")


def _section(command: Any, name: str, section: "TreeEntry") -> Iterator[FlagDefault]:
    from rota.wire.config_file import CLIENT_SETTINGS

    below = getattr(command, "commands", None)
    if below is not None:
        for word, entry in section.mapping().items():
            if word not in below:
                raise _unknown(entry, word, below, f"command of rota {name}")
            yield from _section(below[word], f"{name} {word}", entry)
        return
    flags = {word.removeprefix("--"): flag for flag in command.params for word in flag.opts if word.startswith("--")}
    known = {word: flag for word, flag in flags.items() if word not in (*ONE_CALL.get(name, ()), *CLIENT_SETTINGS, "help")}
    seen: dict[str, int] = {}
    for given, entry in section.mapping().items():
        word = given.replace("_", "-")
        if word in CLIENT_SETTINGS:
            raise entry.wrong("is a setting of all commands.", hint=f"{word}: ..., at the top of the file")
        if word in flags and word not in known:
            raise entry.wrong("is for one call, not a default.", hint=f"rota {name} --{word}")
        if word not in known:
            raise _unknown(entry, given, known, f"flag of rota {name}")
        if word in seen:
            raise entry.wrong(f"is already given on line {seen[word]}.", hint="keep one of the two")
        seen[word] = entry.line
        if entry.value is None:
            raise entry.wrong("has no value.", hint="write a value, or take the line out")
        yield FlagDefault(name, word, known[word].name, _value(known[word], word, entry), entry)


def _unknown(entry: "TreeEntry", name: str, known: Any, what: str) -> OptionError:
    from rota.files.csv_table import closest, shown

    return OptionError(
        f"{shown(name)!r} is not a {what}.{closest(name, known)} All: {', '.join(known)}.",
        where=entry.where,
        line=entry.line,
        field=shown(entry.name),
        hint="rename it, or take it out",
    )


def _value(flag: Any, word: str, entry: "TreeEntry") -> Any:
    if getattr(flag, "is_flag", False):
        if not isinstance(entry.value, bool):
            raise entry.wrong("is neither true nor false.", hint=f"{word}: true")
        return entry.value
    if flag.multiple:
        return [_text(flag, word, each) for each in entry.items()]
    return _text(flag, word, entry)


def _text(flag: Any, word: str, entry: "TreeEntry") -> str:
    """Return the value as the command line has it. Raise InputError if its type is not that of the flag."""
    kind = getattr(flag, "type_descriptor", None)
    number = getattr(kind, "annotation", None) in (int, float)
    is_number = isinstance(entry.value, int | float) and not isinstance(entry.value, bool)
    if number and not is_number:
        raise entry.wrong("is not a number.", hint="write a plain number such as 4 or 0.5")
    read = getattr(getattr(kind, "parameter_info", None), "parser", None)
    if not isinstance(entry.value, str) and not (is_number and (number or read is not None)):
        raise entry.wrong("is not text.", hint="put it in quotes")
    text = str(entry.value)
    try:
        if word == OUTPUT:
            from rota.cli.common_flags import shape

            shape(text)
        elif read is not None:
            read(text)
    except InputError as problem:
        raise entry.wrong(problem.message.rpartition(" — ")[2], hint=problem.hint) from None
    return text
