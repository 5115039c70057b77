"""The folder of a run: one small file per finished cell, which is complete or absent.

    cells/KEY.json        one finished cell

A sweep also keeps:

    grids/KEY/grid.json   studies of the grid
             /results.csv   every finished cell of that grid, in order
             /results.json
    grid.json, results.csv, results.json   the files of the latest grid

A file is written under a temporary name, flushed to disk and renamed. So a kill at any moment leaves the old file or the new one.
The results of a sweep leave out how long the simulations took, so the same grid gives the same bytes.
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
from rota.experiments.cell import Cell
from rota.files.text import as_csv
from rota.report.comparison import WALL_CLOCK


class CellStore:
    """The finished cells in a folder."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._cells = self.folder / "cells"
        try:
            self._cells.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise self._unusable(problem) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for one run at a time. The lock ends with the process, however that ends."""
        try:
            opened = (self.folder / ".lock").open("w")
        except OSError as problem:
            raise self._unusable(problem) from None
        with opened as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise OptionError(
                    "another sweep or reproduction is running in this folder.",
                    field="--out",
                    value=str(self.folder),
                    hint="wait, or another --out",
                ) from None
            yield

    def load(self, key: str) -> dict[str, Any] | None:
        """Return the result of a cell; None if there is none, or if its file was cut short."""
        try:
            found = json.loads((self._cells / f"{key}.json").read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and found else None

    def save(self, key: str, result: Mapping[str, Any]) -> None:
        write_atomic(self._cells / f"{key}.json", json.dumps(result))

    def _unusable(self, problem: OSError) -> OptionError:
        why = f"cannot be used: {problem.strerror or problem}."
        return OptionError(why, field="--out", value=str(self.folder), hint="another folder")


class SweepStore(CellStore):
    """The folder of a sweep: finished cells, and the grids that were run."""

    def describe(self, cells: Sequence[Cell]) -> None:
        """Write the studies of a grid. The files of other grids stay in their own folders."""
        self._keep_former()
        self._write(cells, "grid.json", json.dumps([{"key": c.key, **c.study.plain()} for c in cells], indent=1))

    def _write(self, cells: Sequence[Cell], name: str, text: str) -> None:
        """Write a file of a grid into the folder of the grid, and as the latest one."""
        own = self._grid_folder([cell.study.plain() for cell in cells])
        own.mkdir(parents=True, exist_ok=True)
        write_atomic(own / name, text)
        write_atomic(self.folder / name, text)

    def _keep_former(self) -> None:
        """Give the files of the latest grid a folder of their own. Early versions of Rota kept no other copy."""
        studies = read_grid(self.folder / "grid.json")
        if studies is None or ((own := self._grid_folder(studies)) / "grid.json").exists():
            return
        own.mkdir(parents=True, exist_ok=True)
        for name in ("results.json", "results.csv", "grid.json"):  # the last one marks the folder as complete
            if (self.folder / name).is_file():
                write_atomic(own / name, (self.folder / name).read_text(encoding="utf-8"))

    def others(self, cells: Sequence[Cell]) -> list[Path]:
        """Return the folders of other grids in this folder that have studies which are not among these cells."""
        these = {_as_text(cell.study.plain()) for cell in cells}
        found = [(path.parent, read_grid(path)) for path in sorted(self.folder.glob("grids/*/grid.json"))]
        return [folder for folder, studies in found if studies and not {_as_text(study) for study in studies} <= these]

    def is_outdated(self, cells: Sequence[Cell]) -> bool:
        """Whether the folder has this grid, but only with cells of other input files or of another version of Rota."""
        try:
            listed = json.loads((self._grid_folder([cell.study.plain() for cell in cells]) / "grid.json").read_bytes())
        except (OSError, ValueError):
            return False
        return not {each["key"] for each in listed} & {cell.key for cell in cells}

    def finish(self, cells: Sequence[Cell]) -> list[dict[str, Any]]:
        """Write the results of all finished cells, and return them."""
        rows = []
        for cell in cells:
            found = self.load(cell.key)
            if found is not None:
                summary = {name: value for name, value in found["summary"].items() if name not in WALL_CLOCK}
                rows.append({"key": cell.key, "axes": dict(cell.axes), "params": found["params"], "summary": summary})
        self._write(cells, "results.json", json.dumps(rows, indent=1))
        table = [{**row["axes"], "seed": row["params"]["seed"], **row["summary"]} for row in rows]
        self._write(cells, "results.csv", as_csv(table))
        return rows

    def _grid_folder(self, studies: Sequence[Mapping[str, Any]]) -> Path:
        """Return the folder of a grid. It depends on its studies, not on their order."""
        return self.folder / "grids" / hashlib.sha256("\n".join(sorted(map(_as_text, studies))).encode()).hexdigest()[:12]


def read_grid(path: Path) -> list[dict[str, Any]] | None:
    """Return the studies in the file of a grid; None if there is no such file."""
    try:
        listed = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return [{name: value for name, value in each.items() if name != "key"} for each in listed]


def _as_text(study: Mapping[str, Any]) -> str:
    return json.dumps(study, sort_keys=True)


def write_atomic(path: Path, text: str) -> None:
    """Write a file that is complete or absent, even after a power cut."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as problem:
        raise OptionError(
            f"cannot be written: {problem.strerror or problem}.", field="--out", value=str(path), hint="another folder"
        ) from None
