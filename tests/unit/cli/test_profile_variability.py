"""`rota profile variability` and `rota profile classes` as a user runs them."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.test_bad_input import rota

SCORES = "gpu,class,score,spread\n0,A,0.9,0.02\n1,A,1.0,\n2,A,2.8,\n0,B,1.01,\n"
RUNS = "uuid,perf\n" + "".join(f"g{gpu},{10 + gpu + run / 10}\n" for gpu in range(12) for run in range(3))
USE = "profile,compute,dram\ngemm,90,20\nvgg,88,22\nspmv,5,90\nstream,7,92\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("scores", SCORES), ("runs", RUNS), ("use", USE)):
        Path(f"{name}.csv").write_text(text)


def test_variability(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = rota(capsys, monkeypatch, "profile", "variability", "scores.csv")
    assert code == 0 and not err
    assert "GPUs of A beyond 1.5: 2 (2.80)" in out and "bins of B: " in out and "As the file has them." in out
    code, out, _ = rota(
        capsys, monkeypatch, "profile", "variability", "runs.csv", "--cluster", "2x(4xV100)", "--variability-medians"
    )
    assert code == 0 and "median of a real GPU's runs" in out and "seed 0" in out
    assert all(len(line) <= 130 for line in out.splitlines())
    words = ("profile", "variability", "runs.csv", "--cluster", "2x(4xV100)", "--seed", "3")
    code, out, _ = rota(capsys, monkeypatch, *words, "-o", "json")
    found = json.loads(out)
    assert code == 0 and found["gpus"] == 8 and found["seed"] == 3 and found["sampled"] is True
    assert sum(count for _, count in found["classes"][0]["bins"]) == 8
    assert rota(capsys, monkeypatch, *words, "-o", "json")[1] == out, "the same seed, the same scores"
    code, out, _ = rota(capsys, monkeypatch, *words, "-o", "csv")
    assert code == 0 and out.startswith("name,gpus,least,median,most,spread,bins,outliers\nA,8,")


def test_classes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = rota(capsys, monkeypatch, "profile", "classes", "use.csv")
    assert code == 0 and not err and "A: gemm, vgg" in out and "B: spmv, stream" in out
    code, out, _ = rota(capsys, monkeypatch, "profile", "classes", "use.csv", "-o", "json")
    assert [line["name"] for line in json.loads(out)["classes"]] == ["A", "B"]
    code, out, _ = rota(capsys, monkeypatch, "profile", "classes", "use.csv", "-o", "csv")
    assert code == 0 and out.splitlines()[:2] == ["profile,class", "gemm,A"]


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (("variability", "nowhere"), ("nowhere", "no such file")),
        (("variability", "."), ("no profiles.json",)),
        (("variability", "use.csv"), ("use.csv:1", "neither")),
        (("variability", "scores.csv", "--cluster", "2xV100"), ("scores.csv:4", "gpu: '2'")),
        (("variability", "scores.csv", "--cluster", "V100"), ("cluster", "V100")),
        (("variability", "runs.csv", "--seed", "-1"), ("--seed", "-1")),
        (("variability", "runs.csv", "-o", "xml"), ("-o", "xml")),
        (("classes", "nowhere.csv"), ("nowhere.csv", "no such file")),
        (("classes", "runs.csv"), ("runs.csv:1", "uuid")),
    ],
)
def test_what_is_mistyped(
    words: tuple[str, ...], seen: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = rota(capsys, monkeypatch, "profile", *words)
    assert code == 2 and not out
    assert all(part in err for part in seen), err
    assert err.splitlines()[-1].startswith("Try: ") and len(err.splitlines()) == 2
