"""The text of a file, or one error that explains why it cannot be read; and rows as text."""

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.errors import InputError, OptionError
from rota.files.inputs import read_input

GZIP = b"\x1f\x8b"
"""First bytes of files that gzip wrote."""
MAX_UNPACKED_MB = 256
"""Default limit for the size of a decompressed file, in MB: a small file can hold more than any memory."""
UNPACKED_VARIABLE = "ROTA_UNPACKED_MB"
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""Start of cells that a spreadsheet takes for a formula, with the marks that were put before them."""


def read_text(path: Path | str, error: type[InputError], instead: str = "") -> str:
    """Read UTF-8 text, with or without a byte order mark, plain or compressed by gzip. `instead` is an alternative to the file,
    for the hint."""
    return decoded(_bytes(path, error, instead), str(path), error)


def decoded(data: bytes, where: str, error: type[InputError]) -> str:
    """Decode the bytes of a file. `where` names their source."""
    return _text(_unzipped(data, where, error) if data.startswith(GZIP) else data, where, error)


def _unzipped(data: bytes, where: str, error: type[InputError]) -> bytes:
    most = _max_unpacked_mb() << 20
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as problem:
        raise error(f"cannot be unpacked: {problem}.", where=where, hint="gunzip --test shows whether it is damaged") from None
    if len(text) > most:
        too_much = f"unpacks to more than {most >> 20:,} MB, which is not read."
        raise error(too_much, where=where, hint=f"{UNPACKED_VARIABLE}={4 * most >> 20}, if you trust the file")
    return text


def _max_unpacked_mb() -> int:
    given = os.environ.get(UNPACKED_VARIABLE, "")
    if given and not (given.isdecimal() and 0 < int(given) < 1 << 30):
        raise OptionError("is not a number of MB.", field=UNPACKED_VARIABLE, value=given, hint=f"{UNPACKED_VARIABLE}=1024")
    return int(given or MAX_UNPACKED_MB)


def _bytes(path: Path | str, error: type[InputError], instead: str) -> bytes:
    where = str(path)
    try:
        return read_input(path)
    except FileNotFoundError:
        raise error("there is no such file.", where=where, hint=", or ".join(filter(None, ("check the path", instead)))) from None
    except IsADirectoryError:
        raise error("is a folder, not a file.", where=where, hint="name one file inside it") from None
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise error(f"cannot be read: {why}.", where=where, hint="check the path and its permissions") from None


def _text(data: bytes, where: str, error: type[InputError]) -> str:
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
            "text must not contain NUL.",
            where=where,
            line=_line_after(text[: text.index("\0")]),
            field="byte",
            value="0x00",
            hint="the file may be binary or damaged; save it as UTF-8 text",
        )
    return text


def _line_after(text: str) -> int:
    """Return the number of the line that follows this text."""
    return text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1


def as_csv(rows: Sequence[Mapping[str, Any]], heads: Sequence[str] = ()) -> str:
    """Format rows as CSV: a header with every name that occurs, and a line per row. Without rows, the header has the names in
    `heads`. No cell is a formula to a spreadsheet."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)) or heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: defused(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def defused(cell: Any) -> Any:
    """Return a cell that a spreadsheet takes for text: `'` is put before anything that would be a formula. Numbers stay
    numbers."""
    if not isinstance(cell, str) or not _FORMULA.match(cell):
        return cell
    try:
        float(cell)
        return cell
    except ValueError:
        return f"'{cell}"


def as_written(cell: str) -> str:
    """Return a cell of a CSV file without the `'` that `defused` put before it."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
