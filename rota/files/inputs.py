"""Input files, under the names that a study gives them.

A name usually means a file on this machine. A worker process that calculates a cell of another machine reads through a table
instead (`read_through`). The table has the names of that machine and, for each name, a local copy of the contents. The study, its
result and every message therefore keep the names of the other machine, and nothing has to be rewritten.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from errno import EISDIR, ENOENT
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class InputTable:
    """Names of input files on another machine, with local copies. No other file exists."""

    cwd: str
    """Folder of the other machine that relative names start from."""
    copies: Mapping[str, str]
    """Name as the study gives it -> local file with the contents."""

    def by_path(self) -> dict[str, str]:
        """Return absolute path on the other machine -> local file."""
        return {self.absolute(name): copy for name, copy in self.copies.items()}

    def absolute(self, name: Path | str) -> str:
        return os.path.normpath(Path(self.cwd, name))


_table: ContextVar[InputTable | None] = ContextVar("input table", default=None)


@contextmanager
def read_through(table: InputTable | None) -> Iterator[None]:
    """Read input files through this table inside the `with` block; None reads them from the disk."""
    before = _table.set(table)
    try:
        yield
    finally:
        _table.reset(before)


def read_input(path: Path | str) -> bytes:
    """Return the contents of an input file. Raise OSError if it cannot be read."""
    table = _table.get()
    if table is None:
        return Path(path).read_bytes()
    copy = table.by_path().get(table.absolute(path))
    if copy is None:
        code = EISDIR if input_is_folder(path) else ENOENT
        raise OSError(code, os.strerror(code), str(path))
    return Path(copy).read_bytes()


def absolute_input(path: Path | str) -> str:
    """Return the absolute path of an input file, on the machine whose names are used."""
    table = _table.get()
    return os.path.abspath(path) if table is None else table.absolute(path)  # noqa: PTH100  `Path.absolute` keeps `..`


def input_is_file(path: Path | str) -> bool:
    table = _table.get()
    return Path(path).is_file() if table is None else table.absolute(path) in table.by_path()


def input_is_folder(path: Path | str) -> bool:
    """Whether this is a folder. A table has the folders of its files."""
    table = _table.get()
    return Path(path).is_dir() if table is None else bool(inputs_in(path, "**"))


def input_exists(path: Path | str) -> bool:
    """Whether this is a file of any kind, such as a pipe, or a folder."""
    return Path(path).exists() if _table.get() is None else input_is_file(path) or input_is_folder(path)


def inputs_in(folder: Path | str, pattern: str) -> list[Path]:
    """Return the files in a folder whose relative path matches a pattern such as `*/placements.csv`, sorted."""
    table = _table.get()
    if table is None:
        return sorted(Path(folder).glob(pattern))
    base, found = PurePosixPath(table.absolute(folder)), []
    for path in map(PurePosixPath, table.by_path()):
        if path != base and path.is_relative_to(base):
            relative = path.relative_to(base)
            same_depth = len(relative.parts) == len(PurePosixPath(pattern).parts)
            if pattern == "**" or (same_depth and relative.match(pattern)):
                found.append(Path(folder) / relative)
    return sorted(found)
