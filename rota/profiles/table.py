"""Our own table of rates: comma-separated UTF-8 text, a header, one measurement per line, columns in any order.

| column | what it is |
|---|---|
| `profile` | the key that jobs name in their spec |
| `accelerator` | accelerator type; upper and lower case are one |
| `gpus` | GPUs it was measured on, a whole number from 1; may be left out: 1 |
| `steps_per_second` | optimiser steps per second of the whole gang; 0: known not to run there |

    profile,accelerator,gpus,steps_per_second
    resnet50,V100,1,5.1
    resnet50,V100,4,18.7
    resnet50,K80,1,0
"""

import csv
import difflib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rota.beliefs.rates import Rates
from rota.errors import ProfileError
from rota.model.cluster import canonical

REQUIRED = ("profile", "accelerator", "steps_per_second")
COLUMNS = ("profile", "accelerator", "gpus", "steps_per_second")
MOST_GPUS = 1_000_000
MOST_RATE = 1e15
LONGEST_CELL = 10_000
LONGEST_SHOWN = 60

_EXAMPLE = f"a header {','.join(COLUMNS)}"
_TYPE = re.compile(r"[\w.-]+")
"""The names a cluster can be described with."""


class _Row(NamedTuple):
    where: str
    line: int
    cells: dict[str, str]

    def wrong(self, column: str, problem: str, *, hint: str) -> ProfileError:
        value = _shown(self.cells[column])
        return ProfileError(problem, where=self.where, line=self.line, field=column, value=value, hint=hint)

    def number(self, column: str, most: float) -> float:
        cell = self.cells[column]
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        # float() also reads 1_000 and the digits of other scripts, which no other tool would.
        if 0.0 <= value <= most and "_" not in cell and cell.isascii():
            return value
        if value < 0:
            raise self.wrong(column, "is negative.", hint="0 says that it is known not to run there")
        if most < value < math.inf:
            raise self.wrong(column, f"is more than {most:,.0f}.", hint="check that the columns are in the order of the header")
        raise self.wrong(column, "is not a finite number.", hint="write a plain number such as 4 or 0.5")


def read_rates(path: Path | str) -> Rates:
    """Read a table of rates; what it does not list keeps the relative speeds of the accelerator types."""
    table: dict[tuple[str, str, int], float] = {}
    lines: dict[tuple[str, str, int], int] = {}
    for row in _rows(str(path), _text(path)):
        key = (_profile(row), _accelerator(row), _gpus(row))
        if key in table:
            raise row.wrong(
                "profile", f"{key[1]} on {key[2]} GPUs is already given on line {lines[key]}.", hint="keep one of the two lines"
            )
        table[key], lines[key] = row.number("steps_per_second", MOST_RATE), row.line
    if not table:
        raise ProfileError("a header, but no rates below it.", where=str(path), hint="add one line per measurement")
    return Rates(table)


def _profile(row: _Row) -> str:
    if not row.cells["profile"]:
        raise row.wrong("profile", "is empty.", hint="name the profile as your jobs do")
    return row.cells["profile"]


def _accelerator(row: _Row) -> str:
    kind = canonical(row.cells["accelerator"])
    if not _TYPE.fullmatch(kind):
        raise row.wrong("accelerator", "is no accelerator type.", hint="one type per line, such as V100")
    return kind


def _gpus(row: _Row) -> int:
    if not row.cells.get("gpus"):
        return 1
    value = row.number("gpus", MOST_GPUS)
    if value < 1 or not value.is_integer():
        raise row.wrong("gpus", "must be a whole number from 1.", hint="leave it empty for 1")
    return int(value)


def _text(path: Path | str) -> str:
    where = str(path)
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ProfileError("there is no such file.", where=where, hint="check the path") from None
    except IsADirectoryError:
        raise ProfileError("is a folder, not a file.", where=where, hint="name one file inside it") from None
    except UnicodeDecodeError as error:
        raise ProfileError(
            "the file is not UTF-8 text.",
            where=where,
            line=_line_after(error.object[: error.start].decode()),
            field="byte",
            value=f"0x{error.object[error.start]:02x}",
            hint="save it as UTF-8, for example with iconv -t UTF-8",
        ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ProfileError(f"cannot be read: {why}.", where=where, hint="check the path and its permissions") from None
    if "\0" in text:
        line = _line_after(text[: text.index("\0")])
        hint = "the file may be binary or damaged; save it as UTF-8 text"
        raise ProfileError("text holds no NUL.", where=where, line=line, field="byte", value="0x00", hint=hint)
    return text


def _rows(where: str, text: str) -> Iterator[_Row]:
    """Every line below the header. One measurement is one line: no quoted cell holds a line break."""
    columns: tuple[str, ...] = ()
    for line, each in enumerate(_split(text), 1):
        if not each or each.isspace():
            continue
        cells = tuple(cell.strip() for cell in _cells(each, where, line))
        if not columns:
            _check_header(cells, where, line)
            columns = cells
            continue
        if len(cells) != len(columns):
            hint = "a comma inside a value needs quotes around the value"
            raise ProfileError(
                f"the header has {len(columns)} columns.", where=where, line=line, field="cells", value=len(cells), hint=hint
            )
        row = _Row(where, line, dict(zip(columns, cells, strict=True)))
        for column, cell in row.cells.items():
            if len(cell) > LONGEST_CELL:
                raise row.wrong(
                    column, f"is longer than {LONGEST_CELL:,} characters.", hint="look for a quote that is never closed"
                )
        yield row
    if not columns:
        raise ProfileError("the file is empty.", where=where, hint=_EXAMPLE)


def _check_header(columns: tuple[str, ...], where: str, line: int) -> None:
    def wrong(column: str, problem: str, hint: str) -> ProfileError:
        return ProfileError(problem, where=where, line=line, field="column", value=_shown(column), hint=hint)

    for i, column in enumerate(columns):
        if column in columns[:i]:
            raise wrong(column, "stands in the header twice.", "rename one of the two")
        if column not in COLUMNS:
            near = difflib.get_close_matches(column.lower(), COLUMNS, n=1)
            closest = f" Closest: {near[0]}." if near else ""
            raise wrong(
                column, f"a table of rates has no such column.{closest} All: {', '.join(COLUMNS)}.", "rename it, or take it out"
            )
    for column in REQUIRED:
        if column not in columns:
            raise ProfileError("a table of rates needs this column.", where=where, line=line, field=column, hint=_EXAMPLE)


def _cells(text: str, where: str, line: int) -> list[str]:
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise ProfileError(
            f"cannot be split into cells: {error}.",
            where=where,
            line=line,
            field="line",
            value=_shown(text),
            hint="close every quote on its own line, and double a quote inside quotes",
        ) from None


def _split(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _line_after(text: str) -> int:
    """The number of the line on which whatever follows this text stands."""
    return len(_split(text))


def _shown(cell: str) -> str:
    """A value as a message shows it: no screens full of text."""
    return cell if len(cell) <= LONGEST_SHOWN else cell[:LONGEST_SHOWN] + "…"
