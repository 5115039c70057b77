"""`rota check`: every kind of file, right and wrong."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.test_bad_input import folder, rota

__all__ = ["folder"]


@pytest.mark.slow
def test_what_is_right_is_said(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "fine.yaml").write_text("run: train\ngpus: 4\n")
    (folder / "fine.csv").write_text("profile,accelerator,gpus,steps_per_second\nx,V100,1,2.5\n")
    (folder / "mine.py").write_text(
        "import rota\nclass Mine:\n    def allocate(self, view): return rota.Ranking.by(view.jobs.submitted_s)\n"
    )
    files = ["good.csv", "good.yaml", "fine.yaml", "fine.csv", "./mine.py:Mine"]
    code, out, _ = rota(capsys, monkeypatch, "check", *files)
    assert code == 0
    kinds = [
        "trace (rota), 2 jobs",
        "cluster, 1 node with 8 V100",
        "job spec, 4 GPUs",
        "rates, 1 profile on",
        "policy, keeps all",
    ]
    for line, file, kind in zip(out.splitlines(), files, kinds, strict=True):
        assert line.startswith(f"{file}  ok: {kind}")


def test_a_variable_that_is_not_set_here_may_be_set_where_the_job_is_submitted(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "fine.yaml").write_text("run: train\nenv:\n  HF_TOKEN:\n  ELSEWHERE:\n  EPOCHS: 90\n")
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.delenv("ELSEWHERE", raising=False)
    code, out, err = rota(capsys, monkeypatch, "check", "fine.yaml")
    said = "fine.yaml  ok: job spec, 1 GPU of any type; to be set where it is submitted: ELSEWHERE\n"
    assert (code, out, err) == (0, said, "")


def test_what_is_wrong_is_said_for_each(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ["good.csv", "job.yaml", "floor.yaml", "rates.csv", "text.csv", "absent.csv", "./raising.py", "binary.csv"]
    code, out, _ = rota(capsys, monkeypatch, "check", *files, "-o", "json")
    assert code == 2
    found = json.loads(out)
    assert [row["file"] for row in found] == files
    assert [row["ok"] for row in found] == [True] + [False] * 7
    assert (found[1]["line"], "Closest: gpus" in found[1]["error"]) == (2, True)
    assert (found[2]["line"], found[3]["line"], found[4]["line"]) == (2, 2, 3)
    assert all(row["hint"] for row in found[1:])
    code, out, err = rota(capsys, monkeypatch, "check", *files)
    assert code == 2 and err.count("\nTry: ") == 7 and out.count("ok:") == 1


def test_example_of_the_contract(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = rota(capsys, monkeypatch, "check", "job.yaml")
    assert code == 2 and "job.yaml:2" in err and "unknown field 'gpu'. Closest: gpus" in err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("afterwards: [1]", "unknown field 'afterwards'. Closest: after"),
        ("max_run_time: soon", "is not a length of time"),
        ("deadline: 2020-01-01T00:00", "in the past"),
    ],
)
def test_what_submit_refuses_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, words: str
) -> None:
    (folder / "spec.yaml").write_text(f"run: train\nname: mine\n{line}\n")
    code, out, err = rota(capsys, monkeypatch, "check", "spec.yaml")
    assert (code, out) == (2, "") and "spec.yaml:3" in err and words in err


def test_tenants_are_known(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "tenants.yaml").write_text("vision: {weight: 2, policy: fifo, tenants: {labs: {weight: 3}}}\nspeech:\n")
    (folder / "wrong.yaml").write_text("vision: {weight: 2}\nspeech: {weight: -1}\n")
    code, out, _ = rota(capsys, monkeypatch, "check", "tenants.yaml")
    assert (code, out) == (0, "tenants.yaml  ok: tenants, 3 with weights from 1 to 3\n")
    code, _, err = rota(capsys, monkeypatch, "check", "wrong.yaml")
    assert code == 2 and "wrong.yaml:2" in err and "weight" in err
