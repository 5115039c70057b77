"""The text of a file, or one error that says why it cannot be had; and rows as text."""

import csv
import gzip
import io
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.errors import InputError

GZIP = b"\x1f\x8b"
"""How files begin that gzip wrote."""
MOST_BYTES = 4 * 2**30
"""A compressed file may unpack to so many; a small file can pretend to hold far more than any memory."""


def read_text(path: Path | str, error: type[InputError], instead: str = "") -> str:
    """UTF-8, with or without a byte order mark, as it is or compressed by gzip. `instead`: what else could have been named."""
    return decoded(_bytes(path, error, instead), str(path), error)


def decoded(data: bytes, where: str, error: type[InputError]) -> str:
    """The text that some bytes are; `where` they came from."""
    return _text(_unzipped(data, where, error) if data.startswith(GZIP) else data, where, error)


def _unzipped(data: bytes, where: str, error: type[InputError]) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as problem:
        raise error(f"cannot be unpacked: {problem}.", where=where, hint="gunzip --test says whether it is damaged") from None
    if len(text) > MOST_BYTES:
        raise error(f"unpacks to more than {MOST_BYTES:,} bytes.", where=where, hint="split the file") from None
    return text


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


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """A header with every name that occurs, and a line per row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
