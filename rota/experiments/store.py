"""What a sweep keeps: one small file per finished cell, whole or not there at all.

    cells/KEY.json        one finished cell
    grids/KEY/grid.json   what was asked for
             /results.csv   every finished cell of that grid, in order
             /results.json
    grid.json, results.csv, results.json   the same of the latest grid

A file is written beside its place, flushed to disk and renamed, so that a kill at any moment leaves either the old state or the
new one. Only what the simulation says is in the results, not how long it took: the same grid gives the same bytes.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rota.errors import OptionError
from rota.experiments.grid import SweepCell
from rota.files.text import as_csv
from rota.report.comparison import WALL_CLOCK


class Store:
    """The folder of a sweep."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._cells, self._grids = self.folder / "cells", self.folder / "grids"
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
        """Write down what the grid is. Files of another grid that was swept here before stay in the folder of that grid."""
        self._keep_former()
        self._write(cells, "grid.json", json.dumps([{"key": c.key, **c.study.plain()} for c in cells], indent=1))

    def _write(self, cells: Sequence[SweepCell], name: str, text: str) -> None:
        """Into the folder of this grid, and beside the cells for the latest grid."""
        own = self._grids / grid_key([cell.study.plain() for cell in cells])
        own.mkdir(parents=True, exist_ok=True)
        write_whole(own / name, text)
        write_whole(self.folder / name, text)

    def _keep_former(self) -> None:
        """A folder of an earlier Rota has the files of one grid only, beside the cells: give them a folder of their own."""
        studies = read_grid(self.folder / "grid.json")
        if studies is None or ((own := self._grids / grid_key(studies)) / "grid.json").exists():
            return
        own.mkdir(parents=True, exist_ok=True)
        for name in ("results.json", "results.csv", "grid.json"):  # the last one says that all are there
            if (self.folder / name).is_file():
                write_whole(own / name, (self.folder / name).read_text(encoding="utf-8"))

    def others(self, cells: Sequence[SweepCell]) -> list[Path]:
        """Folders of grids that were swept here before and have cells that these are not."""
        these = {_spelled(cell.study.plain()) for cell in cells}
        found = [(path.parent, read_grid(path)) for path in sorted(self._grids.glob("*/grid.json"))]
        return [folder for folder, studies in found if studies and not {_spelled(study) for study in studies} <= these]

    def finish(self, cells: Sequence[SweepCell]) -> list[dict[str, Any]]:
        """Put the results of all cells together."""
        rows = []
        for cell in cells:
            found = self.load(cell)
            if found is not None:
                summary = {name: value for name, value in found["summary"].items() if name not in WALL_CLOCK}
                rows.append({"key": cell.key, "axes": dict(cell.axes), "params": found["params"], "summary": summary})
        self._write(cells, "results.json", json.dumps(rows, indent=1))
        table = [{**row["axes"], "seed": row["params"]["seed"], **row["summary"]} for row in rows]
        self._write(cells, "results.csv", as_csv(table))
        return rows


def grid_key(studies: Sequence[Mapping[str, Any]]) -> str:
    """The same studies have the same key, whatever their order."""
    return hashlib.sha256("\n".join(sorted(map(_spelled, studies))).encode()).hexdigest()[:12]


def read_grid(path: Path) -> list[dict[str, Any]] | None:
    """The studies of a grid as a file has them; None where there is no such file."""
    try:
        listed = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return [{name: value for name, value in each.items() if name != "key"} for each in listed]


def _spelled(study: Mapping[str, Any]) -> str:
    return json.dumps(study, sort_keys=True)


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
