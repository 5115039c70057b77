"""`rota profile` as a user runs it."""

import json
from pathlib import Path

import pytest

from rota.profiles.describe import TYPES
from rota.profiles.workloads import WORKLOADS
from tests.unit.cli.test_bad_input import rota

CELLS = [(kind, gpus) for kind in ("K80", "V100") for gpus in (1, 2, 4)]


def test_list(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = rota(capsys, monkeypatch, "profile", "list")
    assert code == 0
    lines = out.splitlines()
    assert all(len(line) <= 100 for line in lines) and "…" not in out
    assert {line.split()[0] for line in lines[1:-1]} == set(WORKLOADS)
    code, out, _ = rota(capsys, monkeypatch, "profile", "list", "-o", "json")
    listed = json.loads(out)
    assert code == 0 and len(listed) == len(WORKLOADS)
    assert set(listed[0]["steps_per_second"]) == set(TYPES)


def test_show_a_profile(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = rota(capsys, monkeypatch, "profile", "show", "resnet50/global256")
    assert code == 0 and "25.6M parameters, skew 0.09, 256 examples per gang" in out and "H200" in out
    code, out, _ = rota(capsys, monkeypatch, "profile", "show", "llama7b", "-o", "json")
    ways = json.loads(out)["rates"]
    assert json.loads(out)["skew"] == WORKLOADS["llama7b"].skew
    assert {(way["accelerator"], way["gpus"]): way["fits"] for way in ways}["A100", 8]
    assert not {(way["accelerator"], way["gpus"]): way["fits"] for way in ways}["A100", 1]


def test_show_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("profile,accelerator,gpus,steps_per_second\nresnet50,V100,1,5\nmine,K80,2,0\n")
    code, out, _ = rota(capsys, monkeypatch, "profile", "show", str(path))
    assert code == 0 and "2 profiles on K80, V100" in out and "1 of the profiles" in out
    code, out, _ = rota(capsys, monkeypatch, "profile", "show", str(path), "-o", "json")
    assert json.loads(out)["unknown"] == ["mine"]


def test_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("profile,accelerator,gpus,steps_per_second\nresnet50,V100,1,5\nmine,K80,2,1\n")
    code, out, _ = rota(capsys, monkeypatch, "profile", "error", str(path), "--rename-type", "v100=rtx5000")
    assert code == 0 and "RTX5000" in out and "1 measurements are of profiles" in out
    code, out, _ = rota(capsys, monkeypatch, "profile", "error", str(path), "-o", "json")
    assert json.loads(out)["lines"][0]["cells"] == 1


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (("show", "resnet5"), ("resnet5", "Closest: resnet50")),
        (("show", "resnet50/bs0"), ("resnet50/bs0",)),
        (("show", "nowhere.csv"), ("nowhere.csv", "no such file")),
        (("show", "nowhere.json"), ("nowhere.json", "no such file")),
        (("error", "nowhere.csv"), ("nowhere.csv", "no such file")),
        (("error", "."), ("no measurements in this folder",)),
        (("error", "x.csv", "--rename-type", "V100"), ("--rename-type", "V100")),
        (("list", "-o", "xml"), ("-o", "xml")),
        (("estimate", "nowhere.csv"), ("nowhere.csv", "no such file")),
        (("estimate", "one.csv"), ("one.csv", "has 1 profile")),
        (("estimate", "one.csv", "--hide", "1"), ("--hide", "1.0", "between 0 and 1")),
        (("estimate", "one.csv", "--hide", "half"), ("--hide", "half")),
        (("estimate", "one.csv", "--seed", "-1"), ("--seed", "-1")),
    ],
)
def test_what_is_mistyped(
    words: tuple[str, ...],
    seen: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("profile,accelerator,steps_per_second\nmine,V100,1\n")
    code, out, err = rota(capsys, monkeypatch, "profile", *words)
    assert code == 2 and not out
    assert all(part in err for part in seen)
    assert err.splitlines()[-1].startswith("Try: ") and len(err.splitlines()) == 2


def test_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.csv"
    rows = [f"{name},{kind},{gpus},,{rate * gpus}" for name, rate in (("a", 1.0), ("b", 2.0), ("c", 5.0)) for kind, gpus in CELLS]
    rows += [f"{one},V100,1,{other},1" for one in "abc" for other in "abc"]
    path.write_text("profile,accelerator,gpus,beside,steps_per_second\n" + "\n".join(rows))
    code, out, err = rota(capsys, monkeypatch, "profile", "estimate", str(path), "--hide", "0.5")
    assert code == 0 and not err and "MISJUDGED" in out and "3 profiles, 50% of the cells" in out
    words = ("profile", "estimate", str(path), "--hide", "0.5", "--seed", "3")
    code, out, _ = rota(capsys, monkeypatch, *words, "-o", "json")
    report = json.loads(out)
    lines = {(line["what"], line["accelerator"]): line for line in report["lines"]}
    assert code == 0 and report["seed"] == 3
    whole = lines["exclusive", "all"]
    assert whole["cells"] == 3 * 3 and whole["typical_factor"] == pytest.approx(1.0, abs=0.01)
    assert whole["naive_typical_factor"] > 1.1 and ("colocated", "V100") in lines
    assert rota(capsys, monkeypatch, *words, "-o", "json")[1] == out, "the same seed, the same cells"
    code, out, _ = rota(capsys, monkeypatch, *words, "-o", "csv")
    assert code == 0 and out.startswith("what,accelerator,cells,typical_factor")
