"""`rota trace`: its description of a trace, and that a written trace reads back the same."""

import json
from pathlib import Path

import pytest

from rota.traces.info import describe
from rota.traces.read_trace import read_trace
from rota.traces.synthetic import named
from tests.unit.cli.test_bad_input import rota


def test_info(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("submit_time,gpus,duration,tenant\n10,1,3600,a\n20,4,7200,b\n110,4,60,b\n")
    code, out, _ = rota(capsys, monkeypatch, "trace", "info", str(path), "-o", "json")
    value = json.loads(out)
    assert code == 0
    assert (value["jobs"], value["span_seconds"], value["gpus"], value["tenants"]) == (3, 100.0, {"1": 1, "4": 2}, 2)
    assert value["gpu_hours"] == pytest.approx(1 + 8 + 4 / 60)
    assert value["median_seconds"] == 3600.0 and value["longest_seconds"] == 7200.0
    _, out, _ = rota(capsys, monkeypatch, "trace", "info", str(path))
    assert "3 jobs" in out and "4: 2" in out


def test_convert_and_generate_read_back(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, copied = tmp_path / "made.csv", tmp_path / "copied.csv"
    words = ("trace", "generate", str(made), "--jobs", "50", "--seed", "3", "--load", "0.7", "--gpus", "16")
    assert rota(capsys, monkeypatch, *words)[0] == 0
    assert read_trace(made).arrivals == named("synthetic:jobs=50,seed=3,load=0.7,gpus=16").arrivals
    assert rota(capsys, monkeypatch, "trace", "convert", str(made), str(copied))[0] == 0
    assert read_trace(copied).arrivals == read_trace(made).arrivals
    assert describe(read_trace(copied)).jobs == 50


def test_nothing_is_written_over_unasked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("precious")
    for words in (("generate", str(path)), ("convert", "demo", str(path))):
        code, _, err = rota(capsys, monkeypatch, "trace", *words)
        assert code == 2 and "the file exists" in err and "Try: " in err and path.read_text() == "precious"
    assert rota(capsys, monkeypatch, "trace", "generate", str(path), "--force")[0] == 0
    assert path.read_text() != "precious"
