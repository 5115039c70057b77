"""`rota profile scaling` as a user runs it."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.test_bad_input import rota
from tests.unit.profiles.test_scaling import write_pollux


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pollux(tmp_path / "profiles")
    (tmp_path / "profiles/net").mkdir()
    (tmp_path / "profiles/net/placements.csv").write_text("placement,local_bsz,step_time\n1,8,0.1\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "rates.csv").write_text("profile,accelerator,gpus,steps_per_second\nmine,V100,1,10\n")


def test_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = rota(capsys, monkeypatch, "profile", "scaling", "profiles")
    assert code == 0 and not err
    lines = out.splitlines()
    assert lines[0].split() == ["MODEL", "TYPE", "POINTS", "ERROR", "P90", "LOCAL", "NOISE", "EFFICIENCY"]
    fitted, few = lines[1].split(), lines[2].split()
    assert fitted[:3] == ["cifar10", "T4", "24"] and fitted[3].endswith("%") and fitted[-1] == "61%"
    assert few == ["net", "T4", "1", "-", "-", "8", "-", "-"], "too few to fit a model to, and no efficiency is known"
    assert "gradient noise scale" in out and all(len(line) <= 100 for line in lines)


def test_json_and_csv(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = rota(capsys, monkeypatch, "profile", "scaling", "profiles", "-o", "json")
    first, second = json.loads(out)
    assert code == 0 and (first["model"], first["accelerator"], first["points"]) == ("cifar10", "T4", 24)
    assert 0 <= first["typical_error"] <= first["p90_error"] and first["mean_error"] < 0.05 and first["most_local"] == 64
    assert second["mean_error"] is None and second["noise_examples"] is None
    code, out, _ = rota(capsys, monkeypatch, "profile", "scaling", "profiles", "-o", "csv")
    rows = out.splitlines()
    assert code == 0 and len(rows) == 3
    assert rows[0] == "model,accelerator,points,mean_error,typical_error,p90_error,most_local,noise_examples,efficiency"
    assert rows[2] == "net,T4,1,,,,8.0,,"


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (("nowhere",), ("nowhere", "no such folder")),
        (("empty",), ("empty", "no measurements in this folder")),
        (("rates.csv",), ("rates.csv", "is not a folder")),
        (("profiles", "-o", "xml"), ("-o", "xml")),
    ],
)
def test_what_is_mistyped(
    words: tuple[str, ...], seen: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = rota(capsys, monkeypatch, "profile", "scaling", *words)
    assert code == 2 and not out
    assert all(part in err for part in seen), err
    assert err.splitlines()[-1].startswith("Try: ") and len(err.splitlines()) == 2
