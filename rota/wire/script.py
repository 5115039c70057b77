"""A script as a job: its `#ROTA` lines, which are fields of a job spec, and its `#SBATCH` lines, which are options of Slurm.

Both are read up to the first line that is neither empty nor a comment, as sbatch does. A `#ROTA` line takes precedence.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rota.errors import SpecError
from rota.files.csv_table import closest, shown
from rota.files.tree import TreeEntry, parse_tree
from rota.wire.slurm_directives import BY_NAME, GPUS, NODES, PER_NODE, PER_TASK, START_TASKS, TASKS, Directive, Takes, gpus_of

SHELL_SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm")
PYTHON_SCRIPTS = (".py",)
MAX_BYTES = 1_000_000
"""Size of the beginning of a script in which its comments are, in bytes."""
SLURM, OURS = "#SBATCH", "#ROTA"
_COUNTS = (NODES, TASKS, GPUS, PER_NODE, PER_TASK)


class Script(NamedTuple):
    """A script, read as a job spec."""

    root: TreeEntry
    """Spec, with the line of each field."""
    notes: tuple[str, ...]
    """Options that have no effect, and why."""


class Option(NamedTuple):
    """One option of a `#SBATCH` line."""

    line: int
    name: str
    """Name as written, with its dashes."""
    value: str
    directive: Directive


def read_script(path: Path | str, arguments: Sequence[str] = ()) -> Script:
    """Read a script that is run with these arguments. Raise SpecError if a line cannot be read, or if the job would be another
    one without an option that Rota does not have."""
    where = str(path)
    lines = list(_comments(_beginning(path)))
    options = [option for line, text in lines for option in _options(where, line, text)]
    _refuse(where, options)
    fields = {"name": _entry(where, 1, "name", Path(path).stem)} | _slurm_fields(where, options) | _own_fields(where, lines)
    file = str(Path(path).absolute()) if "workdir" in fields else where
    fields["run"] = _entry(where, 1, "run", [_program(Path(path)), file, *arguments])
    return Script(TreeEntry(where, 1, "", fields, SpecError), (*_notes(where, options), *_notes_on_nodes(where, options)))


def _beginning(path: Path | str) -> str:
    """Return the beginning of a script. A script may have any encoding, since only its comments are read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        raise SpecError("there is no such script.", where=str(path), hint="check the path") from None
    except OSError as problem:
        raise SpecError(f"cannot be read: {problem.strerror}.", where=str(path), hint="check the path") from None


def _program(path: Path) -> str:
    """Return the program that runs a script: bash, or the Python of the active environment, else the first one on the path."""
    if path.suffix.lower() not in PYTHON_SCRIPTS:
        return "bash"
    active = os.environ.get("VIRTUAL_ENV")
    inside = str(Path(active) / "bin" / "python") if active else ""
    found = inside if inside and os.access(inside, os.X_OK) else shutil.which("python") or shutil.which("python3")
    if found is None:
        raise SpecError("there is no Python on the path.", where=str(path), hint=f"rota submit -- {sys.executable} {path}")
    return found


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Return the comments at the top of a script, with their lines."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            yield number, line
        elif line.strip():
            return


def _options(where: str, line: int, text: str) -> Iterator[Option]:
    if re.match(rf"{SLURM}\s", text) is None:
        return
    try:
        words = shlex.split(re.split(r"\s#", text.removeprefix(SLURM))[0])
    except ValueError as problem:
        raise SpecError(f"cannot be read: {problem}.", where=where, line=line, hint="check the quotes on that line") from None
    while words:
        yield _option(where, line, words)


def _option(where: str, line: int, words: list[str]) -> Option:
    """Take one option from the front of the words."""
    word = words.pop(0)
    if word.startswith("--"):
        name, equals, value = word.removeprefix("--").partition("=")
    elif re.match(r"-[A-Za-z]", word):
        name, value = word[1], word[2:].removeprefix("=")
        equals = "=" if value else ""
    else:
        hint = "#SBATCH --name=value, with quotes around values with spaces"
        raise SpecError("is not an option.", where=where, line=line, field=SLURM, value=shown(word), hint=hint)
    directive = BY_NAME.get(name)
    dashed = f"--{name}" if word.startswith("--") else f"-{name}"
    if directive is None:
        known = f"is not an option of sbatch that Rota knows.{closest(name, [each for each in BY_NAME if len(each) > 1])}"
        hint = f"take it out, or rota submit -- bash {where}, which reads no {SLURM} lines"
        raise SpecError(known, where=where, line=line, field=dashed, hint=hint)
    if directive.takes is Takes.VALUE and not equals:
        if not words:
            raise SpecError("has no value.", where=where, line=line, field=dashed, hint=f"{SLURM} {dashed}=...")
        value = words.pop(0)
    if directive.takes is Takes.NOTHING and equals:
        raise SpecError("takes no value.", where=where, line=line, field=dashed, value=shown(value), hint=f"{SLURM} {dashed}")
    return Option(line, dashed, value, directive)


def _refuse(where: str, options: Sequence[Option]) -> None:
    """Raise SpecError for the first option without which the job would be a different one. The message names all of them."""
    refused = [each for each in options if each.directive.refused]
    if refused:
        first, *rest = refused
        also = f" Also refused: {', '.join(f'{each.name} (line {each.line})' for each in rest)}." if rest else ""
        problem = f"cannot be honoured: {first.directive.refused}.{also}"
        raise _wrong(where, first, problem, first.directive.hint)


def _wrong(where: str, option: Option, problem: str, hint: str) -> SpecError:
    value = shown(option.value) if option.value else None
    return SpecError(problem, where=where, line=option.line, field=option.name, value=value, hint=hint)


def _slurm_fields(where: str, options: Sequence[Option]) -> dict[str, TreeEntry]:
    """Return the fields that the options set. Of an option that is given twice, the last one counts."""
    fields: dict[str, TreeEntry] = {}
    counts: dict[str, int] = {}
    by_count: dict[str, Option] = {}
    for option in options:
        if option.directive.read is None:
            continue
        try:
            found = option.directive.read(option.value)
        except ValueError as problem:
            raise _wrong(where, option, f"{problem}.", f"take it out, or correct it: man sbatch has --{_long(option)}") from None
        for name, value in found.items():
            if name in _COUNTS:
                counts[name], by_count[name] = value, option
            else:
                fields[name] = _entry(where, option.line, name, value)
    try:
        gpus, given_by = gpus_of(counts)
    except ValueError as problem:
        raise _wrong(where, by_count[PER_TASK], f"{problem}.", f"{SLURM} {TASKS}=1") from None
    if gpus is not None:
        fields["gpus"] = _entry(where, by_count[given_by].line, "gpus", gpus)
    return fields


def _own_fields(where: str, lines: Sequence[tuple[int, str]]) -> dict[str, TreeEntry]:
    """Return the fields of the `#ROTA` lines, which together are one YAML document."""
    ours = {line: text.removeprefix(OURS) for line, text in lines if re.match(rf"{OURS}\s", text)}
    if not ours:
        return {}
    text = "\n".join(ours.get(line, "")[1:] for line in range(1, max(ours) + 1))
    fields = parse_tree(text, where, SpecError).mapping()
    if "run" in fields:
        raise fields["run"].wrong("is the script itself.", hint="take the line out")
    return fields


def _notes(where: str, options: Sequence[Option]) -> Iterator[str]:
    """Return a note for each option without effect. That a script is one task needs no note."""
    for each in options:
        why = each.directive.ignored
        if why and not (why == START_TASKS and each.value == "1"):
            yield f"{where}:{each.line}  {each.name}: ignored. {why[0].upper()}{why[1:]}."


def _notes_on_nodes(where: str, options: Sequence[Option]) -> Iterator[str]:
    for each in options:
        if each.directive is BY_NAME["nodes"] and each.value != "1":
            yield f"{where}:{each.line}  {each.name}: only counts GPUs. Rota chooses how many nodes the GPUs of the job are on."


def _entry(where: str, line: int, name: str, value: Any) -> TreeEntry:
    if isinstance(value, Mapping):
        value = {key: _entry(where, line, f"{name}.{key}", each) for key, each in value.items()}
    elif isinstance(value, list):
        value = [_entry(where, line, name, each) for each in value]
    return TreeEntry(where, line, name, value, SpecError)


def _long(option: Option) -> str:
    return option.directive.names[0]
