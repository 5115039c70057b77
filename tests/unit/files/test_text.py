"""Text of other people's files: decompression is bounded, and CSV contains no formulas."""

import csv
import gzip
import io
import subprocess
import sys
from pathlib import Path

import pytest

from rota.errors import OptionError, TraceError
from rota.files.csv_table import read_table
from rota.files.text import MAX_UNPACKED_MB, UNPACKED_VARIABLE, as_csv, as_written, defused, read_text


def bomb(path: Path, megabytes: int) -> Path:
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"submit_time,gpus\n")
        for _ in range(megabytes):
            file.write(b"0,1\n" * (1 << 18))
    return path


def test_what_unpacks_to_more_than_the_limit_is_refused_and_the_limit_can_be_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bomb(tmp_path / "jobs.csv.gz", 3)
    monkeypatch.setenv(UNPACKED_VARIABLE, "2")
    with pytest.raises(TraceError, match="unpacks to more than 2 MB") as problem:
        read_text(path, TraceError)
    assert problem.value.hint.startswith(f"{UNPACKED_VARIABLE}=8,")
    monkeypatch.setenv(UNPACKED_VARIABLE, "4")
    assert len(read_text(path, TraceError)) > 3 << 20
    monkeypatch.delenv(UNPACKED_VARIABLE)
    assert len(read_text(path, TraceError)) > 3 << 20


@pytest.mark.parametrize("given", ["many", "-1", "0", "1e3"])
def test_a_limit_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(UNPACKED_VARIABLE, given)
    with pytest.raises(OptionError, match="is not a number of MB"):
        read_text(bomb(tmp_path / "jobs.csv.gz", 1), TraceError)


@pytest.mark.slow
def test_a_small_file_that_unpacks_to_gigabytes_takes_little_memory(tmp_path: Path) -> None:
    """Pieces of a file may be packed one after the other: 4 GB in 4 MB, made at once."""
    piece = gzip.compress(b"0,1\n" * (1 << 24))
    (tmp_path / "jobs.csv.gz").write_bytes(gzip.compress(b"submit_time,gpus\n") + piece * 64)
    limit = (3 * MAX_UNPACKED_MB) << 20
    script = f"""
import resource
resource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit}))
from rota.errors import TraceError
from rota.files.text import read_text
try:
    read_text({str(tmp_path / "jobs.csv.gz")!r}, TraceError)
except TraceError as problem:
    print(problem.message)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert f"unpacks to more than {MAX_UNPACKED_MB} MB" in ended.stdout, ended.stderr[-2000:]


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "-", "'=quoted before", "''=twice"]
PLAIN = ["resnet", "-1.5", "+3", "-1e5", "", "a=b", "'quoted'", "it's", 7, -2.5, None, True]


@pytest.mark.parametrize("cell", FORMULAS)
def test_a_formula_is_text_to_a_spreadsheet_and_reads_back(cell: str) -> None:
    assert defused(cell) == f"'{cell}" and as_written(defused(cell)) == cell
    (row,) = csv.DictReader(io.StringIO(as_csv([{"name": cell, "gpus": -1}]), newline=""))
    assert row == {"name": f"'{cell}", "gpus": "-1"}


@pytest.mark.parametrize("cell", PLAIN)
def test_numbers_and_other_text_stay_as_they_are(cell: object) -> None:
    assert defused(cell) == cell
    if isinstance(cell, str):
        assert as_written(cell) == cell


def test_a_table_reads_back_what_was_defused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(as_csv([{"name": "=1+1", "user": "it's", "gpus": -1}]))
    (row,) = read_table(path, TraceError).rows()
    assert dict(row.cells) == {"name": "=1+1", "user": "it's", "gpus": "-1"}
