"""What a sweep keeps: one small file per finished cell, whole or not there at all.

    grid.json       what was asked for last
    cells/KEY.json  one finished cell
    results.csv     every finished cell of the grid, in order
    results.json

A file is written beside its place, flushed to disk and renamed, so that a kill at any moment leaves either the old state or the
new one. Only what the simulation says is in the results, not how long it took: the same grid gives the same bytes.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rota.errors import OptionError
from rota.files.text import as_csv
from rota.report.comparison import WALL_CLOCK
from rota.sweeps.grid import SweepCell


class Store:
    """The folder of a sweep."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._cells = self.folder / "cells"
        try:
            self._cells.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise OptionError(
                f"cannot be used: {problem.strerror or problem}.", field="--out", value=str(folder), hint="another folder"
            ) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One sweep at a time in one folder. The lock goes with the process, however it ends."""
        try:
            opened = (self.folder / ".lock").open("w")
        except OSError as problem:
            raise OptionError(
                f"cannot be used: {problem.strerror or problem}.", field="--out", value=str(self.folder), hint="another folder"
            ) from None
        with opened as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise OptionError(
                    "another sweep is running in this folder.",
                    field="--out",
                    value=str(self.folder),
                    hint="wait, or another --out",
                ) from None
            yield

    def has(self, cell: SweepCell) -> bool:
        return self.load(cell) is not None

    def load(self, cell: SweepCell) -> dict[str, Any] | None:
        """A finished cell; None where there is none, or where somebody cut it short."""
        try:
            found = json.loads((self._cells / f"{cell.key}.json").read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and "summary" in found else None

    def save(self, key: str, result: Mapping[str, Any]) -> None:
        write_whole(self._cells / f"{key}.json", json.dumps(result))

    def describe(self, cells: Sequence[SweepCell]) -> None:
        write_whole(self.folder / "grid.json", json.dumps([{"key": c.key, **c.study.plain()} for c in cells], indent=1))

    def finish(self, cells: Sequence[SweepCell]) -> list[dict[str, Any]]:
        """Put the results of all cells together."""
        rows = []
        for cell in cells:
            found = self.load(cell)
            if found is not None:
                summary = {name: value for name, value in found["summary"].items() if name not in WALL_CLOCK}
                rows.append({"key": cell.key, "axes": dict(cell.axes), "params": found["params"], "summary": summary})
        write_whole(self.folder / "results.json", json.dumps(rows, indent=1))
        write_whole(
            self.folder / "results.csv",
            as_csv([{**row["axes"], "seed": row["params"]["seed"], **row["summary"]} for row in rows]),
        )
        return rows


def write_whole(path: Path, text: str) -> None:
    """All of it or nothing, also when the power goes."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as problem:
        raise OptionError(
            f"cannot be written: {problem.strerror or problem}.", field="--out", value=str(path), hint="another folder"
        ) from None
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
