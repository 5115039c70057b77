"""Comma-separated text, row by row. Whatever is wrong with it becomes one error that names file, line, field and value; callers
say of which class.

One row is one line: a quoted cell may hold commas and quotes, but no line break, so every line number is the one an editor shows.
"""

import csv
import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rota.errors import InputError

LONGEST_CELL = 10_000
MOST_COUNT = 1_000_000
MOST_NUMBER = 1e15
"""Beyond this a float no longer tells thousandths of a second apart, and sums over a trace stop meaning anything."""
LONGEST_SHOWN = 60
MOST_COMPARED = 1000
"""Among so many names the closest is looked for; more would take noticeable time."""


class Row(NamedTuple):
    """One line of a file: column -> cell, without the blanks around it."""

    where: str
    line: int
    cells: Mapping[str, str]
    error: type[InputError]

    def text(self, column: str) -> str:
        """The cell; empty where the file has no such column."""
        return self.cells.get(column, "")

    def number(self, column: str) -> float:
        """A finite number, 0 or more."""
        cell = self.cells[column]
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        # float() also reads 1_000 and the digits of other scripts, which no other tool would.
        if 0.0 <= value <= MOST_NUMBER and "_" not in cell and cell.isascii():
            return value
        if not cell:
            raise self.wrong(column, "is empty.", hint="every row needs a number here")
        if value < 0:
            raise self.wrong(column, "is negative.", hint="give 0 or more")
        if MOST_NUMBER < value < math.inf:
            raise self.wrong(column, f"is more than {MOST_NUMBER:.0e}.", hint="check the unit: times are in seconds")
        raise self.wrong(column, "is not a finite number.", hint="write a plain number such as 3600 or 0.5")

    def whole(self, column: str, *, least: int) -> int:
        """A whole number."""
        value = self.number(column)
        if not value.is_integer():
            raise self.wrong(column, "is not a whole number.", hint="write a whole number such as 4")
        if value < least:
            raise self.wrong(column, f"must be at least {least}.", hint=f"give {least} or more, or take the row out")
        if value > MOST_COUNT:
            raise self.wrong(
                column, f"is more than {MOST_COUNT:,}.", hint="check that the columns are in the order of the header"
            )
        return int(value)

    def wrong(self, column: str, problem: str, *, hint: str) -> InputError:
        return self.error(problem, where=self.where, line=self.line, field=column, value=shown(self.text(column)), hint=hint)


@dataclass(frozen=True)
class Table:
    """A file as text with a header."""

    where: str
    lines: list[str]
    header_line: int
    columns: tuple[str, ...]
    error: type[InputError]

    def rows(self) -> Iterator[Row]:
        """Every line below the header that is not blank."""
        columns, where, error = self.columns, self.where, self.error
        for line, text in enumerate(self.lines[self.header_line :], self.header_line + 1):
            if not text or text.isspace():
                continue
            cells = _cells(text, where, line, error)
            if len(cells) != len(columns):
                raise error(
                    f"the header has {len(columns)} columns.",
                    where=where,
                    line=line,
                    field="cells",
                    value=len(cells),
                    hint="a comma inside a value needs quotes around the value",
                )
            if len(text) > LONGEST_CELL:
                _check_lengths(zip(columns, cells, strict=True), where, line, error)
            yield Row(where, line, {column: cell.strip() for column, cell in zip(columns, cells, strict=True)}, error)


def read_table(path: Path | str, error: type[InputError], *, instead: str = "") -> Table:
    """The text of a file and its header, the first line that is not blank. `instead`: what else could have been named."""
    where = str(path)
    lines = _decoded(_bytes(path, error, instead), where, error).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line, text in enumerate(lines, 1):
        if text and not text.isspace():
            cells = _cells(text, where, line, error)
            _check_lengths((("column", cell) for cell in cells), where, line, error)
            columns = tuple(cell.strip() for cell in cells)
            _check_distinct(columns, where, line, error)
            return Table(where, lines, line, columns, error)
    raise error("the file is empty.", where=where, hint="give a file with a header and one line per row")


def closest(name: str, known: Iterable[str]) -> str:
    """` Closest: gpus.`, or nothing when no name is near."""
    by_lower = {each.lower(): each for each in islice(known, MOST_COMPARED)}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" Closest: {by_lower[near[0]]}." if near else ""


def shown(cell: str) -> str:
    """A value as a message shows it: no screens full of text."""
    return cell if len(cell) <= LONGEST_SHOWN else cell[:LONGEST_SHOWN] + "…"


def _bytes(path: Path | str, error: type[InputError], instead: str) -> bytes:
    where = str(path)
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise error("there is no such file.", where=where, hint=", or ".join(filter(None, ("check the path", instead)))) from None
    except IsADirectoryError:
        raise error("is a folder, not a file.", where=where, hint="name one file inside it") from None
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise error(f"cannot be read: {why}.", where=where, hint="check the path and its permissions") from None


def _decoded(data: bytes, where: str, error: type[InputError]) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(
            "the file is not UTF-8 text.",
            where=where,
            line=_line_after(problem.object[: problem.start].decode()),
            field="byte",
            value=f"0x{problem.object[problem.start]:02x}",
            hint="save it as UTF-8, for example with iconv -t UTF-8",
        ) from None
    if "\0" in text:
        raise error(
            "text holds no NUL.",
            where=where,
            line=_line_after(text[: text.index("\0")]),
            field="byte",
            value="0x00",
            hint="the file may be binary or damaged; save it as UTF-8 text",
        )
    return text


def _line_after(text: str) -> int:
    """The number of the line on which whatever follows this text stands."""
    return text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1


def _cells(text: str, where: str, line: int, error: type[InputError]) -> list[str]:
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as problem:
        raise error(
            f"cannot be split into cells: {problem}.",
            where=where,
            line=line,
            field="line",
            value=shown(text),
            hint="close every quote on its own line, and double a quote inside quotes",
        ) from None


def _check_distinct(columns: Iterable[str], where: str, line: int, error: type[InputError]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise error(
                "stands in the header twice.",
                where=where,
                line=line,
                field="column",
                value=shown(column),
                hint="rename one of the two",
            )
        seen.add(column)


def _check_lengths(cells: Iterable[tuple[str, str]], where: str, line: int, error: type[InputError]) -> None:
    for column, cell in cells:
        if len(cell) > LONGEST_CELL:
            raise error(
                f"is {len(cell):,} characters long; the limit is {LONGEST_CELL:,}.",
                where=where,
                line=line,
                field=shown(column),
                value=shown(cell),
                hint="look for a quote that is never closed",
            )
