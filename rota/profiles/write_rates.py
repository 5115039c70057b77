"""Writing Rota's table of rates: new measurements replace those of the same cells in the file, and the rest of the file stays."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rota.errors import ProfileError
from rota.files.csv_table import read_table
from rota.files.text import as_csv
from rota.model.cluster import canonical
from rota.profiles.rates_csv import COLUMNS, OLD_COLUMNS, read_rates


class MeasuredRate(NamedTuple):
    """One line of the table: the exclusive rate of a profile on GPUs of one node."""

    profile: str
    accelerator: str
    gpus: int
    steps_per_second: float


def check_table(path: Path) -> None:
    """Raise ProfileError if rates cannot be added to this file: it is something else, or cannot be written."""
    if path.suffix.lower() != ".csv":
        raise ProfileError("must end in .csv.", where=str(path), hint=f"{path}.csv")
    if path.exists():
        read_rates(path)
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise ProfileError("cannot be written.", where=str(path), hint="--out with another file, in a folder that exists")


def write_rates(path: Path, measured: Sequence[MeasuredRate]) -> None:
    """Add rates to the file. Readers see either the old or the new file, even after a power cut."""
    rows = _lines(path) if path.exists() else {}
    for rate in measured:
        line = {**dict.fromkeys(COLUMNS, ""), **{name: str(value) for name, value in rate._asdict().items()}, "nodes": "1"}
        line["steps_per_second"] = f"{rate.steps_per_second:.6g}"
        rows[_key(line)] = line
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(as_csv(list(rows.values())))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            new.unlink()
        raise ProfileError(f"cannot be written: {problem.strerror}.", where=str(path), hint="--out with another file") from None


def _lines(path: Path) -> dict[tuple[str, ...], dict[str, str]]:
    """Return the lines of a table, with all columns in order."""
    read = (
        {name: row.text(name) for name in COLUMNS} for row in read_table(path, ProfileError).folded(COLUMNS, OLD_COLUMNS).rows()
    )
    return {_key(line): line for line in read}


def _key(line: dict[str, str]) -> tuple[str, ...]:
    """Return the cell to which a line belongs. GPUs and nodes may be left out."""
    counts = (line["gpus"] or "1", str(int(line["nodes"] or "1") > 1))
    return (line["profile"], canonical(line["accelerator"]), *counts, line["colocated_with"])
