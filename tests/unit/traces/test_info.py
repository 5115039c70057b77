"""What `rota trace info` and `convert` report about a trace that was not carried over completely, and what `generate` accepts."""

import json
from pathlib import Path

import pytest

from rota.traces.info import describe
from rota.traces.read_trace import read_trace
from rota.traces.synthetic import named
from tests.unit.cli.test_bad_input import rota
from tests.unit.traces.test_formats import GAVEL_7, OPENB
from tests.unit.traces.test_read_trace import write

NOTE = "1 job requested fractions of several GPUs and got whole ones"


def test_reasons_are_counted(tmp_path: Path) -> None:
    found = describe(read_trace(write(tmp_path, OPENB)))
    assert (found.jobs, found.skipped) == (3, 6)
    assert found.skipped_why == {
        "requests no GPU": 2,
        "was never scheduled": 1,
        "was never deleted": 1,
        "ran for no time": 1,
        "was deleted before it was scheduled": 1,
    }
    assert next(iter(found.skipped_why)) == "requests no GPU", "the most frequent first"
    assert found.notes == (NOTE,)


def test_info_says_what_was_skipped_and_noted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = str(write(tmp_path, OPENB))
    _, out, _ = rota(capsys, monkeypatch, "trace", "info", path)
    assert "3 jobs" in out and "6 skipped" in out
    assert "2: requests no GPU\n" in out and NOTE in out
    _, out, _ = rota(capsys, monkeypatch, "trace", "info", path, "-o", "json")
    value = json.loads(out)
    assert (value["skipped"], value["skipped_why"]["requests no GPU"], value["notes"]) == (6, 2, [NOTE])


def test_info_of_profiled_jobs_makes_up_no_run_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = GAVEL_7.split("\t")[0]
    _, out, _ = rota(capsys, monkeypatch, "trace", "info", str(write(tmp_path, GAVEL_7)))
    assert "table of rates" not in out and "GPU-hours" in out, "the catalogue knows this one"
    _, out, _ = rota(capsys, monkeypatch, "trace", "info", str(write(tmp_path, GAVEL_7.replace(known, "Nobody's model"))))
    assert "table of rates" in out and "GPU-hours" not in out


def test_convert_says_what_the_copy_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copied = tmp_path / "ours.csv"
    code, out, _ = rota(capsys, monkeypatch, "trace", "convert", str(write(tmp_path, OPENB)), str(copied))
    assert code == 0
    assert "3 jobs, 6 skipped" in out and NOTE in out
    assert read_trace(copied).arrivals == read_trace(tmp_path / "trace.csv").arrivals


def test_generate_with_tenants_and_a_rhythm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = tmp_path / "made.csv"
    words = ("--jobs", "50", "--seed", "3", "--tenants", "4", "--diurnal", "0.5")
    assert rota(capsys, monkeypatch, "trace", "generate", str(made), *words)[0] == 0
    assert read_trace(made).arrivals == named("synthetic:jobs=50,seed=3,tenants=4,rhythm=0.5").arrivals


@pytest.mark.parametrize(
    ("flag", "value"), [("--tenants", "-1"), ("--tenants", "few"), ("--diurnal", "1.5"), ("--diurnal", "no")]
)
def test_generate_refuses(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flag: str, value: str
) -> None:
    code, out, err = rota(capsys, monkeypatch, "trace", "generate", str(tmp_path / "made.csv"), flag, value)
    assert (code, out) == (2, "")
    assert value in err and "Try: " in err
    assert not (tmp_path / "made.csv").exists()
