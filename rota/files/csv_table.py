"""Text in columns, row by row: separated by commas below a header, or by tabs without one. Every problem becomes one error that
names file, line, field and value; callers choose its class.

One row is one line: a quoted cell may hold commas and quotes, but no line break, so every line number is the one that an editor
shows.
"""

import csv
import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rota.errors import InputError
from rota.files.text import as_written, read_text

MAX_CELL_CHARS = 10_000
MAX_COUNT = 1_000_000
MAX_DIGITS = len(str(MAX_COUNT))
MAX_NUMBER = 1e15
"""Largest accepted number. Beyond it a float cannot distinguish thousandths of a second, and sums over a trace lose their
meaning."""
MAX_SHOWN_CHARS = 60
NEGATIVE = re.compile(r"-\d")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
MAX_COMPARED = 1000
"""Number of names among which the closest is searched. More would take noticeable time."""


class CsvRow(NamedTuple):
    """One line of a file: column -> cell, without surrounding blanks."""

    where: str
    line: int
    cells: Mapping[str, str]
    error: type[InputError]

    def text(self, column: str) -> str:
        """Return the text of a cell; empty if the file has no such column."""
        return self.cells.get(column, "")

    def number(self, column: str) -> float:
        """Return a finite number of 0 or more."""
        cell = self.cells[column]
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        # float() also accepts 1_000 and digits of other scripts, which no other tool does.
        if 0.0 <= value <= MAX_NUMBER and "_" not in cell and cell.isascii():
            return value
        if not cell:
            raise self.wrong(column, "is empty.", hint="every row needs a number here")
        if value < 0:
            raise self._too_small(column, 0)
        if DATE.match(cell):
            raise self.wrong(column, "is a date.", hint="write seconds since the start of the trace, such as 3600")
        if MAX_NUMBER < value < math.inf:
            raise self.wrong(column, f"is more than {MAX_NUMBER:.0e}.", hint="check the unit: times are in seconds")
        raise self.wrong(column, "is not a finite number.", hint="write a plain number such as 3600 or 0.5")

    def whole(self, column: str, *, least: int) -> int:
        """Return a whole number."""
        cell = self.cells[column]
        if cell.isascii() and cell.isdigit() and len(cell) < MAX_DIGITS and int(cell) >= least:  # nearly all cells
            return int(cell)
        if NEGATIVE.match(self.cells[column]):
            raise self._too_small(column, least)
        value = self.number(column)
        if not value.is_integer():
            raise self.wrong(column, "is not a whole number.", hint="write a whole number such as 4")
        if value < least:
            raise self._too_small(column, least)
        if value > MAX_COUNT:
            raise self.wrong(column, f"is more than {MAX_COUNT:,}.", hint="check that the columns are in the order of the header")
        return int(value)

    def _too_small(self, column: str, least: int) -> InputError:
        return self.wrong(column, f"must be at least {least}.", hint=f"give {least} or more, or take the row out")

    def wrong(self, column: str, problem: str, *, hint: str) -> InputError:
        return self.error(problem, where=self.where, line=self.line, field=column, value=shown(self.text(column)), hint=hint)


@dataclass(frozen=True)
class FileTable:
    """A file as text whose columns have names."""

    where: str
    lines: list[str]
    header_line: int
    """Line of the header; without a header, the first row."""
    columns: tuple[str, ...]
    error: type[InputError]
    headless: bool = False
    """Whether the file has no header and tabs between cells. A quote then has no special meaning."""
    separator: str = ","
    """Sign between cells. If it is not a comma, a quote has no special meaning."""

    def folded(self, known: Sequence[str] | None = None, old: Mapping[str, str] | None = None) -> "FileTable":
        """Return the table with the names of its columns in lower case, unless two of them differ only in case. With `known`
        names, the others stay as they were typed. `old` maps earlier names of columns to the names of today."""
        today = old or {}
        names = [(typed, today.get(typed.lower(), typed.lower())) for typed in self.columns]
        lower = tuple(name if known is None or name in known else typed for typed, name in names)
        return replace(self, columns=lower) if len(set(lower)) == len(lower) else self

    def rows(self) -> Iterator[CsvRow]:
        """Yield every line below the header that is not blank."""
        columns, where, error, headless = self.columns, self.where, self.error, self.headless
        start, between = self.header_line - headless, "\t" if headless else self.separator
        quotes_count = between == ","
        for line, text in enumerate(self.lines[start:], start + 1):
            if not text or text.isspace():
                continue
            cells = _cells(text, where, line, error, between) if quotes_count and '"' in text else text.split(between)
            if len(cells) != len(columns):
                raise self._uneven(line, len(cells))
            if len(text) > MAX_CELL_CHARS:
                _check_lengths(zip(columns, cells, strict=True), where, line, error)
            if not headless and "'" in text:
                cells = [as_written(cell.strip()) for cell in cells]
            yield CsvRow(where, line, dict(zip(columns, map(str.strip, cells), strict=True)), error)

    def check_header(self, what: str, known: Sequence[str], required: Sequence[str], example: str) -> None:
        """Raise an error for a column that `what` does not have, or for a missing column that it needs."""
        for column in self.columns:
            if column not in known:
                problem = f"a table of {what} has no such column.{closest(column, known)} All: {', '.join(known)}."
                hint = "rename it, or take it out"
                raise self.error(problem, where=self.where, line=self.header_line, field="column", value=shown(column), hint=hint)
        for column in required:
            if column not in self.columns:
                problem = f"a table of {what} needs this column."
                raise self.error(problem, where=self.where, line=self.header_line, field=column, hint=example)

    def _uneven(self, line: int, cells: int) -> InputError:
        if self.headless:
            problem = f"the first row, on line {self.header_line}, has {len(self.columns)} cells."
            hint = "one tab between two cells, and none inside a value"
        else:
            problem = f"the header has {len(self.columns)} columns."
            hint = "a comma inside a value needs quotes around the value"
            if self.separator != ",":
                hint = f"no {self.separator} inside a value"
        return self.error(problem, where=self.where, line=line, field="cells", value=cells, hint=hint)


@dataclass(frozen=True)
class Lines:
    """A file as lines, before its columns are known."""

    where: str
    lines: list[str]
    first_line: int
    """The first line that is not blank."""
    error: type[InputError]

    @property
    def tabbed(self) -> list[str]:
        """Cells of the first line, separated by tabs."""
        return self.lines[self.first_line - 1].split("\t")

    def with_header(self) -> FileTable:
        """Return a table with commas between cells, whose first line names the columns."""
        return self.with_separator(",")

    def with_separator(self, separator: str) -> FileTable:
        """Return a table with this sign between cells, whose first line names the columns."""
        cells = _cells(self.lines[self.first_line - 1], self.where, self.first_line, self.error, separator)
        _check_lengths((("column", cell) for cell in cells), self.where, self.first_line, self.error)
        columns = tuple(cell.strip() for cell in cells)
        _check_distinct(columns, self.where, self.first_line, self.error)
        return FileTable(self.where, self.lines, self.first_line, columns, self.error, separator=separator)

    def without_header(self, columns: tuple[str, ...]) -> FileTable:
        """Return a table with tabs between cells, whose first line is a row."""
        return FileTable(self.where, self.lines, self.first_line, columns, self.error, headless=True)


def read_lines(path: Path | str, error: type[InputError], *, instead: str = "") -> Lines:
    """Return the lines of a file. Raise an error if it is empty. `instead` is an alternative to the file, for the hint."""
    return lines_in(read_text(path, error, instead), str(path), error)


def lines_in(whole: str, where: str, error: type[InputError]) -> Lines:
    """Return the lines of a text. Raise an error if it is empty."""
    lines = whole.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line, text in enumerate(lines, 1):
        if text and not text.isspace():
            return Lines(where, lines, line, error)
    raise error("the file is empty.", where=where, hint="give a file with a header and one line per row")


def read_table(path: Path | str, error: type[InputError]) -> FileTable:
    """Read a file with a header, which is its first line that is not blank."""
    return read_lines(path, error).with_header()


def closest(name: str, known: Iterable[str]) -> str:
    """Return ` Closest: gpus.`, or an empty text if no name is near."""
    by_lower = {each.lower(): each for each in islice(known, MAX_COMPARED)}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" Closest: {by_lower[near[0]]}." if near else ""


def shown(cell: str) -> str:
    """Shorten a value for a message."""
    return cell if len(cell) <= MAX_SHOWN_CHARS else cell[:MAX_SHOWN_CHARS] + "…"


def _cells(text: str, where: str, line: int, error: type[InputError], separator: str = ",") -> list[str]:
    if separator != ",":
        return text.split(separator)
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
        if len(cell) > MAX_CELL_CHARS:
            raise error(
                f"is {len(cell):,} characters long; the limit is {MAX_CELL_CHARS:,}.",
                where=where,
                line=line,
                field=shown(column),
                value=shown(cell),
                hint="look for a quote that is never closed",
            )
